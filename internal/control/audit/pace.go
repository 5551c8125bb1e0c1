package audit

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Limits of a pacer.
const (
	paceLeaves = 256                    // leaves between pauses
	paceWork   = time.Millisecond       // minimum work between pauses
	paceShare  = 12                     // length of a pause, as a multiple of the work before it
	maxPause   = 200 * time.Millisecond // of one pause
)

// A pacer pauses the verification of the record while leaves are added, so that calls stay fast.
// All goroutines of the verification pause at the same time. It then uses less than a tenth of the
// time.
type pacer struct {
	added    *atomic.Int64
	verified *atomic.Int64 // counts the leaves
	leaves   int           // since the last pause

	mu    sync.Mutex
	seen  int64     // value of added at the last pause
	until time.Time // end of the last pause
}

func (l *Log) newPacer() *pacer {
	return &pacer{added: &l.added, verified: &l.progress.done, seen: l.CountAdditions(), until: time.Now()}
}

// countLeaf counts a verified leaf, and pauses if it is time.
func (p *pacer) countLeaf(ctx context.Context) {
	if p.leaves++; p.leaves < paceLeaves {
		return
	}
	p.leaves = 0
	p.verified.Add(paceLeaves)
	p.PauseWork(ctx)
}

// PauseWork waits as long as the calling goroutine should pause now.
func (p *pacer) PauseWork(ctx context.Context) { sleepFor(ctx, p.remainingPause(time.Now())) }

// remainingPause returns how long to pause from now on. It begins a pause if there was enough work
// since the last one.
func (p *pacer) remainingPause(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	work := now.Sub(p.until)
	if work < 0 {
		return -work // another goroutine has begun it
	}
	if work < paceWork {
		return 0
	}
	p.until = now
	if n := p.added.Load(); n != p.seen {
		p.seen, p.until = n, now.Add(min(paceShare*work, maxPause))
	}
	return p.until.Sub(now)
}

// sleepFor waits for d, or until ctx is done.
func sleepFor(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
