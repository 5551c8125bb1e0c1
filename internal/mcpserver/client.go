package mcpserver

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A client is what is known of whoever is at the other end of a connection: of a session, of
// standard input, or of one request of 2026-07-28. The transports put it into the connection's
// context.
type client struct {
	principal tool.Principal
	ctx       context.Context        // done when the connection is over, and with it all its calls
	labels    tool.Labels            // of what came over the connection: its agent may send that on
	keep      func([]string) error   // keeps them for longer than this process lives; may be nil
	level     atomic.Pointer[string] // least log level it asked for, up to 2025-11-25
	form      chan struct{}          // has a token while a form is open there
	order     *order                 // of what was sent over the connection; nil: there is none
}

type clientKey struct{}

// withClient gives a context for a connection that p makes. gone must be called when the connection
// is over.
func (s *Server) withClient(ctx context.Context, p tool.Principal) (_ context.Context, gone context.CancelFunc) {
	c := &client{principal: p, form: make(chan struct{}, 1)}
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

// Cut ends all that a principal has open: sessions with their streams, and calls under way. What it
// asks next is asked anew who it is.
func (s *Server) Cut(principal string) {
	s.mu.Lock()
	for c, cancel := range s.clients {
		if c.principal.ID == principal {
			cancel()
		}
	}
	s.mu.Unlock()
	s.http.sessions.cut(principal)
}

// clientOf gives the client of a connection's context; nil if there is none.
func clientOf(ctx context.Context) *client {
	c, _ := ctx.Value(clientKey{}).(*client)
	return c
}

// carry has the connection carry labels on.
func (c *client) carry(labels []string) error {
	if c.keep != nil && len(tool.Joined(c.labels.All(), labels)) > len(c.labels.All()) {
		if err := c.keep(labels); err != nil {
			return err
		}
	}
	c.labels.Add(labels)
	return nil
}

// setLogLevel says whether level is one that there is.
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

// principal gives on whose behalf a request is made, with the software that made it.
func (s *Server) principal(ctx context.Context, software *mcp.Implementation) tool.Principal {
	p := s.cfg.Local
	if c := clientOf(ctx); c != nil {
		p = c.principal
	}
	if p.Client == "" && software != nil {
		p.Client = software.Name + "/" + software.Version
	}
	return p
}
