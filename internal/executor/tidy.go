package executor

import "time"

const (
	// tidyAtLeast and tidyAtMost are how often idle sessions are looked after.
	tidyAtLeast = 50 * time.Millisecond
	tidyAtMost  = time.Minute
	// trimEvery is how often executions are thrown away that are too old or too many; more often where they are kept for less.
	trimEvery = 5 * time.Minute
)

// tidy suspends idle sessions, ends old ones, and throws old executions away, until the Executor is closed.
func (x *Executor) tidy() {
	var trimmed time.Time
	for {
		if now := x.cfg.Now(); trimmed.IsZero() || now.Sub(trimmed) >= min(trimEvery, max(x.cfg.Limits.Journal.Keep, time.Minute)) {
			x.trim()
			trimmed = now
		}
		x.amendAll()
		next := x.live.Tidy(x.ctx)
		select {
		case <-x.ctx.Done():
			return
		case <-time.After(min(max(next, tidyAtLeast), tidyAtMost)):
		}
	}
}

// trim throws executions away that are too old, or too many.
func (x *Executor) trim() {
	if x.cfg.Journal == nil {
		return
	}
	lim := x.cfg.Limits.Journal
	if _, err := x.cfg.Journal.Trim(x.ctx, x.cfg.Now().Add(-lim.Keep), lim.Bytes); err != nil && x.ctx.Err() == nil {
		x.cfg.Log.Warn("throw away old executions", "error", err)
	}
}
