// Package web serves the pages that people use in a browser: what waits for a person, and the decision on it.
//
// The pages are HTML from templates and one style sheet, both in the binary: no scripts, nothing from elsewhere. They are behind the
// same sign-in as the HTTP API: a form takes an API key or an access token, a cookie holds the name of the session that comes of it,
// and each request is checked anew by that credential. All that is shown of a request is hostile: it is escaped for HTML, and what
// doesn't show is written as the escape that means the same.
package web

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/approval"
	"github.com/biplane-dev/biplane/internal/identity"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config is what a Server is made of. Approvals must be set.
type Config struct {
	Approvals approval.Requests
	// Program gives the text of the program that made a call; empty where it is not kept. It may be nil.
	Program func(ctx context.Context, r *approval.Request) string
	Secure  bool             // browsers come over TLS: cookies are for it only
	Log     *slog.Logger     // nil: none
	Now     func() time.Time // default time.Now
}

// A Server serves the pages. It is safe for concurrent use.
type Server struct {
	cfg       Config
	sessions  *sessions
	templates func() *template.Template // parsed for the first page
	origins   *http.CrossOriginProtection
}

//go:embed pages
var files embed.FS

// New makes a Server.
func New(cfg Config) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Program == nil {
		cfg.Program = func(context.Context, *approval.Request) string { return "" }
	}
	return &Server{cfg: cfg, sessions: newSessions(cfg.Now), origins: http.NewCrossOriginProtection(), templates: sync.OnceValue(parsed)}
}

// parsed gives the templates of the pages.
func parsed() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"line": tool.VisibleLine,
		"time": func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	}).ParseFS(files, "pages/*.html"))
}

// An Access says how who comes in is known on one listener.
type Access struct {
	SignIn bool // people sign in; else Who knows them without
	// Who says who makes a request, if they may look, or, with decide, decide. An *identity.Refusal with status 401 means that it is not known.
	Who func(r *http.Request, decide bool) (tool.Principal, error)
	// Gather reads the body of a request, of at most so many bytes, which count as held until release. It may be nil.
	Gather func(w http.ResponseWriter, r *http.Request, p tool.Principal, most int64) (release func(), err error)
	// Enter holds a slot for a request of p, of nobody before sign-in, until leave, once its body is there. It may be nil.
	Enter func(r *http.Request, p tool.Principal, decide bool) (leave func(), err error)
}

// Paths are the patterns of what Handler serves, as http.ServeMux has them.
func Paths() []string {
	return []string{"/approvals", "/approvals/{id}", "/sign-in", "/sign-out", "/style.css"}
}

// A page is one row of the table of pages.
type page struct {
	pattern string
	access  access
	serve   func(*Server, *visit) error
}

// An access is who may see a page.
type access int

const (
	anyone  access = iota
	looks          // whoever may read
	decides        // whoever may decide
)

var pages = []page{
	{"GET /approvals", looks, (*Server).list},
	{"GET /approvals/{id}", looks, (*Server).one},
	{"POST /approvals", decides, (*Server).decide},
	{"GET /sign-in", anyone, (*Server).signInForm},
	{"POST /sign-in", anyone, (*Server).signIn},
	{"POST /sign-out", anyone, (*Server).signOut},
	{"GET /style.css", anyone, (*Server).style},
}

// A visit is one request for a page.
type visit struct {
	w      http.ResponseWriter
	r      *http.Request
	access Access
	who    tool.Principal
}

// How large forms may be, in bytes.
const (
	formBytes   = 128 << 10              // the names of as many requests as a page shows
	signInBytes = 3*maxCredential + 4096 // a credential, escaped, and where to go then
)

// Handler serves the pages to those whom a lets in. Host and Origin were checked before: see the listeners of package httpapi.
func (s *Server) Handler(a Access) http.Handler {
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.HandleFunc(p.pattern, func(w http.ResponseWriter, r *http.Request) {
			v := &visit{w: w, r: r, access: a}
			if err := s.visit(v, p); err != nil {
				s.fail(v, err)
			}
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
		h.Set("X-Frame-Options", "DENY")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin") // with none at all, browsers would send forms without their origin
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// visit serves one page, if who asks may see it. A slot is taken when the form has arrived, of the shares of who sent it.
func (s *Server) visit(v *visit, p page) error {
	if v.r.Method == http.MethodPost {
		if err := s.origins.Check(v.r); err != nil {
			return tool.Errorf(tool.Denied, "this form was not sent by a page of Biplane: open the page here, and send it again")
		}
	}
	if p.access != anyone {
		var err error
		if v.who, err = s.known(v.r, v.access, p.access == decides); err != nil {
			var no *identity.Refusal
			if v.access.SignIn && errors.As(err, &no) && no.Status == http.StatusUnauthorized {
				return s.toSignIn(v)
			}
			return err
		}
	}
	if v.r.Method == http.MethodPost {
		most := int64(formBytes)
		if p.access == anyone {
			most = signInBytes
		}
		release, err := v.gather(most)
		if err != nil {
			return err
		}
		defer release()
		if err := v.r.ParseForm(); err != nil {
			return tool.Errorf(tool.Invalid, "the form can't be read: it is too large, or no form")
		}
	}
	if v.access.Enter != nil {
		leave, err := v.access.Enter(v.r, v.who, p.access == decides)
		if err != nil {
			return err
		}
		defer leave()
	}
	return p.serve(s, v)
}

func (v *visit) gather(most int64) (release func(), err error) {
	if v.access.Gather == nil {
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, most)
		return func() {}, nil
	}
	return v.access.Gather(v.w, v.r, v.who, most)
}

// fail shows an error.
func (s *Server) fail(v *visit, err error) {
	e := tool.AsError(err)
	status, ok := map[tool.Kind]int{
		tool.Invalid: http.StatusBadRequest, tool.NotFound: http.StatusNotFound, tool.Conflict: http.StatusConflict,
		tool.Denied: http.StatusForbidden, tool.Limit: http.StatusTooManyRequests, tool.Unavailable: http.StatusServiceUnavailable,
	}[e.Kind]
	if !ok {
		status = http.StatusInternalServerError
		s.cfg.Log.Error("a page", "path", v.r.URL.Path, "err", err)
	}
	s.show(v, status, "error.html", e.Msg)
}

// show writes a page from its template: whole, or not at all.
func (s *Server) show(v *visit, status int, name string, data any) {
	var b bytes.Buffer
	if err := s.templates().ExecuteTemplate(&b, name, map[string]any{"Who": v.who, "SignedIn": v.access.SignIn && v.who.ID != "", "Data": data}); err != nil {
		s.cfg.Log.Error("write a page", "page", name, "err", err)
		http.Error(v.w, "the page can't be written", http.StatusInternalServerError)
		return
	}
	v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(b.Bytes()) // a browser that went away needs no page
}

// style gives the style sheet.
func (s *Server) style(v *visit) error {
	text, err := files.ReadFile("pages/style.css")
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = v.w.Write(text)
	return nil
}
