package mcp

import (
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/cputime"
)

// busyFactor limits the share of a processor that a server can occupy with its lists, however often
// it announces changes: after each list, the next one waits for busyFactor times the processor time
// that reading, scanning and indexing the list took.
const busyFactor = 20

// A workload measures the work that a server's lists cause, and how long the next list has to wait.
type workload struct {
	fixed time.Duration // counts for each piece of work instead of its processor time; 0: measure

	mu     sync.Mutex
	active int       // pieces of work in progress
	rested time.Time // when the next list may be requested
	// use is the cost of the most expensive use of the last list. Only that one counts: the state
	// of a server changes with its calls, too, and callers must not postpone its lists
	// indefinitely.
	use time.Duration
}

// measureList makes a list, and lets the next one wait accordingly.
func (w *workload) measureList(do func()) {
	cost := w.measureWork(do)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.use = 0
	w.addWork(cost)
}

// measureUse uses the last list, and lets the next one wait accordingly.
func (w *workload) measureUse(do func()) {
	cost := w.measureWork(do)
	w.mu.Lock()
	defer w.mu.Unlock()
	more := max(0, cost-w.use)
	w.use += more
	w.addWork(more)
}

// addWork ends a piece of work that counts as cost. The caller holds w.mu.
func (w *workload) addWork(cost time.Duration) {
	w.active--
	if now := time.Now(); w.rested.Before(now) {
		w.rested = now
	}
	w.rested = w.rested.Add(busyFactor * cost)
}

// measureWork does a piece of work, and returns its cost. It counts as in progress until
// addWork.
func (w *workload) measureWork(do func()) time.Duration {
	w.mu.Lock()
	w.active++
	w.mu.Unlock()
	end := func() time.Duration { return w.fixed }
	if w.fixed == 0 {
		end = cputime.StartTimer()
	}
	do()
	return end()
}

// pauseLeft returns how long the next list has to wait. While work is in progress, it returns at
// least check, because the pause is unknown.
func (w *workload) pauseLeft(check time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := max(0, time.Until(w.rested))
	if w.active > 0 {
		left = max(left, check)
	}
	return left
}
