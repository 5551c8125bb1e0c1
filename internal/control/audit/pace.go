package audit

import (
	"context"
	"sync/atomic"
	"time"
)

// Limits of a pacer.
const (
	paceLeaves = 256                    // leaves between pauses
	paceShare  = 9                      // length of a pause, as a multiple of the work before it
	maxPause   = 200 * time.Millisecond // of one pause
)

// A pacer pauses the verification of the record while leaves are added, so that calls
// stay fast. Verification then uses about a tenth of the time.
type pacer struct {
	added    *atomic.Int64
	verified *atomic.Int64 // counts the leaves
	leaves   int
	seen     int64     // value of added at the last pause
	since    time.Time // end of the last pause
}

func (l *Log) newPacer() *pacer {
	return &pacer{added: &l.added, verified: &l.progress.done, seen: l.CountAdditions(), since: time.Now()}
}

// countLeaf counts a verified leaf, and returns how long to pause before the next.
func (p *pacer) countLeaf() (pause time.Duration) {
	if p.leaves++; p.leaves < paceLeaves {
		return 0
	}
	p.leaves = 0
	p.verified.Add(paceLeaves)
	now := time.Now()
	if n := p.added.Load(); n != p.seen {
		p.seen, pause = n, min(paceShare*now.Sub(p.since), maxPause)
	}
	p.since = now.Add(pause)
	return pause
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
