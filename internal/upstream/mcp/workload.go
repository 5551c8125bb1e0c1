package mcp

import (
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/cputime"
)

// busyShare limits the share of a processor that a server can occupy with its lists, however often
// it announces changes: after each list, the next one waits for busyShare times the processor time
// that reading, scanning and indexing the list took.
const busyShare = 20

// A workload measures the work that a server's lists cause, and how long the next list has to wait.
type workload struct {
	fixed time.Duration // counts for each piece of work instead of its processor time; 0: measure

	mu     sync.Mutex
	active int       // pieces of work in progress
	rested time.Time // when the next list may be requested
}

// measureWork does a piece of work, and lets the next list wait accordingly.
func (w *workload) measureWork(do func()) {
	w.mu.Lock()
	w.active++
	w.mu.Unlock()
	end := func() time.Duration { return w.fixed }
	if w.fixed == 0 {
		end = cputime.StartTimer()
	}
	do()
	cost := end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active--
	now := time.Now()
	if w.rested.Before(now) {
		w.rested = now
	}
	w.rested = w.rested.Add(busyShare * cost)
}

// pauseLeft returns how long the next list has to wait. As long as work is in progress, that is
// unknown, and at least check.
func (w *workload) pauseLeft(check time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := max(0, time.Until(w.rested))
	if w.active > 0 {
		left = max(left, check)
	}
	return left
}
