package mcpserver

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A client is the peer of a connection: of a session, of standard input, or of one request of
// 2026-07-28. The transports store it in the connection's context.
type client struct {
	id        int64 // unique in this process
	principal tool.Principal
	ctx       context.Context        // done when the connection is closed, which also cancels its calls
	labels    tool.Labels            // of the data sent over the connection, which its agent may pass on
	keep      func([]string) error   // stores the labels beyond the life of this process; may be nil
	level     atomic.Pointer[string] // minimum log level that it requested, up to 2025-11-25
	form      chan struct{}          // holds a token while a form is open at the client
	order     *order                 // of the requests sent over the connection; nil: there is none
}

type clientKey struct{}

// withClient returns a context for a connection of p. The caller must call gone when the connection
// is closed.
func (s *Server) withClient(ctx context.Context, p tool.Principal) (_ context.Context, gone context.CancelFunc) {
	c := &client{id: s.lastClient.Add(1), principal: p, form: make(chan struct{}, 1)}
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithCancel(s.ctx)
	s.mu.Lock()
	s.clients[c] = cancel
	s.mu.Unlock()
	return context.WithValue(ctx, clientKey{}, c), func() {
		s.mu.Lock()
		delete(s.clients, c)
		s.mu.Unlock()
		cancel()
	}
}

// Cut closes everything that a principal has open: sessions with their streams, and calls under
// way. The principal's next request is authenticated again.
func (s *Server) Cut(principal string) {
	s.mu.Lock()
	for c, cancel := range s.clients {
		if c.principal.ID == principal {
			cancel()
		}
	}
	s.mu.Unlock()
	s.exchanges.cancelExchanges(principal, false)
	s.tasks.cancelTasks(principal)
	s.http.sessions.closeAllOf(principal)
}

// clientOf returns the client of a connection's context, or nil if there is none.
func clientOf(ctx context.Context) *client {
	c, _ := ctx.Value(clientKey{}).(*client)
	return c
}

// isCut reports whether Cut has closed the client of a connection's context. Cut ends only what is
// already registered. So register anything that outlives a request, then call isCut, and end it
// again if isCut returns true.
func isCut(ctx context.Context) bool {
	c := clientOf(ctx)
	return c != nil && c.ctx.Err() != nil
}

// addLabels adds labels to the connection.
func (c *client) addLabels(labels []string) error {
	if c.keep != nil && len(tool.JoinLabels(c.labels.All(), labels)) > len(c.labels.All()) {
		if err := c.keep(labels); err != nil {
			return err
		}
	}
	c.labels.Add(labels)
	return nil
}

// setLogLevel sets the log level, and reports whether it is valid.
func (c *client) setLogLevel(level string) bool {
	if c != nil && slices.Contains(levels, level) {
		c.level.Store(&level)
	}
	return slices.Contains(levels, level)
}

func (c *client) logLevel() string {
	if c == nil || c.level.Load() == nil {
		return ""
	}
	return *c.level.Load()
}

// principalOf returns the principal of a request, with the client software that sent it.
func (s *Server) principalOf(ctx context.Context, software *mcp.Implementation) tool.Principal {
	p := s.cfg.Local
	if c := clientOf(ctx); c != nil {
		p = c.principal
	}
	if p.Client == "" && software != nil {
		p.Client = software.Name + "/" + software.Version
	}
	return p
}
