package gateway

import (
	"context"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/limit"
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
		switch {
		case g.cfg.Limits == nil:
			return next(ctx, r)
		case policy.ReachesNetwork(c.Tool):
			if t, err := policy.TargetOf(c.Arguments); err == nil {
				ctx = limit.WithHost(ctx, t.Host)
			}
			m := g.cfg.Limits.MeterCall(ctx, c)
			if m != nil {
				defer m.EndCount()
			}
			ctx = tool.WithMeter(ctx, m)
		case isSandboxTool(c.Tool):
			return limitSandbox(ctx, g, r, next)
		case c.Tool.Upstream == tool.Own:
			return next(ctx, r)
		}
		return g.cfg.Limits.Guard(ctx, c, func() (*tool.Result, error) { return next(ctx, r) })
	}
}

// isSandboxTool reports whether a tool is one of sandboxes of one's own.
func isSandboxTool(t *tool.Tool) bool {
	return t.Upstream == tool.Own && strings.HasPrefix(t.Name, tool.SandboxPrefix)
}

// limitSandbox makes a call of a tool of sandboxes within the limits. A command counts as a
// program, too. Failures of one sandbox don't pause the calls of others.
func limitSandbox(ctx context.Context, g *Gateway, r *request, next handler) (*tool.Result, error) {
	c := &r.call
	ended, err := g.cfg.Limits.Take(ctx, c, false)
	if err != nil {
		return nil, err
	}
	if name := strings.TrimPrefix(c.Tool.Name, tool.SandboxPrefix); name == "run" || name == "start" {
		over, err := g.cfg.Limits.Take(ctx, c, true)
		if err != nil {
			ended(limit.Spent{Nothing: true})
			return nil, err
		}
		defer over(limit.Spent{})
	}
	result, err := next(ctx, r)
	ended(limit.Spent{Nothing: err != nil && tool.AsError(err).Unsent})
	return result, err
}
