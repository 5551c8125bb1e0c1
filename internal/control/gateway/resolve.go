package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// resolve finds the tool of a call, and sets the call's ID and Arguments if they are empty.
func resolve(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		var err error
		if r.entry, err = g.findTool(ctx, c); err != nil {
			return nil, tool.NotSent(err)
		}
		c.Tool = r.entry.Tool
		if c.ID == "" {
			c.ID = "call_" + rand.Text()
		}
		if len(c.Arguments) == 0 {
			c.Arguments = json.RawMessage("{}")
		}
		return next(ctx, r)
	}
}

// findTool finds the tool of a call. Its error suggests only what the principal may see.
func (g *Gateway) findTool(ctx context.Context, c *tool.Call) (*catalog.Entry, error) {
	defer c.TimeWork(ctx)()
	entry, err := g.cfg.Catalog.View().Resolve(c.Path)
	if err != nil {
		if _, own := g.Visible(c.Principal).Resolve(c.Path); own != nil {
			err = own
		}
	}
	return entry, err
}
