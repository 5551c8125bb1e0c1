package executor

import (
	"context"
	"time"
)

const (
	// tidyFirst is the delay before the first run: the process's actual task comes first.
	tidyFirst = 100 * time.Millisecond
	// tidyLast is the timeout when the process ends.
	tidyLast = time.Second
	// tidyAtLeast and tidyAtMost bound the interval between checks for idle sessions.
	tidyAtLeast = 50 * time.Millisecond
	tidyAtMost  = time.Minute
	// trimEvery is how often executions that are too old or too many are deleted. It is shorter if
	// executions are kept for less.
	trimEvery = 5 * time.Minute
)

// tidy suspends idle sessions, ends old ones, and deletes old executions, until the Executor is
// closed. In a process that ends before tidyFirst, it runs once, at the end.
func (x *Executor) tidy() {
	var trimmed time.Time
	next := tidyFirst
	for {
		select {
		case <-x.ctx.Done():
			if trimmed.IsZero() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), tidyLast)
				defer cancel()
				x.trim(ctx)
				x.live.Tidy(ctx)
			}
			return
		case <-time.After(next):
		}
		if now := x.cfg.Clock.Now(); trimmed.IsZero() ||
			now.Sub(trimmed) >= min(trimEvery, max(x.cfg.Limits.Journal.Keep, time.Minute)) {
			x.trim(x.ctx)
			trimmed = now
		}
		x.unwritten.amendAll()
		next = min(max(x.live.Tidy(x.ctx), tidyAtLeast), tidyAtMost)
	}
}

// trim deletes executions that are too old or too many.
func (x *Executor) trim(ctx context.Context) {
	if x.cfg.Journal == nil {
		return
	}
	lim := x.cfg.Limits.Journal
	if _, err := x.cfg.Journal.Trim(ctx, x.cfg.Clock.Now().Add(-lim.Keep), lim.Bytes); err != nil && ctx.Err() == nil {
		x.cfg.Log.Warn("old executions not deleted", "error", err)
	}
}
