// Package httpapi serves the HTTP API, health checks and, if configured, MCP on one address. All
// routes are in one table, with the access that each requires.
//
// Clients of the unix socket, which only its owner can open, are the local user. All others
// authenticate with an API key or an access token, and the table says which role each route
// requires. Without sign-in, only loopback addresses are served. There the Host and Origin of every
// request are checked, so that no web page can use the browser to reach the API. The routes of
// auditors, approvers and admins are refused there.
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
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Server. All fields are required unless noted otherwise.
type Config struct {
	Door      tool.Caller // handles every call
	Index     Index
	Status    func() api.Status
	Upstreams func(context.Context) []api.Upstream
	Sandboxes func(context.Context) []api.Capability
	Execution func(id string) (*execution.Execution, bool)
	Hide      func([]byte) []byte // removes secrets from JSON of journals; nil if none are known
	Sessions  Sessions
	Skills    Skills
	Journals  Journals
	Audit     Audit
	Approvals Approvals
	Policies  Policies // nil: none
	Usage     func(context.Context, usage.Query) (*usage.Report, error)
	Ready     func() error   // returns why the process can't do its work yet, or nil
	Principal tool.Principal // the local user

	// Authenticate returns the principal of a request that didn't come over the socket. If the
	// error is an *identity.Refusal, it has the status and the header of the answer. Nil: there is
	// no sign-in.
	Authenticate func(*http.Request, identity.Need) (tool.Principal, error)
	// AnyHost makes Network accept requests for any Host.
	AnyHost bool
	// Resource serves the metadata of the protected resource (RFC 9728); nil: none.
	Resource http.Handler
	// Keys are the API keys. They are managed over the socket only.
	Keys    Keys
	SignIns SignIns // nil: none
	// Hints accepts the weaker hints of tools.
	Hints   Hints
	MCP     http.Handler    // at /mcp; nil: none
	Metrics http.Handler    // at /metrics; nil: none
	Pages   *console.Server // for browsers; nil: none
	// Stdio speaks MCP as over stdio; nil: none.
	Stdio func(ctx context.Context, connection string, rw io.ReadWriteCloser) error
	Log   *slog.Logger // nil discards
}

// An Index describes the tools in the catalog.
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
	own    laneSet         // for the socket
	open   laneSet         // for the network
	ctx    context.Context // done when Close is called
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	taken  sync.WaitGroup // hijacked connections
}

// New returns a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Log, own: newRoad(), open: newRoad()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Close closes the hijacked MCP connections, and waits for them.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.taken.Wait()
	return nil
}

// An access is what a route requires of its callers. All but anyone and owner have a row in needs.
type access int

const (
	anyone   access = iota // all clients: health checks, metadata
	viewer                 // reads shared data and its own
	visitor                // a viewer on routes that are opened before signing in: pages, metrics
	user                   // runs programs, uses sessions
	agent                  // speaks MCP
	auditor                // reads the data of all principals
	approver               // decides on calls that wait for approval
	admin                  // changes shared data
	owner                  // the local user, over the socket only
)

// needs maps an access to what a request must prove, if there is sign-in. An admin has all roles.
var needs = map[access]identity.Need{
	viewer: {Scope: identity.ScopeAPI,
		Roles: []string{identity.Viewer, identity.User, identity.Auditor, identity.Approver}},
	visitor: {Scope: identity.ScopeAPI,
		Roles: []string{identity.Viewer, identity.User, identity.Auditor, identity.Approver}, Browsing: true},
	user:     {Scope: identity.ScopeAPI, Roles: []string{identity.User}},
	agent:    {Scope: identity.ScopeMCP, Roles: []string{identity.User}},
	auditor:  {Scope: identity.ScopeAPI, Roles: []string{identity.Auditor}},
	approver: {Scope: identity.ScopeAPI, Roles: []string{identity.Approver}},
	admin:    {Scope: identity.ScopeAPI, Roles: []string{identity.Admin}},
}

type route struct {
	pattern string // for http.ServeMux
	access  access
	lane    lane // whose slots its requests use
	handler func(*Server, http.ResponseWriter, *http.Request)
}

// routes lists all routes.
var routes = []route{
	{"GET /healthz", anyone, opens, (*Server).serveHealth},
	{"GET /readyz", anyone, opens, (*Server).serveReady},
	{"GET /metrics", visitor, reads, (*Server).serveMetrics},
	{"GET /{$}", visitor, reads, (*Server).serveHome},
	{"GET " + api.Prefix + "/status", viewer, controls, (*Server).showStatus},
	{"GET " + api.Prefix + "/upstreams", viewer, reads, (*Server).listUpstreams},
	{"GET " + api.Prefix + "/sandboxes", viewer, reads, (*Server).listSandboxes},
	{"GET " + api.Prefix + "/tools", viewer, reads, (*Server).listTools},
	{"GET " + api.Prefix + "/tools/search", viewer, reads, (*Server).searchTools},
	{"GET " + api.Prefix + "/tools/types", viewer, reads, (*Server).exportTypes},
	{"GET " + api.Prefix + "/tools/{path}", viewer, reads, (*Server).showTool},
	{"POST " + api.Prefix + "/tools/{path}/accept", admin, controls, (*Server).acceptHints},
	{"POST " + api.Prefix + "/executions", user, waits, (*Server).runProgram},
	{"GET " + api.Prefix + "/executions", viewer, reads, (*Server).listExecutions},
	{"GET " + api.Prefix + "/executions/{id}", viewer, reads, (*Server).showExecution},
	{"DELETE " + api.Prefix + "/executions/{id}", user, controls, (*Server).stopExecution},
	{"GET " + api.Prefix + "/executions/{id}/journal", viewer, waits, (*Server).showJournal},
	{"GET " + api.Prefix + "/executions/{id}/calls/{call}", viewer, reads, (*Server).showCall},
	{"POST " + api.Prefix + "/executions/{id}/replay", user, waits, (*Server).replayExecution},
	{"GET " + api.Prefix + "/sessions", viewer, reads, (*Server).listSessions},
	{"GET " + api.Prefix + "/sessions/{session}", viewer, reads, (*Server).showSession},
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
	{"GET " + api.Prefix + "/audit/checkpoints", auditor, reads, (*Server).listCheckpoints},
	{"POST " + api.Prefix + "/audit/checkpoints", auditor, reads, (*Server).makeCheckpoint},
	{"POST " + api.Prefix + "/audit/consistency", auditor, reads, (*Server).auditConsistency},
	{"GET " + api.Prefix + "/audit/export", auditor, waits, (*Server).auditExport},
	{"GET " + api.Prefix + "/audit/evidence", auditor, waits, (*Server).auditEvidence},
	{"GET " + api.Prefix + "/skills", viewer, reads, (*Server).listSkills},
	{"GET " + api.Prefix + "/skills/{skill}", viewer, reads, (*Server).showSkill},
	{"DELETE " + api.Prefix + "/skills/{skill}", user, reads, (*Server).removeSkill},
	{"POST " + api.Prefix + "/skills/{skill}/share", admin, reads, (*Server).shareSkill},
	{"POST " + api.Prefix + "/skills/{skill}/unshare", admin, reads, (*Server).unshareSkill},
	{"GET " + api.Prefix + "/approvals", viewer, reads, (*Server).listApprovals},
	{"GET " + api.Prefix + "/approvals/{id}", viewer, reads, (*Server).showApproval},
	{"POST " + api.Prefix + "/approvals/{id}", approver, controls, (*Server).decideApproval},
	{"GET " + api.Prefix + "/usage", viewer, reads, (*Server).showUsage},
	{"GET " + api.Prefix + "/policy/schema", auditor, reads, (*Server).policySchema},
	{"POST " + api.Prefix + "/policy/check", auditor, reads, (*Server).policyCheck},
	{"POST " + api.Prefix + "/policy/explain", auditor, reads, (*Server).policyExplain},
	{"POST " + api.Prefix + "/policy/replay", auditor, waits, (*Server).policyReplay},
	{"POST " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, waits, (*Server).beginSignIn},
	{"GET " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, waits, (*Server).awaitSignIn},
	{"DELETE " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, reads, (*Server).endSignIn},
	{"GET " + api.Prefix + "/keys", owner, controls, (*Server).listKeys},
	{"POST " + api.Prefix + "/keys", owner, controls, (*Server).createKey},
	{"POST " + api.Prefix + "/keys/{key}/rotate", owner, controls, (*Server).rotateKey},
	{"DELETE " + api.Prefix + "/keys/{key}", owner, controls, (*Server).revokeKey},
	{"GET /mcp/stdio", owner, reads, (*Server).hijackStdio},
	{"/mcp", agent, reads, (*Server).serveMCP},
	{"GET " + resourcePath, anyone, opens, (*Server).serveResource},
	{"GET " + resourcePath + "/mcp", anyone, opens, (*Server).serveResource},
}

// Socket returns the handler of a unix socket that only the user can open. It serves all routes.
func (s *Server) Socket() http.Handler {
	return s.newHandler(&s.own, socketOnly, s.localPrincipal, nil)
}

// Loopback returns the handler of a loopback address without sign-in. It accepts requests that name
// a loopback host and come from no other site. All users of this machine can reach it.
func (s *Server) Loopback() http.Handler {
	who := func(r *http.Request, a access) (tool.Principal, error) {
		if a > agent {
			return tool.Principal{}, tool.Errorf(tool.Denied,
				"%s %s requires sign-in, which is not configured: use the command line, or set auth in the "+
					"configuration", r.Method, r.URL.Path)
		}
		p := s.cfg.Principal // may be any other user of this machine: the local user's id, without its roles
		p.Roles = []string{identity.User}
		return p, nil
	}
	return s.newHandler(&s.open, sameSite, who, s.pagesHandler(false, who))
}

// Network returns the handler of an address that is open to the network. It accepts authenticated
// requests only, and requires Authenticate.
func (s *Server) Network() http.Handler {
	check := sameSite
	if s.cfg.AnyHost {
		check = sameOrigin
	}
	who := func(r *http.Request, a access) (tool.Principal, error) {
		switch {
		case a == owner:
			return tool.Principal{}, tool.Errorf(tool.Denied,
				"%s %s is available only to the command line on this machine", r.Method, r.URL.Path)
		case s.cfg.Authenticate == nil:
			return tool.Principal{}, tool.Errorf(tool.Denied, "sign-in is not configured")
		}
		return s.cfg.Authenticate(r, needs[a])
	}
	return s.newHandler(&s.open, check, who, s.pagesHandler(true, who))
}

// localPrincipal returns the principal of a request over the socket.
func (s *Server) localPrincipal(*http.Request, access) (tool.Principal, error) {
	return s.cfg.Principal, nil
}

// principalOf returns the principal of a request that handler has accepted.
func (s *Server) principalOf(r *http.Request) tool.Principal {
	p, _ := identity.PrincipalFrom(r.Context())
	return p
}

// pagesHandler returns the handler of the browser pages; nil if there are none. who authenticates
// requests.
func (s *Server) pagesHandler(signIn bool, who func(*http.Request, access) (tool.Principal, error)) http.Handler {
	if s.cfg.Pages == nil {
		return nil
	}
	return s.cfg.Pages.Handler(console.Access{
		SignIn: signIn,
		Who: func(r *http.Request, decide bool) (tool.Principal, error) {
			if decide {
				return who(r, approver)
			}
			return who(r, visitor)
		},
		Gather: s.open.readBody,
		Enter: func(r *http.Request, p tool.Principal, decide bool) (func(), error) {
			if decide {
				return s.open.enterLane(controls, r, p)
			}
			return s.open.enterLane(reads, r, p)
		},
	})
}

// newHandler returns a handler of the routes and of pages, if not nil. check returns why a request
// is refused, or "", and who authenticates it.
func (s *Server) newHandler(ways *laneSet, check func(*http.Request) string,
	who func(*http.Request, access) (tool.Principal, error), pages http.Handler) http.Handler {
	groups := map[string][]route{"": nil}
	for _, rt := range routes {
		_, path, _ := strings.Cut(rt.pattern, " ")
		groups[routeGroup(path)] = append(groups[routeGroup(path)], rt)
	}
	muxes := map[string]func() *http.ServeMux{}
	for name, list := range groups {
		muxes[name] = sync.OnceValue(func() *http.ServeMux {
			if name != "" {
				return s.newMux(ways, list, who, nil)
			}
			return s.newMux(ways, list, who, pages)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if msg := check(r); msg != "" {
			writeError(w, &tool.Error{Kind: tool.Denied, Msg: msg})
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if r.ContentLength != 0 { // including a body that no handler reads
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
		mux := muxes[routeGroup(r.URL.Path)]
		if mux == nil {
			mux = muxes[""]
		}
		if r.URL.Path != "/mcp" { // MCP limits its writes itself
			p := timedWriter{w}
			p.beginWriting()
			w = p
		}
		mux().ServeHTTP(w, r)
	})
}

// routeGroup returns the group of routes that a path belongs to: for the API, the first element
// after its prefix. The mux of a group is built on first use, since building one for all routes
// takes longer than answering many requests.
func routeGroup(path string) string {
	rest, ok := strings.CutPrefix(path, api.Prefix+"/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// newMux returns a mux of some routes and of pages, if not nil.
func (s *Server) newMux(ways *laneSet, list []route, who func(*http.Request, access) (tool.Principal, error),
	pages http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	if pages != nil {
		for _, path := range console.Paths() {
			mux.Handle(path, pages)
		}
	}
	for _, rt := range list {
		serve := s.boundRequests(ways, rt)
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			if rt.access != anyone {
				p, err := who(r, rt.access)
				if err != nil {
					refuseRequest(w, err)
					return
				}
				r = r.WithContext(identity.WithPrincipal(r.Context(), p))
			}
			serve.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, tool.Errorf(tool.NotFound, "no route %s %s: the API is at %s, MCP at /mcp", r.Method,
			r.URL.Path, api.Prefix))
	})
	return mux
}

// boundRequests limits how many requests of a route's lane are under way, how large their bodies
// are and how long they take to arrive.
func (s *Server) boundRequests(ways *laneSet, rt route) http.Handler {
	l := rt.lane
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.access == agent { // MCP has its own limits
			rt.handler(s, w, r)
			return
		}
		p := s.principalOf(r)
		if r.Method == http.MethodPost {
			// A form of another site can't send this type without a preflight request.
			if ct, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(ct) != "application/json" {
				writeError(w, tool.Errorf(tool.Invalid, "the body's Content-Type must be application/json"))
				return
			}
			release, err := ways.readBody(w, r, p, bodyBytes)
			if err != nil {
				writeError(w, err)
				return
			}
			defer release()
		}
		leave, err := ways.enterLane(l, r, p)
		if err != nil {
			writeError(w, err)
			return
		}
		defer leave()
		rt.handler(s, w, r)
	})
}

// socketOnly refuses requests from browsers, which have no reason to use the socket.
func socketOnly(r *http.Request) string {
	if r.Header.Get("Origin") != "" {
		return "requests from web pages are not accepted"
	}
	return ""
}

// statusOf maps kinds of errors to HTTP status codes.
var statusOf = map[tool.Kind]int{
	tool.Invalid:     http.StatusBadRequest,
	tool.NotFound:    http.StatusNotFound,
	tool.Conflict:    http.StatusConflict,
	tool.Denied:      http.StatusForbidden,
	tool.Limit:       http.StatusTooManyRequests,
	tool.Timeout:     http.StatusGatewayTimeout,
	tool.Unavailable: http.StatusServiceUnavailable,
	tool.Canceled:    499, // nginx's code for "client closed request"
	tool.Internal:    http.StatusInternalServerError,
}

func writeError(w http.ResponseWriter, err error) {
	e := tool.AsError(err)
	status := statusOf[e.Kind]
	if status == 0 {
		status = http.StatusInternalServerError
	}
	if s := e.RetrySeconds(); s > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(s))
	}
	writeJSON(w, status, map[string]api.Error{"error": {Kind: string(e.Kind), Message: e.Msg}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := tool.Marshal(v)
	if err != nil {
		status, text = http.StatusInternalServerError,
			[]byte(`{"error":{"kind":"internal","message":"the response can't be encoded"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client has gone.
	_, _ = w.Write(append(text, '\n'))
}

// writeHidden writes data of a journal, without known secrets.
func (s *Server) writeHidden(w http.ResponseWriter, v any) {
	text, err := tool.Marshal(v)
	if err == nil && s.cfg.Hide != nil {
		text = s.cfg.Hide(text)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, json.RawMessage(text))
}

// readJSON decodes the body of r into v. Unknown fields and trailing data are errors.
func readJSON(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = errors.New("unexpected data after the object")
		}
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tool.Errorf(tool.Limit, "the body is larger than %d bytes", large.Limit)
	}
	return tool.Errorf(tool.Invalid, "the body is invalid for this route: %w", err)
}
