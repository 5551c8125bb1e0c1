// Package httpapi serves the HTTP API, health checks and, where they are given to it, MCP, on one address. What there
// is stands in one table of routes, with the access that each needs in its row.
//
// There is no sign-in yet: whoever reaches the server is the local user. So it is served on a unix socket that only
// this user can open, and on loopback addresses, where the Host and Origin of every request are checked, so that no
// web page can use the browser to reach it.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/executor"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Config is what a Server is made of. All must be set but what says otherwise.
type Config struct {
	Door      tool.Caller // takes every call
	Index     Index
	Status    func() api.Status
	Upstreams func(context.Context) []api.Upstream
	Sandboxes func(context.Context) []api.Capability
	Execution func(id string) (*executor.Execution, bool)
	Sessions  Sessions
	Ready     func() error // why the process can't do its work yet; nil when it can
	Principal tool.Principal

	SignIns SignIns                                                // nil: none
	MCP     http.Handler                                           // at /mcp; nil: none
	Metrics http.Handler                                           // at /metrics; nil: none
	Stdio   func(ctx context.Context, rw io.ReadWriteCloser) error // speaks MCP as over stdio; nil: none
	Log     *slog.Logger                                           // nil: none
}

// An Index answers what there is.
type Index interface {
	Tools(ctx context.Context, p tool.Principal) []api.Tool
	Tool(ctx context.Context, p tool.Principal, path string) (*api.ToolDetail, error)
	Search(ctx context.Context, p tool.Principal, query string, limit int) ([]api.Hit, error)
	Types(ctx context.Context, p tool.Principal) map[string]string
}

// Bounds on requests.
const (
	bodyBytes  = 4 << 20
	bodyTime   = 30 * time.Second
	concurrent = 256 // requests under way, MCP aside, which has bounds of its own
)

// A Server answers requests. It is safe for concurrent use.
type Server struct {
	cfg    Config
	log    *slog.Logger
	slots  chan struct{}
	ctx    context.Context // done when Close begins
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	taken  sync.WaitGroup // connections that were taken over
}

// New makes a Server.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, log: cfg.Log, slots: make(chan struct{}, concurrent)}
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

// An Access is who may use a route.
type access int

const (
	anyone access = iota // whoever can connect: health checks
	user                 // the user: over the socket, and over loopback
	owner                // the user over the socket only
)

type route struct {
	pattern string // of http.ServeMux
	access  access
	handler func(*Server, http.ResponseWriter, *http.Request)
}

// The routes.
var routes = []route{
	{"GET /healthz", anyone, (*Server).healthz},
	{"GET /readyz", anyone, (*Server).readyz},
	{"GET /metrics", user, (*Server).metrics},
	{"GET /{$}", user, (*Server).home},
	{"GET " + api.Prefix + "/status", user, (*Server).status},
	{"GET " + api.Prefix + "/upstreams", user, (*Server).upstreams},
	{"GET " + api.Prefix + "/sandboxes", user, (*Server).sandboxes},
	{"GET " + api.Prefix + "/tools", user, (*Server).tools},
	{"GET " + api.Prefix + "/tools/search", user, (*Server).search},
	{"GET " + api.Prefix + "/tools/types", user, (*Server).types},
	{"GET " + api.Prefix + "/tools/{path}", user, (*Server).tool},
	{"POST " + api.Prefix + "/executions", user, (*Server).run},
	{"GET " + api.Prefix + "/executions/{id}", user, (*Server).execution},
	{"GET " + api.Prefix + "/sessions", user, (*Server).sessions},
	{"GET " + api.Prefix + "/sessions/{session}", user, (*Server).session},
	{"PUT " + api.Prefix + "/sessions/{session}", user, (*Server).importSession},
	{"DELETE " + api.Prefix + "/sessions/{session}", user, (*Server).endSession},
	{"POST " + api.Prefix + "/sessions/{session}/fork", user, (*Server).forkSession},
	{"POST " + api.Prefix + "/sessions/{session}/export", user, (*Server).exportSession},
	{"GET " + api.Prefix + "/sessions/{session}/files", user, (*Server).readFile},
	{"PUT " + api.Prefix + "/sessions/{session}/files", user, (*Server).writeFile},
	{"POST " + api.Prefix + "/sessions/{session}/files", user, (*Server).changeFile},
	{"GET " + api.Prefix + "/skills", user, (*Server).skills},
	{"GET " + api.Prefix + "/skills/{skill}", user, (*Server).skill},
	{"DELETE " + api.Prefix + "/skills/{skill}", user, (*Server).removeSkill},
	{"POST " + api.Prefix + "/skills/{skill}/share", owner, (*Server).shareSkill},
	{"POST " + api.Prefix + "/skills/{skill}/unshare", owner, (*Server).unshareSkill},
	{"POST " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, (*Server).beginSignIn},
	{"GET " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, (*Server).awaitSignIn},
	{"DELETE " + api.Prefix + "/upstreams/{upstream}/sign-in", owner, (*Server).endSignIn},
	{"GET /mcp/stdio", owner, (*Server).stdio},
}

// Socket serves a unix socket that only the user can open: all routes.
func (s *Server) Socket() http.Handler { return s.handler(owner, socketOnly) }

// Loopback serves a loopback address: the routes that are open there, for requests that name a loopback host and come
// from no other site.
func (s *Server) Loopback() http.Handler { return s.handler(user, sameSite) }

// handler serves the routes that level may use, to requests that check lets through.
func (s *Server) handler(level access, check func(*http.Request) string) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		if r.access <= level {
			mux.Handle(r.pattern, s.bounded(r))
		}
	}
	if s.cfg.MCP != nil {
		mux.Handle("/mcp", s.cfg.MCP)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, tool.Errorf(tool.NotFound, "nothing is at %s %s: the API begins at %s, MCP is at /mcp", r.Method, r.URL.Path, api.Prefix))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if msg := check(r); msg != "" {
			fail(w, &tool.Error{Kind: tool.Denied, Msg: msg})
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

// bounded bounds how many requests are under way, how large their bodies are and how long these take to come.
func (s *Server) bounded(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if rt.access != anyone {
			select {
			case s.slots <- struct{}{}:
				defer func() { <-s.slots }()
			default:
				fail(w, tool.Errorf(tool.Unavailable, "%d requests are under way, which is the most: try again", concurrent))
				return
			}
		}
		if r.Method == http.MethodPost {
			// A form can send no such type to another site without asking it first.
			if ct, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(ct) != "application/json" {
				fail(w, tool.Errorf(tool.Invalid, "the body's Content-Type must be application/json"))
				return
			}
			r.Body = http.MaxBytesReader(w, r.Body, bodyBytes)
			// Connections that know no deadlines (tests, pipes) are bounded by their other end.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
		}
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

// sameSite refuses requests that a page of another site could make: those for a host that isn't this machine (DNS
// rebinding), and those with another Origin.
func sameSite(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if !loopback(strings.Trim(host, "[]")) {
		return "Host " + r.Host + " is not served here: use 127.0.0.1 or localhost"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || !strings.EqualFold(u.Host, r.Host) {
		return "requests of " + origin + " are not served here"
	}
	return ""
}

func loopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// CheckListen says why addr can't or must not be listened on: without sign-in only loopback addresses are safe.
func CheckListen(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return tool.Errorf(tool.Invalid, "listen address %q: it is like 127.0.0.1:8420", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return tool.Errorf(tool.Invalid, "listen address %q: the port is a number from 0 (any that is free) to 65535", addr)
	}
	if !loopback(host) {
		return tool.Errorf(tool.Invalid, "will not listen on %s: there is no sign-in yet, so whoever reaches it could use all tools; listen on a loopback address like 127.0.0.1:8420", addr)
	}
	return nil
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
