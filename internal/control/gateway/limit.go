package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// limitUse makes the call within the limits of rates, unless its upstream or the call itself has
// failed repeatedly. It doesn't limit how many calls are under way: mcpserver and the executor do.
// Programs are counted when they start.
func limitUse(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		if g.cfg.Limits == nil && len(c.Grant.Bounds) > 0 {
			return nil, &tool.Error{Kind: tool.Internal, Unsent: true,
				Msg: c.Path + " was not called: policy bounds how much it is used, and nothing here holds that"}
		}
		if g.cfg.Limits == nil || c.Tool.Upstream == tool.Own && !policy.ReachesNetwork(c.Tool) {
			return next(ctx, r)
		}
		return g.cfg.Limits.Guard(ctx, c, func() (*tool.Result, error) { return next(ctx, r) })
	}
}
