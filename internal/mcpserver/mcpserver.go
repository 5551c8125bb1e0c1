// Package mcpserver speaks MCP to agents: over stdio, and over Streamable HTTP on one URL for both
// eras of the protocol. Revision 2026-07-28 is without sessions and says in every request what it
// is; the revisions up to 2025-11-25 open a session with initialize. A request is sent to the one
// or the other by its MCP-Protocol-Version header or by
// _meta["io.modelcontextprotocol/protocolVersion"].
//
// What an agent sees is a Mode: Biplane's own tools (search, execute, resume), or the upstream
// tools themselves under composed names. All calls go through one tool.Caller, the door; this
// package decides nothing about them.
//
// Payloads pass through as they are. Arguments reach the door byte for byte; results and
// definitions of upstream tools are written from their Raw form, so that integers over 2^53,
// unknown fields, unknown kinds of content and the order of keys survive. Two things change: white
// space between JSON tokens goes (a message is one line), and the members that the revision asks
// every server to add (resultType, serverInfo in _meta) are put in front where missing.
package mcpserver

//lint:file-ignore SA1019 clients of earlier revisions still ask for logs

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/approval/form"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Mode is what the list of tools holds.
type Mode string

// The modes. In every one of them the tools that are not listed may be called by name all the same.
const (
	Code   Mode = "code"   // Biplane's own tools; the list never changes
	Direct Mode = "direct" // the upstream tools, under composed names
	Auto   Mode = "auto"   // as Code, with a small catalog written into the description of execute
)

// Listed is an upstream tool under the name that agents see.
type Listed struct {
	Name string // of at most 64 characters [A-Za-z0-9_-]; unique and stable
	Tool *tool.Tool
}

// Config is what a Server is made of. Only Door must be set; a limit that is zero means its
// default.
type Config struct {
	Door    tool.Caller  // takes every call
	Builtin []*tool.Tool // Biplane's own tools, in the order they are listed; Tool.Name is the name agents see
	// Shows reports whether a principal may see one of Builtin. Nil: all are seen.
	Shows func(context.Context, tool.Principal, *tool.Tool) bool
	// Tools gives the upstream tools that a principal may see, in stable order. It is asked for
	// each list.
	Tools func(context.Context, tool.Principal) []Listed
	// Lookup finds the upstream tool that a name means, whichever of its names that is. It gives
	// nil where there is none. A nil Lookup searches what Tools gives, by listed name and path.
	Lookup func(ctx context.Context, p tool.Principal, name string) *tool.Tool
	// Inline gives the text that stands for a whole catalog, for mode Auto; empty where it can't be
	// told in short.
	Inline       func(context.Context, tool.Principal) string
	InlineTokens int // longest text of Inline that is used, in tokens (o200k_base); default 2,000

	// Desk makes forms of what waits for people, for clients that can show them. Nil: no client is
	// asked.
	Desk *form.Desk

	Mode       Mode // default Code
	Unprefixed bool // in mode Direct, list tools under their own names where these are unique
	// what the server tells an agent about itself when it connects; not in mode Direct, where it
	// sees none of Builtin
	Instructions string
	Version      string // of Biplane
	Log          *slog.Logger

	Local tool.Principal // makes the calls that come over stdio, and over HTTP where Principal is nil
	// Principal says on whose behalf an HTTP request is made; an error refuses it with 401.
	Principal func(*http.Request) (tool.Principal, error)

	// AnyHost takes requests for any Host. Each of them has to say who makes it, which no web page
	// can make a browser do.
	AnyHost bool
	Hosts   []string // host names (no port) that a Host header may have besides the loopback ones
	Origins []string // values that an Origin header may have besides the server's own ("https://app.example.com")
	Limits  Limits
}

// Limits bound what clients can make the server hold. Zero means the default. Memory, Requests,
// Calls and Sessions are shared by principals (see queue.Shares): one that is alone may hold all of
// it.
type Limits struct {
	Body        int64         // bytes of one message; default 4 MiB
	BodyTime    time.Duration // for a request body to arrive; default 30 s
	WriteTime   time.Duration // for a client to take one write; default 30 s
	Memory      int64         // bytes of HTTP request bodies held at once; default 64 MiB
	Requests    int           // HTTP requests under way, streams included; default 4,096
	Calls       int           // calls of tools under way; default 512
	Sessions    int           // sessions of the revisions up to 2025-11-25; default 1,000
	SessionIdle time.Duration // after which a session without requests is closed; default 30 min
	Drain       time.Duration // that stdio waits for answers after the end of its input; default 10 s
	// in which a call whose client was asked for a decision is answered, where the client isn't
	// told of progress; default 50 s
	Answer       time.Duration
	PageSize     int // tools in one page of the list; default 1,000
	StdioPending int // requests that stdio takes in before earlier ones are answered; default 1,024
}

// A Server offers tools to agents. It is safe for concurrent use.
type Server struct {
	cfg       Config
	log       *slog.Logger
	stateful  *mcp.Server // stdio, and HTTP up to 2025-11-25
	stateless *mcp.Server // HTTP of 2026-07-28
	builtin   map[string]*tool.Tool
	defs      func() []json.RawMessage // of cfg.Builtin
	calls     *queue.Shares            // of calls under way
	tokens    tokenCounter
	http      *handler

	ctx     context.Context // done when Close begins
	cancel  context.CancelFunc
	cutting context.Context // done when Drain ends what is left of the calls
	cut     context.CancelFunc
	idle    chan struct{} // closed when no call is under way, and none will be

	mu       sync.Mutex
	clients  map[*client]context.CancelFunc // all that are connected
	closed   bool
	draining bool           // no more calls are taken
	under    int            // calls, and messages that ask for one, under way
	stdio    sync.WaitGroup // connections; none is added once closed is set
}

// New makes a Server. It starts nothing that needs closing before the first connection.
func New(cfg Config) *Server {
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, log: cfg.Log,
		builtin: map[string]*tool.Tool{},
		clients: map[*client]context.CancelFunc{},
		calls:   queue.NewShares("calls", "under way", int64(cfg.Limits.Calls)),
		idle:    make(chan struct{}),
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
	s.cutting, s.cut = context.WithCancel(s.ctx)
	s.stateful, s.stateless = s.newSDK(), s.newSDK()
	s.http = newHandler(s)
	return s
}

func (c *Config) setDefaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Mode == "" {
		c.Mode = Code
	}
	if c.Mode == Direct {
		c.Instructions = ""
	}
	if c.Version == "" {
		c.Version = "0.0.0"
	}
	if c.Tools == nil {
		c.Tools = func(context.Context, tool.Principal) []Listed { return nil }
	}
	or(&c.InlineTokens, 2000)
	l := &c.Limits
	or(&l.Body, 4<<20)
	or(&l.BodyTime, 30*time.Second)
	or(&l.WriteTime, 30*time.Second)
	or(&l.Requests, 4096)
	or(&l.Memory, 64<<20)
	or(&l.Calls, 512)
	or(&l.Sessions, 1000)
	or(&l.SessionIdle, 30*time.Minute)
	or(&l.Drain, 10*time.Second)
	or(&l.Answer, 50*time.Second)
	or(&l.PageSize, 1000)
	or(&l.StdioPending, 1024)
}

func or[T int | int64 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// newSDK makes a server of the SDK: it knows the handshakes, the streams and the notifications; the
// methods about tools are ours.
func (s *Server) newSDK() *mcp.Server {
	srv := mcp.NewServer(
		&mcp.Implementation{Name: "biplane", Title: "Biplane", Version: s.cfg.Version},
		&mcp.ServerOptions{
			Instructions: s.cfg.Instructions,
			Logger:       sdkLog(s.log),
			Capabilities: &mcp.ServerCapabilities{
				Tools:   &mcp.ToolCapabilities{ListChanged: s.listChanges()},
				Logging: &mcp.LoggingCapabilities{},
			},
			SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
				c.TTLMs, c.CacheScope = s.cacheHint()
			},
		})
	srv.AddReceivingMiddleware(s.receive)
	return srv
}

// listChanges says whether the list of tools can change while the server runs.
func (s *Server) listChanges() bool { return s.cfg.Mode != Code }

// cacheHint gives ttlMs and cacheScope of results that may be cached (2026-07-28,
// server/utilities/caching). The scope is private: what an agent sees depends on who it is.
func (s *Server) cacheHint() (ttlMs int, scope string) {
	if s.listChanges() {
		return 30_000, "private"
	}
	return 3_600_000, "private"
}

// ToolsChanged tells all connected clients that the list of tools may have changed. In mode Code it
// can't have, and nobody is told.
func (s *Server) ToolsChanged() {
	if !s.listChanges() {
		return
	}
	// The SDK tells of a change of its own list only. What it holds there is never listed.
	mark := &mcp.Tool{Name: "_", InputSchema: json.RawMessage(`{"type":"object"}`)}
	for _, srv := range []*mcp.Server{s.stateful, s.stateless} {
		srv.AddTool(mark, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, tool.Errorf(tool.NotFound, "no such tool")
		})
	}
}

// Close cancels all calls, ends all sessions and streams, and waits for them. Requests that come
// later are refused. Whoever waits for a call gets no answer: Drain comes first where that matters.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.http.close()
	var closing sync.WaitGroup
	for _, srv := range []*mcp.Server{s.stateful, s.stateless} {
		for ss := range srv.Sessions() {
			closing.Go(func() { ss.Close() })
		}
	}
	closing.Wait()
	s.stdio.Wait()
	return nil
}
