package gateway

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/tool"
)

// briefWork is the time below which work is not charged.
const briefWork = time.Millisecond

// charge charges the host's work on a call to its principal. For a program's call it does nothing:
// the call's Observer charges the execution.
func charge(g *Gateway, next handler) handler {
	if g.cfg.Limits == nil {
		return next
	}
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		if c := &r.call; c.FromProgram().Execution == "" {
			c.Observer = &chargedObserver{c.Observe(), g.cfg.Limits, c.Principal}
		}
		return next(ctx, r)
	}
}

// A chargedObserver charges a principal for what the host computes.
type chargedObserver struct {
	tool.Observer
	limits *limit.Limiter
	who    tool.Principal
}

func (o *chargedObserver) OnWork(ctx context.Context, d time.Duration) {
	if d >= briefWork {
		o.limits.Spend(ctx, o.who, d)
	}
	o.Observer.OnWork(ctx, d)
}
