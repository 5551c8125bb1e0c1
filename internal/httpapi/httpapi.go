// Package httpapi serves the HTTP API, health checks and, where they are given to it, MCP, on one
// address. What there is stands in one table of routes, with the access that each needs in its row.
//
// Whoever reaches the unix socket, which only its owner can open, is the local user. Everybody else
// says who they are, with an API key or an access token, and each row of the table says which role
// that takes. Without sign-in it is served on loopback addresses only, where the Host and Origin of
// every request are checked, so that no web page can use the browser to reach it, and where what is
// an auditor's, an approver's or an admin's is not open.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/identity"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/usage"
	"github.com/biplane-dev/biplane/internal/web"
)

// Config is what a Server is made of. All must be set but what says otherwise.
type Config struct {
	Door      tool.Caller // takes every call
	Index     Index
	Status    func() api.Status
	Upstreams func(context.Context) []api.Upstream
	Sandboxes func(context.Context) []api.Capability
	Execution func(id string) (*execution.Execution, bool)
	Hide      func([]byte) []byte // takes secrets out of JSON that is told of journals; nil: none is known
	Sessions  Sessions
	Skills    Skills
	Journals  Journals
	Audit     Audit
	Approvals Approvals
	Policies  Policies // nil: none
	Usage     func(context.Context, usage.Query) (*usage.Report, error)
	Ready     func() error   // why the process can't do its work yet; nil when it can
	Principal tool.Principal // the local user

	// Authenticate says who makes a request that didn't come over the socket. An *identity.Refusal
	// says with which status and header it is refused. Nil: there is no sign-in.
	Authenticate func(*http.Request, identity.Need) (tool.Principal, error)
	// Network takes requests for any Host
	AnyHost bool
	// the metadata of the protected resource (RFC 9728); nil: none
	Resource http.Handler
	// the API keys, which are managed over the socket only
	Keys    Keys
	SignIns SignIns // nil: none
	// of tools, that wait for a person
	Hints   Hints
	MCP     http.Handler // at /mcp; nil: none
	Metrics http.Handler // at /metrics; nil: none
	Pages   *web.Server  // for browsers; nil: none
	// speaks MCP as over stdio; nil: none
	Stdio func(ctx context.Context, connection string, rw io.ReadWriteCloser) error
	Log   *slog.Logger // nil: none
}

// An Index answers what there is.
type Index interface {
	Tools(ctx context.Context, p tool.Principal) []api.Tool
	Tool(ctx context.Context, p tool.Principal, path string) (*api.ToolDetail, error)
	Search(ctx context.Context, p tool.Principal, query string, limit int) ([]api.Hit, error)
	Types(ctx context.Context, p tool.Principal) map[string]string
}

// A Server answers requests. It is safe for concurrent use.
type Server struct {
	cfg    Config
	log    *slog.Logger
	own    road            // of the socket
	open   road            // of the network
	ctx    context.Context // done when Close begins
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	taken  sync.WaitGroup // connections that were taken over
}

// New makes a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Log, own: newRoad(), open: newRoad()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close ends the connections that were taken over for MCP, and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.taken.Wait()
	return nil
}

// An access is who may use a route: a row of needs, but for anyone and owner.
type access int

const (
	anyone   access = iota // whoever can connect: health checks, metadata
	viewer                 // reads what is everybody's, or one's own
	visitor                // a viewer at what is opened before signing in: pages, figures for a scrape
	user                   // runs programs, keeps sessions
	agent                  // speaks MCP
	auditor                // reads everything, of everybody
	approver               // decides on calls that wait for a person
	admin                  // changes what is everybody's
	owner                  // the local user, over the socket only
)

// needs says what a request has to show for each access, where there is sign-in. An admin has all
// roles.
var needs = map[access]identity.Need{
	viewer:   {Scope: identity.ScopeAPI, Roles: []string{identity.Viewer, identity.User, identity.Auditor, identity.Approver}},
	visitor:  {Scope: identity.ScopeAPI, Roles: []string{identity.Viewer, identity.User, identity.Auditor, identity.Approver}, Browsing: true},
	user:     {Scope: identity.ScopeAPI, Roles: []string{identity.User}},
	agent:    {Scope: identity.ScopeMCP, Roles: []string{identity.User}},
	auditor:  {Scope: identity.ScopeAPI, Roles: []string{identity.Auditor}},
	approver: {Scope: identity.ScopeAPI, Roles: []string{identity.Approver}},
	admin:    {Scope: identity.ScopeAPI, Roles: []string{identity.Admin}},
}

type route struct {
	pattern string // of http.ServeMux
	access  access
	lane    lane // whose slots its requests use
	handler func(*Server, http.ResponseWriter, *http.Request)
}

// The routes.
var routes = []route{
	{"GET /healthz", anyone, opens, (*Server).healthz},
	{"GET /readyz", anyone, opens, (*Server).readyz},
	{"GET /metrics", visitor, reads, (*Server).metrics},
	{"GET /{$}", visitor, reads, (*Server).home},
	{"GET " + api.Prefix + "/status", viewer, controls, (*Server).status},
	{"GET " + api.Prefix + "/upstreams", viewer, reads, (*Server).upstreams},
	{"GET " + api.Prefix + "/sandboxes", viewer, reads, (*Server).sandboxes},
	{"GET " + api.Prefix + "/tools", viewer, reads, (*Server).tools},
	{"GET " + api.Prefix + "/tools/search", viewer, reads, (*Server).search},
	{"GET " + api.Prefix + "/tools/types", viewer, reads, (*Server).types},
	{"GET " + api.Prefix + "/tools/{path}", viewer, reads, (*Server).tool},
	{"POST " + api.Prefix + "/tools/{path}/accept", admin, controls, (*Server).acceptHints},
	{"POST " + api.Prefix + "/executions", user, waits, (*Server).run},
	{"GET " + api.Prefix + "/executions", viewer, reads, (*Server).executions},
	{"GET " + api.Prefix + "/executions/{id}", viewer, reads, (*Server).execution},
	{"DELETE " + api.Prefix + "/executions/{id}", user, controls, (*Server).stopExecution},
	{"GET " + api.Prefix + "/executions/{id}/journal", viewer, waits, (*Server).journal},
	{"GET " + api.Prefix + "/executions/{id}/calls/{call}", viewer, reads, (*Server).call},
	{"POST " + api.Prefix + "/executions/{id}/replay", user, waits, (*Server).replay},
	{"GET " + api.Prefix + "/sessions", viewer, reads, (*Server).sessions},
	{"GET " + api.Prefix + "/sessions/{session}", viewer, reads, (*Server).session},
	{"PUT " + api.Prefix + "/sessions/{session}", user, uploads, (*Server).importSession},
	{"DELETE " + api.Prefix + "/sessions/{session}", user, controls, (*Server).endSession},
	{"POST " + api.Prefix + "/sessions/{session}/fork", user, reads, (*Server).forkSession},
	{"POST " + api.Prefix + "/sessions/{session}/export", user, waits, (*Server).exportSession},
	{"GET " + api.Prefix + "/sessions/{session}/files", viewer, reads, (*Server).readFile},
	{"PUT " + api.Prefix + "/sessions/{session}/files", user, uploads, (*Server).writeFile},
	{"POST " + api.Prefix + "/sessions/{session}/files", user, reads, (*Server).changeFile},
	{"GET " + api.Prefix + "/audit", auditor, reads, (*Server).auditState},
	{"GET " + api.Prefix + "/audit/records", auditor, reads, (*Server).auditRecords},
	{"GET " + api.Prefix + "/audit/records/{record}", auditor, reads, (*Server).auditRecord},
	{"POST " + api.Prefix + "/audit/records/{record}/proof", auditor, reads, (*Server).auditProof},
	{"POST " + api.Prefix + "/audit/verify", auditor, waits, (*Server).auditVerify},
	{"GET " + api.Prefix + "/audit/checkpoints", auditor, reads, (*Server).checkpoints},
	{"POST " + api.Prefix + "/audit/checkpoints", auditor, reads, (*Server).makeCheckpoint},
	{"POST " + api.Prefix + "/audit/consistency", auditor, reads, (*Server).auditConsistency},
	{"GET " + api.Prefix + "/audit/export", auditor, waits, (*Server).auditExport},
	{"GET " + api.Prefix + "/audit/evidence", auditor, waits, (*Server).auditEvidence},
	{"GET " + api.Prefix + "/skills", viewer, reads, (*Server).skills},
	{"GET " + api.Prefix + "/skills/{skill}", viewer, reads, (*Server).skill},
	{"DELETE " + api.Prefix + "/skills/{skill}", user, reads, (*Server).removeSkill},
	{"POST " + api.Prefix + "/skills/{skill}/share", admin, reads, (*Server).shareSkill},
	{"POST " + api.Prefix + "/skills/{skill}/unshare", admin, reads, (*Server).unshareSkill},
	{"GET " + api.Prefix + "/approvals", viewer, reads, (*Server).approvals},
	{"GET " + api.Prefix + "/approvals/{id}", viewer, reads, (*Server).approval},
	{"POST " + api.Prefix + "/approvals/{id}", approver, controls, (*Server).decide},
	{"GET " + api.Prefix + "/usage", viewer, reads, (*Server).usage},
	{"GET " + api.Prefix + "/policy/schema", auditor, reads, (*Server).policySchema},
	{"POST " + api.Prefix + "/policy/check", auditor, reads, (*Server).policyCheck},
	{"POST " + api.Prefix + "/policy/explain", auditor, reads, (*Server).policyExplain},
	{"POST " + api.Prefix + "/policy/replay", auditor, waits, (*Server).policyReplay},
	{"POST " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, waits, (*Server).beginSignIn},
	{"GET " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, waits, (*Server).awaitSignIn},
	{"DELETE " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, reads, (*Server).endSignIn},
	{"GET " + api.Prefix + "/keys", owner, controls, (*Server).keys},
	{"POST " + api.Prefix + "/keys", owner, controls, (*Server).createKey},
	{"POST " + api.Prefix + "/keys/{key}/rotate", owner, controls, (*Server).rotateKey},
	{"DELETE " + api.Prefix + "/keys/{key}", owner, controls, (*Server).revokeKey},
	{"GET /mcp/stdio", owner, reads, (*Server).stdio},
	{"/mcp", agent, reads, (*Server).mcp},
	{"GET " + resourcePath, anyone, opens, (*Server).resource},
	{"GET " + resourcePath + "/mcp", anyone, opens, (*Server).resource},
}

// Socket serves a unix socket that only the user can open: all routes.
func (s *Server) Socket() http.Handler {
	return s.handler(&s.own, socketOnly, s.local, nil)
}

// Loopback serves a loopback address where there is no sign-in: to requests that name a loopback
// host and come from no other site. Whoever has an account on this machine reaches it.
func (s *Server) Loopback() http.Handler {
	who := func(r *http.Request, a access) (tool.Principal, error) {
		if a > agent {
			return tool.Principal{}, tool.Errorf(tool.Denied, "%s %s is not open here, where nobody signs in: use the command line, or sign-in (auth in the configuration)", r.Method, r.URL.Path)
		}
		p := s.cfg.Principal // or anybody else of this machine: what takes a role, the name alone doesn't give
		p.Roles = []string{identity.User}
		return p, nil
	}
	return s.handler(&s.open, sameSite, who, s.pages(false, who))
}

// Network serves an address that anybody may reach: to requests that say who makes them. With
// Authenticate only.
func (s *Server) Network() http.Handler {
	check := sameSite
	if s.cfg.AnyHost {
		check = sameOrigin
	}
	who := func(r *http.Request, a access) (tool.Principal, error) {
		switch {
		case a == owner:
			return tool.Principal{}, tool.Errorf(tool.Denied, "%s %s is for the command line on the machine itself", r.Method, r.URL.Path)
		case s.cfg.Authenticate == nil:
			return tool.Principal{}, tool.Errorf(tool.Denied, "nobody can sign in here")
		}
		return s.cfg.Authenticate(r, needs[a])
	}
	return s.handler(&s.open, check, who, s.pages(true, who))
}

// local is who makes a request that only the local user can make.
func (s *Server) local(*http.Request, access) (tool.Principal, error) { return s.cfg.Principal, nil }

// principal is who makes a request that handler has let through.
func (s *Server) principal(r *http.Request) tool.Principal {
	p, _ := identity.From(r.Context())
	return p
}

// pages are those for browsers, on a listener where who says who makes a request; nil where there
// are none.
func (s *Server) pages(signIn bool, who func(*http.Request, access) (tool.Principal, error)) http.Handler {
	if s.cfg.Pages == nil {
		return nil
	}
	return s.cfg.Pages.Handler(web.Access{
		SignIn: signIn,
		Who: func(r *http.Request, decide bool) (tool.Principal, error) {
			if decide {
				return who(r, approver)
			}
			return who(r, visitor)
		},
		Gather: s.open.gather,
		Enter: func(r *http.Request, p tool.Principal, decide bool) (func(), error) {
			if decide {
				return s.open.enter(controls, r, p)
			}
			return s.open.enter(reads, r, p)
		},
	})
}

// handler serves the routes, to requests that check lets through and whose maker who names, and
// pages, where there are any.
func (s *Server) handler(ways *road, check func(*http.Request) string, who func(*http.Request, access) (tool.Principal, error), pages http.Handler) http.Handler {
	groups := map[string][]route{"": nil}
	for _, rt := range routes {
		_, path, _ := strings.Cut(rt.pattern, " ")
		groups[group(path)] = append(groups[group(path)], rt)
	}
	muxes := map[string]func() *http.ServeMux{}
	for name, list := range groups {
		muxes[name] = sync.OnceValue(func() *http.ServeMux {
			if name != "" {
				return s.mux(ways, list, who, nil)
			}
			return s.mux(ways, list, who, pages)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if msg := check(r); msg != "" {
			fail(w, &tool.Error{Kind: tool.Denied, Msg: msg})
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if r.ContentLength != 0 { // also of a body that nothing reads
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
		mux := muxes[group(r.URL.Path)]
		if mux == nil {
			mux = muxes[""]
		}
		if r.URL.Path != "/mcp" { // which bounds its writes itself
			p := patient{w}
			p.begin()
			w = p
		}
		mux().ServeHTTP(w, r)
	})
}

// group names those routes that a request of a path can be for: of the API, what comes after its
// prefix. Their mux is made when the first one comes: one of all routes takes longer to make than
// many requests to answer.
func group(path string) string {
	rest, ok := strings.CutPrefix(path, api.Prefix+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// mux serves some of the routes, and pages, where there are any.
func (s *Server) mux(ways *road, list []route, who func(*http.Request, access) (tool.Principal, error), pages http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	if pages != nil {
		for _, path := range web.Paths() {
			mux.Handle(path, pages)
		}
	}
	for _, rt := range list {
		serve := s.bounded(ways, rt)
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			if rt.access != anyone {
				p, err := who(r, rt.access)
				if err != nil {
					refuse(w, err)
					return
				}
				r = r.WithContext(identity.With(r.Context(), p))
			}
			serve.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, tool.Errorf(tool.NotFound, "nothing is at %s %s: the API begins at %s, MCP is at /mcp", r.Method, r.URL.Path, api.Prefix))
	})
	return mux
}

// bounded bounds how many requests of a route's lane are under way, how large their bodies are and
// how long these take to arrive.
func (s *Server) bounded(ways *road, rt route) http.Handler {
	l := rt.lane
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.access == agent { // MCP has bounds of its own
			rt.handler(s, w, r)
			return
		}
		p := s.principal(r)
		if r.Method == http.MethodPost {
			// A form can send no such type to another site without asking it first.
			if ct, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(ct) != "application/json" {
				fail(w, tool.Errorf(tool.Invalid, "the body's Content-Type must be application/json"))
				return
			}
			release, err := ways.gather(w, r, p, bodyBytes)
			if err != nil {
				fail(w, err)
				return
			}
			defer release()
		}
		leave, err := ways.enter(l, r, p)
		if err != nil {
			fail(w, err)
			return
		}
		defer leave()
		rt.handler(s, w, r)
	})
}

// socketOnly refuses browsers: none has a reason to be here.
func socketOnly(r *http.Request) string {
	if r.Header.Get("Origin") != "" {
		return "requests of web pages are not served here"
	}
	return ""
}

// statusOf is the table from kinds of errors to HTTP.
var statusOf = map[tool.Kind]int{
	tool.Invalid:     http.StatusBadRequest,
	tool.NotFound:    http.StatusNotFound,
	tool.Conflict:    http.StatusConflict,
	tool.Denied:      http.StatusForbidden,
	tool.Limit:       http.StatusTooManyRequests,
	tool.Timeout:     http.StatusGatewayTimeout,
	tool.Unavailable: http.StatusServiceUnavailable,
	tool.Canceled:    499, // as other servers say "client closed request"
	tool.Internal:    http.StatusInternalServerError,
}

func fail(w http.ResponseWriter, err error) {
	e := tool.AsError(err)
	status := statusOf[e.Kind]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if s := e.RetrySeconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(s))
	}
	write(w, status, map[string]any{"error": api.Error{Kind: string(e.Kind), Message: e.Msg}})
}

func write(w http.ResponseWriter, status int, v any) {
	text, err := tool.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error":{"kind":"internal","message":"the answer can't be written"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// A client that went away needs no answer.
	_, _ = w.Write(append(text, '\n'))
}

// writeHidden is write of what a journal has, without secrets that are known.
func (s *Server) writeHidden(w http.ResponseWriter, v any) {
	text, err := tool.Marshal(v)
	if err == nil && s.cfg.Hide != nil {
		text = s.cfg.Hide(text)
	}
	if err != nil {
		fail(w, err)
		return
	}
	write(w, http.StatusOK, json.RawMessage(text))
}

// read decodes the body of r into v, strictly.
func read(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.New("something follows the object")
		}
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tool.Errorf(tool.Limit, "the body is larger than %d bytes", large.Limit)
	}
	return tool.Errorf(tool.Invalid, "the body is not what this route takes: %w", err)
}
