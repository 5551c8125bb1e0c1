// Package mcpserver serves MCP to agents: over stdio, and over Streamable HTTP at one URL for both
// eras of the protocol. Revision 2026-07-28 has no sessions, and every request states its revision;
// revisions up to 2025-11-25 open a session with initialize. A request's era is determined by its
// MCP-Protocol-Version header or by _meta["io.modelcontextprotocol/protocolVersion"].
//
// The Mode determines what an agent sees: Biplane's own tools (search, execute, resume), or the
// upstream tools themselves under composed names. All calls go through one tool.Caller, the
// gateway; this package makes no decisions about them.
//
// Payloads are passed through unchanged. Arguments reach the gateway byte for byte. Results and
// definitions of upstream tools are written from their Raw form. This preserves integers over 2^53,
// unknown fields, unknown kinds of content and the order of keys. Three things change. White space
// between JSON tokens is removed (a message is one line). Missing members that the revision
// requires of every server (resultType, serverInfo in _meta) are added in front. Definitions for
// clients of 2025-11-25 say that calls may be tasks (execution).
package mcpserver

//lint:file-ignore SA1019 clients of earlier revisions still ask for logs

import (
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Mode determines the content of the tool list.
type Mode string

// The modes. In every mode, unlisted tools can still be called by name.
const (
	Code   Mode = "code"   // Biplane's own tools; the list never changes
	Direct Mode = "direct" // the upstream tools, under composed names
	Auto   Mode = "auto"   // like Code, with a small catalog added to the description of execute
)

// Listed is an upstream tool with the name that agents see.
type Listed struct {
	Name string // of at most 64 characters [A-Za-z0-9_-]; unique and stable
	Tool *tool.Tool
}

// A Catalog has the upstream tools. It is safe for concurrent use.
type Catalog interface {
	// ListTools returns the tools that a principal may see, in a stable order. It is called for
	// each list.
	ListTools(context.Context, tool.Principal) []Listed
	// LookupTool returns the tool with a name, which may be any of its names, and nil for an
	// unknown name.
	LookupTool(ctx context.Context, p tool.Principal, name string) *tool.Tool
	// ListOffers returns what upstreams offer besides tools, sorted by upstream: what a principal
	// may use, and everything.
	ListOffers(context.Context, tool.Principal) (visible, all []*tool.Offers)
	// ListInstructions returns the definitions with the instructions of the upstreams that a
	// principal sees, sorted by upstream. It opens no connections.
	ListInstructions(context.Context, tool.Principal) []*tool.Tool
	// DescribeTools returns a text that describes the whole catalog, for mode Auto; empty if it
	// would be too long.
	DescribeTools(context.Context, tool.Principal) string
}

// noTools is an empty Catalog.
type noTools struct{}

func (noTools) ListTools(context.Context, tool.Principal) []Listed { return nil }

func (noTools) LookupTool(context.Context, tool.Principal, string) *tool.Tool { return nil }

func (noTools) ListOffers(context.Context, tool.Principal) (visible, all []*tool.Offers) {
	return nil, nil
}

func (noTools) ListInstructions(context.Context, tool.Principal) []*tool.Tool { return nil }

func (noTools) DescribeTools(context.Context, tool.Principal) string { return "" }

// Resources watches resources of upstreams. Its methods don't block.
type Resources interface {
	// WatchResource announces that a client of a principal subscribes to a resource. Updates are
	// then passed to NotifyResource, once the call of "resources.subscribe" has succeeded.
	WatchResource(upstream, uri, principal string)
	// UnwatchResource undoes WatchResource.
	UnwatchResource(upstream, uri, principal string)
}

// A Filter decides which of Biplane's own tools are listed.
type Filter interface {
	// ShowsTool reports whether a principal may see a tool.
	ShowsTool(context.Context, tool.Principal, *tool.Tool) bool
}

// Config configures a Server. Only Door is required; a zero limit means its default.
type Config struct {
	Door    tool.Caller  // handles every call
	Builtin []*tool.Tool // Biplane's own tools, in list order; Tool.Name is the name agents see
	Filter  Filter       // which of Builtin are visible; nil: all
	Catalog Catalog      // nil: there are no upstream tools
	// Resources watches the resources to which clients subscribe. If nil, they can't.
	Resources Resources
	// Skills has a folder for each skill that agents can read in the modes Code and Auto; nil:
	// none.
	Skills fs.FS
	// InlineTokens is the maximum length of the catalog's description that is used, in tokens
	// (o200k_base); default 2,000.
	InlineTokens int

	// Executions stops the executions of canceled tasks. If nil, they end by themselves.
	Executions ExecutionStopper
	Tasks      TaskStore // of executions; nil: they aren't listed after a restart

	// Desk creates forms for pending decisions, for clients that can show them. Nil: no client is
	// asked.
	Desk *form.Desk

	Endpoint                     // for clients without a profile
	Profiles map[string]Endpoint // by name, for clients whose principal has that profile
	Version  string              // of Biplane
	Log      *slog.Logger

	Local tool.Principal // principal of calls over stdio, and over HTTP if Principal is nil
	// Principal returns the principal of an HTTP request; an error refuses the request with 401.
	Principal func(*http.Request) (tool.Principal, error)

	// AnyHost accepts requests for any Host. Each request must then authenticate, in a way that a
	// web page can't make a browser do.
	AnyHost bool
	Hosts   []string // accepted host names (without port) in Host headers, besides the loopback ones
	Origins []string // accepted Origin headers besides the server's own ("https://app.example.com")
	Limits  Limits
}

// Limits bound the resources that clients can use. Zero means the default. Memory, Requests, Calls,
// Sessions and Subscriptions are shared among principals (see queue.Shares); a single one may use
// all of them.
type Limits struct {
	Body        int64         // bytes of one message; default 4 MiB
	BodyTime    time.Duration // time for a request body to arrive; default 30 s
	WriteTime   time.Duration // time for a client to accept one write; default 30 s
	Memory      int64         // bytes of HTTP request bodies held at once; default 64 MiB
	Requests    int           // HTTP requests under way, streams included; default 4,096
	Calls       int           // tool calls under way; default 512
	Sessions    int           // sessions of the revisions up to 2025-11-25; default 1,000
	SessionIdle time.Duration // idle time after which a session is closed; default 30 min
	// Subscriptions to updates of resources, and to states of tasks; default 1,000
	Subscriptions int
	Tasks         int           // calls that became tasks; default 1,000
	TaskAfter     time.Duration // time after which a call becomes a task; default 10 s
	TaskKept      time.Duration // how long a task is kept after its end; default 1 h
	Drain         time.Duration // how long stdio waits for answers after the end of its input; default 10 s
	// how soon a call is answered whose client was asked for a decision, unless the client receives
	// progress; default 50 s
	Answer       time.Duration
	PageSize     int // tools in one page of the list; default 1,000
	StdioPending int // unanswered requests that stdio accepts; default 1,024
}

// A Server offers tools to agents. It is safe for concurrent use.
type Server struct {
	cfg       Config
	log       *slog.Logger
	endpoints endpoints
	builtin   ownTools
	defs      func() []json.RawMessage // definitions of cfg.Builtin
	calls     *admission               // of calls under way
	exchanges *exchanges               // parked calls
	tasks     *tasks
	tokens    tokenCounter
	skills    *skills
	http      *handler

	lastClient    atomic.Int64
	subscriptions *subscriptions

	ctx    context.Context // done when Close begins
	cancel context.CancelFunc

	mu      sync.Mutex
	clients map[*client]context.CancelFunc // all connected clients
	closed  bool
	stdio   sync.WaitGroup // connections; none are added after closed is set
}

// New returns a new Server. Before the first connection it needs no Close.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Log,
		builtin:   ownTools{},
		clients:   map[*client]context.CancelFunc{},
		exchanges: &exchanges{parked: map[string]*exchange{}},
		skills:    loadSkills(cfg.Skills),
	}
	for _, t := range cfg.Builtin {
		s.builtin[t.Name] = t
	}
	s.defs = sync.OnceValue(func() (all []json.RawMessage) {
		for _, t := range cfg.Builtin {
			all = append(all, definition(t.Name, t))
		}
		return all
	})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.tasks = newTasks(s.ctx, cfg, s.exchanges)
	s.calls = newAdmission(s.ctx, cfg.Limits.Calls)
	s.subscriptions = newSubscriptions(cfg.Limits.Subscriptions)
	s.endpoints = endpoints{"": newEndpoint(s, cfg.Endpoint)}
	for name, e := range cfg.Profiles {
		s.endpoints[name] = newEndpoint(s, e)
	}
	s.http = newHandler(s)
	return s
}

func (c *Config) setDefaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	if c.Catalog == nil {
		c.Catalog = noTools{}
	}
	setDefault(&c.InlineTokens, 2000)
	l := &c.Limits
	setDefault(&l.Body, 4<<20)
	setDefault(&l.BodyTime, 30*time.Second)
	setDefault(&l.WriteTime, 30*time.Second)
	setDefault(&l.Requests, 4096)
	setDefault(&l.Memory, 64<<20)
	setDefault(&l.Calls, 512)
	setDefault(&l.Sessions, 1000)
	setDefault(&l.Subscriptions, 1000)
	setDefault(&l.Tasks, 1000)
	setDefault(&l.TaskAfter, 10*time.Second)
	setDefault(&l.TaskKept, taskKept)
	setDefault(&l.SessionIdle, 30*time.Minute)
	setDefault(&l.Drain, 10*time.Second)
	setDefault(&l.Answer, 50*time.Second)
	setDefault(&l.PageSize, 1000)
	setDefault(&l.StdioPending, 1024)
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// newSDK returns a server of the SDK. The SDK handles handshakes, streams and notifications;
// Biplane handles the methods about tools.
func (s *Server) newSDK(e Endpoint) *mcp.Server {
	capabilities := &mcp.ServerCapabilities{
		Tools:   &mcp.ToolCapabilities{ListChanged: e.listChanges()},
		Logging: &mcp.LoggingCapabilities{},
	}
	if e.Mode == Direct {
		capabilities.Resources = &mcp.ResourceCapabilities{ListChanged: true, Subscribe: s.canSubscribe(e.Mode)}
		capabilities.Prompts = &mcp.PromptCapabilities{ListChanged: true}
		capabilities.Completions = &mcp.CompletionCapabilities{}
	}
	if s.skills.visibleIn(e.Mode) {
		capabilities.Resources = &mcp.ResourceCapabilities{}
		capabilities.AddExtension(skillsExtension, nil)
		capabilities.Extensions[skillsExtension] = skillSettings{DirectoryRead: true}
	}
	capabilities.AddExtension(tasksExtension, nil)
	srv := mcp.NewServer(
		&mcp.Implementation{Name: "biplane", Title: "Biplane", Version: s.cfg.Version},
		&mcp.ServerOptions{
			SubscribeHandler: s.subscribeClient, UnsubscribeHandler: s.unsubscribeClient,
			Instructions: e.Instructions,
			Logger:       sdkLog(s.log),
			Capabilities: capabilities,
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
				c.TTLMs, c.CacheScope = e.cacheHint()
			},
		})
	addSkillMethods(srv)
	for _, method := range append(taskMethods, getResult, listTasks) {
		addMethod[*taskRequest](srv, method)
	}
	srv.AddReceivingMiddleware(s.handleTools, s.markSubscriptions, taskNotices{s}.listenToTasks)
	srv.AddSendingMiddleware(unmarkSubscriptions, taskNotices{s}.sendNotices)
	return srv
}

// listChanges reports whether the tool list can change while the server runs.
func (e Endpoint) listChanges() bool { return e.Mode != Code }

// cacheHint returns ttlMs and cacheScope for cacheable results (2026-07-28,
// server/utilities/caching). The scope is private: what an agent sees depends on its principal.
func (e Endpoint) cacheHint() (ttlMs int, scope string) {
	if e.listChanges() {
		return 30_000, "private"
	}
	return 3_600_000, "private"
}

// NotifyTools notifies the connected clients that the tool list may have changed. It does nothing
// for those in mode Code, where it can't change.
func (s *Server) NotifyTools() {
	// The SDK only reports changes of its own list. The tool that is added there is never listed.
	mark := &mcp.Tool{Name: "_", InputSchema: json.RawMessage(`{"type":"object"}`)}
	for _, srv := range s.endpoints.listServers(Direct, Auto) {
		srv.AddTool(mark, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, tool.Errorf(tool.NotFound, "no such tool")
		})
	}
}

// NotifyOffers notifies the connected clients in mode Direct that the lists of resources, templates
// and prompts may have changed. The other modes have none.
func (s *Server) NotifyOffers() {
	for _, srv := range s.endpoints.listServers(Direct) { // as in NotifyTools
		srv.AddResource(&mcp.Resource{URI: uriPrefix, Name: "_"}, nil)
		srv.AddPrompt(&mcp.Prompt{Name: "_"}, nil)
	}
}

// Close cancels all calls, closes all sessions and streams, and waits for them. Later requests are
// refused. Callers of pending calls get no answer; call Drain first if that matters.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.http.closeSessions()
	var closing sync.WaitGroup
	for _, srv := range s.endpoints.listServers(Code, Direct, Auto) {
		for ss := range srv.Sessions() {
			closing.Go(func() { ss.Close() })
		}
	}
	closing.Wait()
	s.stdio.Wait()
	s.exchanges.cancelExchanges("", true)
	s.exchanges.calls.Wait()
	s.subscriptions.senders.Wait()
	return nil
}
