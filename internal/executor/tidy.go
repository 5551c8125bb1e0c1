package executor

import (
	"context"
	"time"
)

const (
	// tidyFirst is when it is done for the first time: what a process was started for goes before.
	tidyFirst = 100 * time.Millisecond
	// tidyLast bounds it when the process ends.
	tidyLast = time.Second
	// tidyAtLeast and tidyAtMost are how often idle sessions are looked after.
	tidyAtLeast = 50 * time.Millisecond
	tidyAtMost  = time.Minute
	// trimEvery is how often executions are thrown away that are too old or too many; more often
	// where they are kept for less.
	trimEvery = 5 * time.Minute
)

// tidy suspends idle sessions, ends old ones, and throws old executions away, until the Executor is
// closed. A process that lives no longer than tidyFirst does it once, when it ends.
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
		if now := x.cfg.Now(); trimmed.IsZero() || now.Sub(trimmed) >= min(trimEvery, max(x.cfg.Limits.Journal.Keep, time.Minute)) {
			x.trim(x.ctx)
			trimmed = now
		}
		x.amendAll()
		next = min(max(x.live.Tidy(x.ctx), tidyAtLeast), tidyAtMost)
	}
}

// trim throws executions away that are too old, or too many.
func (x *Executor) trim(ctx context.Context) {
	if x.cfg.Journal == nil {
		return
	}
	lim := x.cfg.Limits.Journal
	if _, err := x.cfg.Journal.Trim(ctx, x.cfg.Now().Add(-lim.Keep), lim.Bytes); err != nil && ctx.Err() == nil {
		x.cfg.Log.Warn("throw away old executions", "error", err)
	}
}
