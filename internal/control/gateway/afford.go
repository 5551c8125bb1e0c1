package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// afford rejects a call from outside that needs much work if the CPU time of its principal is used
// up.
func afford(g *Gateway, next handler) handler {
	if g.cfg.Limits == nil {
		return next
	}
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		search := c.Tool.Upstream == tool.Own && c.Tool.Name == "search"
		if c.FromProgram().Execution != "" || len(c.Arguments) <= queue.LargeWork && !search {
			return next(ctx, r)
		}
		err := g.cfg.Limits.Afford(ctx, c)
		if err == nil {
			return next(ctx, r)
		}
		// its principal may not see the tool, and then the call is recorded as denied
		if e := tool.AsError(g.recordAttempt(ctx, c)); e.Kind != tool.NotFound {
			return nil, tool.NotSent(e)
		}
		return nil, tool.NotSent(err)
	}
}
