// Package console serves the web console: pages for browsers that show executions, sessions, tools,
// policies, the record and usage, and accept decisions on calls that wait for approval. On other
// pages, people sign in to upstreams that each principal uses with their own account.
//
// The pages are HTML from templates, with one style sheet and one script, all embedded in the
// binary. They work without the script, and use no external resources. They require the same
// sign-in as the HTTP API: a form accepts an API key or an access token, or people sign in at an
// identity provider. A cookie holds the name of the session, and the credential is checked with
// each request. A page reads and changes what it shows through the API, in process, with that
// credential. What comes from outside is not trusted: it is escaped for HTML, and invisible
// characters are shown as escapes.
package console

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Server. Approvals is required.
type Config struct {
	Approvals approval.Requests
	// Program returns the source of the program that made a call, or "" if it is not kept. It may
	// be nil.
	Program func(ctx context.Context, r *approval.Request) string
	SignIns SignIns // nil: none
	// Provider signs people in at an identity provider; nil: only with a key or a token.
	Provider Provider
	Secure   bool             // browsers use TLS: cookies are restricted to it
	Log      *slog.Logger     // nil: none
	Clock    *wallclock.Clock // nil: the system's
}

// A Server serves the pages. It is safe for concurrent use.
type Server struct {
	cfg       Config
	sessions  *sessions
	templates lazily.Value[*template.Template] // parsed for the first page
	origins   *http.CrossOriginProtection
	timelines *timelines
	live      liveViews
}

//go:embed pages
var files embed.FS

// New returns a Server.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Program == nil {
		cfg.Program = func(context.Context, *approval.Request) string { return "" }
	}
	return &Server{cfg: cfg, sessions: newSessions(cfg.Clock), origins: http.NewCrossOriginProtection(),
		timelines: newTimelines(), templates: lazily.Value[*template.Template]{Make: parseTemplates}}
}

// parseTemplates returns the templates of the pages.
func parseTemplates() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"line":     tool.VisibleLine,
		"text":     func(s string) string { return tool.Visible([]byte(s)) },
		"time":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"count":    formatCount,
		"number":   text.Count,
		"bytes":    func(n any) string { return formatBytes(reflect.Indirect(reflect.ValueOf(n)).Int()) },
		"duration": formatDuration,
		"idle":     func(t time.Time) string { return formatDuration(time.Since(t).Milliseconds()) },
		"money":    func(v *float64) string { return fmt.Sprintf("%.4f", *v) },
		"diff":     splitDiff,
		"deref":    func(b *bool) bool { return b != nil && *b },
	}).ParseFS(files, "pages/*.html"))
}

// An Access describes how callers on one listener are identified.
type Access struct {
	SignIn bool // people sign in; otherwise the gate identifies them without
	Gate   Gate
	API    API
}

// A Gate identifies callers, and bounds their requests.
type Gate interface {
	// Who returns the principal of a request, if it may read, or, with decide, decide. An
	// *identity.Refusal with status 401 means that it is unknown.
	Who(r *http.Request, decide bool) (tool.Principal, error)
	// ReadBody reads the body of a request, of at most the given number of bytes. They count as
	// held until release is called.
	ReadBody(w http.ResponseWriter, r *http.Request, p tool.Principal, most int64) (release func(), err error)
	// EnterLane acquires a slot for a request once its body has arrived, and holds it until leave
	// is called. p is empty before sign-in.
	EnterLane(r *http.Request, p tool.Principal, l Lane) (leave func(), err error)
}

// A Lane is a kind of requests that others can't use up.
type Lane int

// The lanes of pages.
const (
	Reads     Lane = iota // answered at once
	Decisions             // stop or decide
	Waits                 // stay open
)

// ListPaths returns the patterns that Handler serves, in the form of http.ServeMux, without
// methods.
func ListPaths() (out []string) {
	for _, p := range listPages() {
		_, path, _ := strings.Cut(p.pattern, " ")
		if !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

// A page is a row of the table of pages.
type page struct {
	pattern string
	access  access
	serve   func(*visit) error
}

// An access says who may see a page. What a page contains, and what its forms do, is decided by the
// routes of the API that it calls.
type access int

const (
	anyone  access = iota
	looks          // principals who may read
	decides        // principals who may decide
	streams        // as looks; it waits for changes
)

// listPages returns the table of pages.
func listPages() []page {
	return []page{
		{"GET /{$}", looks, showOverview},
		{"GET /executions", looks, listExecutions},
		{"GET /executions/{id}", looks, showPast},
		{"GET /executions/{id}/events", streams, streamExecution},
		{"GET /executions/{id}/calls/{call}", looks, showCall},
		{"POST /executions/{id}/stop", looks, stopExecution},
		{"GET /tools", looks, showTools},
		{"GET /tools/{path}", looks, showTool},
		{"POST /tools/{path}/accept", looks, acceptTool},
		{"POST /tools/{path}/try", looks, tryTool},
		{"GET /playground", looks, showPlayground},
		{"POST /playground", looks, runPlayground},
		{"GET /approvals", looks, showList},
		{"GET /approvals/waiting", looks, listWaiting},
		{"GET /approvals/{id}", looks, showRequest},
		{"POST /approvals", decides, handleDecision},
		{"GET /sessions", looks, listSessions},
		{"GET /sessions/{session}", looks, showSession},
		{"POST /sessions/{session}", looks, changeSession},
		{"POST " + uploadPath, looks, uploadFile},
		{"GET /sessions/{session}/file", looks, downloadFile},
		{"GET /sandboxes/{sandbox}", looks, showSandbox},
		{"POST /sandboxes/{sandbox}", looks, changeSandbox},
		{"POST " + sandboxUploadPath, looks, uploadToSandbox},
		{"GET /sandboxes/{sandbox}/file", looks, downloadFromSandbox},
		{"GET /policy", looks, showPolicy},
		{"GET /policy/edit", looks, showPolicyFile},
		{"POST " + policyFormPath, looks, editPolicy},
		{"GET /audit", looks, listRecords},
		{"GET /audit/export", looks, exportRecord},
		{"POST /audit/verify", looks, verifyRecord},
		{"GET /audit/proof", looks, showProofForm},
		{"POST /audit/proof", looks, checkProofForm},
		{"POST /audit/{record}/proof", looks, proveRecord},
		{"GET /audit/{record}", looks, showRecord},
		{"GET /usage", looks, showUsage},
		{"GET /keys", looks, showKeys},
		{"POST /keys", looks, changeKeys},
		{"GET /connect/{upstream}", looks, showUpstream},
		{"POST /connect/{upstream}", looks, changeSignIn},
		{"GET " + connectedPath, looks, completeSignIn},
		{"GET /sign-in", anyone, signInForm},
		{"POST /sign-in", anyone, signIn},
		{"GET " + beginPath, anyone, beginAtProvider},
		{"GET " + BackPath, anyone, finishAtProvider},
		{"POST /sign-out", anyone, signOut},
		{"GET /style.css", anyone, serveFile},
		{"GET /console.js", anyone, serveFile},
	}
}

// A section is an entry of the navigation. It is shown to those who may use its route of the API.
type section struct{ path, name, route string }

var sections = []section{
	{"/", "Overview", "GET /status"},
	{"/executions", "Executions", "GET /executions"},
	{"/approvals", "Approvals", "GET /approvals"},
	{"/tools", "Tools", "GET /tools"},
	{"/playground", "Playground", "POST /executions"},
	{"/sessions", "Sessions", "GET /sessions"},
	{"/policy", "Policy", "POST /policy/explain"},
	{"/audit", "Audit", "GET /audit/records"},
	{"/usage", "Usage", "GET /usage"},
	{"/keys", "Keys", "GET /keys"},
}

// A visit is one request for a page.
type visit struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	access Access
	who    tool.Principal
}

// Maximum sizes of forms, in bytes.
const (
	formBytes   = 128 << 10              // the names of as many requests as a page shows
	signInBytes = 3*maxCredential + 4096 // a credential, escaped, and the next page
)

// chooseLane returns the lane of the page's requests.
func (p page) chooseLane() Lane {
	switch p.access {
	case decides:
		return Decisions
	case streams:
		return Waits
	}
	return Reads
}

// maxBytes returns the maximum size of the page's form.
func (p page) maxBytes() int64 {
	switch {
	case p.access == anyone:
		return signInBytes
	case strings.HasSuffix(p.pattern, " "+policyFormPath):
		return policyFormBytes
	case strings.HasSuffix(p.pattern, " "+uploadPath), strings.HasSuffix(p.pattern, " "+sandboxUploadPath):
		return uploadBytes
	}
	return formBytes
}

// Handler serves the pages to those whom a lets in. It expects that Host and Origin were checked:
// see the listeners of package httpapi.
func (s *Server) Handler(a Access) http.Handler {
	mux := http.NewServeMux()
	for _, p := range listPages() {
		mux.HandleFunc(p.pattern, func(w http.ResponseWriter, r *http.Request) {
			v := &visit{server: s, w: w, r: r, access: a}
			if err := s.serveVisit(v, p); err != nil {
				v.showError(err)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "+
				"frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // without any, browsers would send forms without their origin
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// serveVisit serves one page, if the caller may see it. For a form, it acquires a slot from the
// sender's share once the form has arrived.
func (s *Server) serveVisit(v *visit, p page) error {
	if v.r.Method == http.MethodPost {
		if err := s.origins.Check(v.r); err != nil {
			return tool.Errorf(tool.Denied,
				"this form was not submitted from a Biplane page: open the page here and submit it again")
		}
	}
	if p.access != anyone {
		var err error
		if v.who, err = s.authenticate(v.r, v.access, p.access == decides); err != nil {
			var no *identity.Refusal
			if v.access.SignIn && errors.As(err, &no) && no.Status == http.StatusUnauthorized {
				return toSignIn(v)
			}
			return err
		}
	}
	if v.r.Method == http.MethodPost {
		release, err := v.access.Gate.ReadBody(v.w, v.r, v.who, p.maxBytes())
		if err != nil {
			return err
		}
		defer release()
		if err := v.r.ParseForm(); err != nil {
			return tool.Errorf(tool.Invalid, "the form can't be read: it is too large or malformed")
		}
	}
	leave, err := v.access.Gate.EnterLane(v.r, v.who, p.chooseLane())
	if err != nil {
		return err
	}
	defer leave()
	return p.serve(v)
}

// showError shows an error.
func (v *visit) showError(err error) {
	e := tool.AsError(err)
	status, ok := map[tool.Kind]int{
		tool.Invalid: http.StatusBadRequest, tool.NotFound: http.StatusNotFound, tool.Conflict: http.StatusConflict,
		tool.Denied: http.StatusForbidden, tool.Limit: http.StatusTooManyRequests,
		tool.Unavailable: http.StatusServiceUnavailable,
	}[e.Kind]
	if !ok {
		status = http.StatusInternalServerError
		v.server.cfg.Log.Error("page failed", "path", v.r.URL.Path, "err", err)
	}
	v.renderPage(status, "error.html", e.Msg)
}

// A link is an entry of the navigation on a page.
type link struct {
	Path, Name string
	Current    bool
}

// A frame is the data of all templates.
type frame struct {
	Who      tool.Principal
	SignedIn bool
	Theme    string // "light" or "dark"; empty: as the browser prefers
	Links    []link
	Data     any
}

func (v *visit) newFrame(data any) *frame {
	f := &frame{Who: v.who, SignedIn: v.access.SignIn && v.who.ID != "", Data: data}
	if c, err := v.r.Cookie("theme"); err == nil && (c.Value == "light" || c.Value == "dark") {
		f.Theme = c.Value
	}
	for _, n := range sections {
		if v.who.ID != "" && v.mayUse(n.route) {
			path := v.r.URL.Path
			f.Links = append(f.Links, link{n.path, n.name, path == n.path || strings.HasPrefix(path, n.path+"/") ||
				n.path == "/sessions" && strings.HasPrefix(path, "/sandboxes/")})
		}
	}
	return f
}

// renderPart returns the text of a template.
func (v *visit) renderPart(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := v.server.templates.Get().ExecuteTemplate(&b, name, v.newFrame(data))
	return b.Bytes(), err
}

// renderPage writes a page from its template, either completely or not at all.
func (v *visit) renderPage(status int, name string, data any) {
	html, err := v.renderPart(name, data)
	if err != nil {
		v.server.cfg.Log.Error("page not written", "page", name, "err", err)
		http.Error(v.w, "the page can't be rendered", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(html) // ignore errors of browsers that disconnected
}

// serveFile serves the style sheet or the script.
func serveFile(v *visit) error {
	file, err := files.ReadFile("pages" + v.r.URL.Path)
	if err != nil {
		return err
	}
	kind := "text/css; charset=utf-8"
	if strings.HasSuffix(v.r.URL.Path, ".js") {
		kind = "text/javascript; charset=utf-8"
	}
	v.w.Header().Set("Content-Type", kind)
	_, _ = v.w.Write(file)
	return nil
}
