package mcpserver

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A client is what is known of whoever is at the other end of a connection: of a session, of standard input, or of one
// request of 2026-07-28. The transports put it into the connection's context.
type client struct {
	principal tool.Principal
	ctx       context.Context        // done when the connection is over, and with it all its calls
	level     atomic.Pointer[string] // least log level it asked for, up to 2025-11-25
}

type clientKey struct{}

// withClient gives a context for a connection that p makes. gone must be called when the connection is over.
func (s *Server) withClient(ctx context.Context, p tool.Principal) (_ context.Context, gone context.CancelFunc) {
	c := &client{principal: p}
	c.ctx, gone = context.WithCancel(s.ctx)
	return context.WithValue(ctx, clientKey{}, c), gone
}

// clientOf gives the client of a connection's context; nil if there is none.
func clientOf(ctx context.Context) *client {
	c, _ := ctx.Value(clientKey{}).(*client)
	return c
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
