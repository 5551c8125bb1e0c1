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
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/repeat"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/serve/feed"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config configures a Server. All fields are required unless noted otherwise.
type Config struct {
	Door      tool.Caller // handles every call
	Index     Index
	Process   Process
	Secrets   Secrets // nil: none are known
	Sessions  Sessions
	Skills    Skills
	Journals  Journals
	Audit     Audit
	Approvals Approvals
	Policies  Policies // nil: none
	Usage     Usage
	Principal tool.Principal // the local user

	// Authenticator authenticates requests that didn't come over the socket; nil: there is no
	// sign-in.
	Authenticator Authenticator
	// AnyHost makes Network accept requests for any Host.
	AnyHost bool
	// Resource serves the metadata of the protected resource (RFC 9728); nil: none.
	Resource     http.Handler
	Keys         Keys
	SecretKeeper SecretKeeper // managed over the socket only
	SignIns      SignIns      // nil: none
	// Hints accepts the weaker tool hints.
	Hints Hints
	Agents
	Metrics http.Handler    // at /metrics; nil: none
	Pages   *console.Server // for browsers; nil: none
	Feeds
	Upkeep
	Log *slog.Logger // nil discards
}

// Upkeep keeps and deletes the data of requests.
type Upkeep struct {
	Repeats *repeat.Log // answers to requests with an idempotency key; nil: such requests are refused
	Pruner  Pruner
	Images  Images
}

// Feeds are what people watch.
type Feeds struct {
	Logs    Logs       // nil: none
	Notices Notices    // nil: none
	Events  *feed.Book // nil: none
}

// Agents are the ways in for agents.
type Agents struct {
	MCP       http.Handler // at /mcp; nil: none
	Stdio     Stdio        // nil: none
	Sandboxes Sandboxes    // at /mcp/sandboxes; nil: none
}

// An Authenticator returns the principal of a request. If the error is an *identity.Refusal, it has
// the status and the header of the answer.
type Authenticator interface {
	Authenticate(r *http.Request, n identity.Need) (tool.Principal, error)
}

// Secrets removes the known secrets from JSON.
type Secrets interface {
	MaskJSON(text []byte) []byte
}

// A Server answers requests. It is safe for concurrent use.
type Server struct {
	cfg    Config
	log    *slog.Logger
	own    laneSet         // for the socket
	open   laneSet         // for the network
	ctx    context.Context // done when Close is called
	cancel context.CancelFunc

	document documentText
	streams  streamSet

	mu     sync.Mutex
	closed bool
	taken  sync.WaitGroup // hijacked connections
}

// New returns a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Log, own: newLaneSet(), open: newLaneSet()}
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
	return s.newHandler(&s.open, checkSite, who, s.pagesHandler(false, who))
}

// Network returns the handler of an address that is open to the network. It accepts authenticated
// requests only, and requires an Authenticator.
func (s *Server) Network() http.Handler {
	check := checkSite
	if s.cfg.AnyHost {
		check = checkOrigin
	}
	who := func(r *http.Request, a access) (tool.Principal, error) {
		switch {
		case a == owner:
			return tool.Principal{}, tool.Errorf(tool.Denied,
				"%s %s is available only to the command line on this machine", r.Method, r.URL.Path)
		case s.cfg.Authenticator == nil:
			return tool.Principal{}, tool.Errorf(tool.Denied, "sign-in is not configured")
		}
		return s.cfg.Authenticator.Authenticate(r, needs[a])
	}
	return s.newHandler(&s.open, check, who, s.pagesHandler(true, who))
}

// localPrincipal returns the principal of a request over the socket.
func (s *Server) localPrincipal(*http.Request, access) (tool.Principal, error) {
	return s.cfg.Principal, nil
}

// principalOf returns the principal of a request that handler has accepted.
func principalOf(r *http.Request) tool.Principal {
	p, _ := identity.PrincipalFrom(r.Context())
	return p
}

// pagesHandler returns the handler of the browser pages; nil if there are none. who authenticates
// requests.
func (s *Server) pagesHandler(signIn bool, who func(*http.Request, access) (tool.Principal, error)) http.Handler {
	if s.cfg.Pages == nil {
		return nil
	}
	routes := s.newRouter(&s.open, who, nil)
	return s.cfg.Pages.Handler(console.Access{SignIn: signIn, Gate: pageGate{s, who},
		API: pageAPI{routes, s.accessOf(), signIn}})
}

// A pageAPI implements console.API for one listener. Its requests pass the table of routes like all
// others, with the credential of the page's visitor.
type pageAPI struct {
	http.Handler
	accesses map[string]access // by pattern
	signIn   bool
}

// MayUse implements console.API.
func (a pageAPI) MayUse(p tool.Principal, pattern string) bool {
	need, ok := a.accesses[pattern]
	switch {
	case !ok || need == owner:
		return false
	case !a.signIn:
		return need <= agent
	}
	return identity.HasRole(p, needs[need].Roles...)
}

// accessOf returns the access of each route, by its pattern without the prefix of the API.
func (s *Server) accessOf() map[string]access {
	out := map[string]access{}
	for _, rt := range s.listRoutes() {
		out[strings.Replace(rt.pattern, api.Prefix, "", 1)] = rt.access
	}
	return out
}

// A pageGate implements console.Gate for one listener.
type pageGate struct {
	s            *Server
	authenticate func(*http.Request, access) (tool.Principal, error)
}

func (g pageGate) Who(r *http.Request, decide bool) (tool.Principal, error) {
	if decide {
		return g.authenticate(r, approver)
	}
	return g.authenticate(r, visitor)
}

func (g pageGate) ReadBody(w http.ResponseWriter, r *http.Request, p tool.Principal, most int64) (func(), error) {
	return g.s.open.readBody(w, r, p, most)
}

// pageLanes are the lanes of pages.
var pageLanes = [...]lane{console.Reads: reads, console.Decisions: controls, console.Waits: waits}

func (g pageGate) EnterLane(r *http.Request, p tool.Principal, l console.Lane) (leave func(), err error) {
	return g.s.open.enterLane(pageLanes[l], r, p)
}

// newHandler returns a handler of the routes and of pages, if not nil. check returns the reason to
// refuse a request, or "". who returns the principal of a request.
func (s *Server) newHandler(ways *laneSet, check func(*http.Request) string,
	who func(*http.Request, access) (tool.Principal, error), pages http.Handler) http.Handler {
	routes := s.newRouter(ways, who, pages)
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
		if !IsMCP(r.URL.Path) { // MCP limits its writes itself
			p := timedWriter{w}
			p.beginWriting()
			w = p
		}
		routes.ServeHTTP(w, r)
	})
}

// newRouter returns a handler that passes requests to their routes, or to pages, if not nil.
func (s *Server) newRouter(ways *laneSet, who func(*http.Request, access) (tool.Principal, error),
	pages http.Handler) http.Handler {
	groups := map[string][]route{"": nil}
	for _, rt := range s.listRoutes() {
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
		mux := muxes[routeGroup(r.URL.Path)]
		if mux == nil {
			mux = muxes[""]
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
		for _, path := range console.ListPaths() {
			mux.Handle(path, pages)
		}
	}
	for _, rt := range list {
		if pages != nil && rt.pattern == homePattern { // the console's first page is there
			continue
		}
		serve := s.boundRequests(ways, rt)
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) {
			if rt.access != anyone {
				p, err := who(r, rt.access)
				if err != nil {
					refuseRequest(w, err)
					return
				}
				ctx, unchecked := identity.WithPrincipal(r.Context(), p), r
				if identity.IsKey(p) {
					ctx = identity.WithRecheck(ctx, func() error {
						_, err := who(unchecked, rt.access)
						return err
					})
				}
				r = r.WithContext(ctx)
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
			rt.handler(w, r)
			return
		}
		p := principalOf(r)
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
		s.serveOnce(w, r, rt, p)
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

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := tool.Marshal(v)
	if err != nil {
		writeError(w, tool.Errorf(tool.Internal, "the response can't be encoded: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	// An error means that the client has gone.
	_, _ = w.Write(append(text, '\n'))
}

// writeJournal writes data of a journal, without known secrets.
func writeJournal(w http.ResponseWriter, known Secrets, v any) {
	text, err := tool.Marshal(v)
	if err == nil && known != nil {
		text = known.MaskJSON(text)
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
