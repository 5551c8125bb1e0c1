package wasm

import (
	"sync"
	"time"
)

const (
	// quantum is how long an entry may run while others wait: the time slice of a goroutine in Go's
	// scheduler.
	quantum = 10 * time.Millisecond
	// yieldInterval is how long an entry runs before it yields to waiting goroutines. Those carry
	// the lines of other guests, and run the rest of the process. Otherwise they would wait for
	// Go's scheduler to preempt it, ten times as long at each step.
	yieldInterval = time.Millisecond
	// patience is how long an entry waits for a turn before it runs without one. An entry inside a
	// builtin can't be asked to yield, and must not block the others until its CPU time is used up.
	patience = 50 * time.Millisecond
	// longPatience is the patience of an entry that has yielded.
	longPatience = time.Second
)

// turns limits how many guests run simultaneously, so that many guests can't starve the rest of the
// process. Otherwise each goroutine that wakes would wait for a time slice of every guest.
//
// New entries take precedence over entries that have used a quantum, but every fourth turn is for
// the latter. So a short program answers quickly, however many loops run beside it, and the loops
// still make progress.
type turns struct {
	mu    sync.Mutex
	free  int // may be negative after patience ran out
	given int
	begun []chan struct{} // waiting to start an entry, in FIFO order
	long  []chan struct{} // yielded after a quantum
}

func newTurns(n int) *turns { return &turns{free: n} }

// take waits for a turn. If stop is closed, it returns with a turn anyway: a guest that must stop
// doesn't need to queue.
func (t *turns) take(long bool, stop <-chan struct{}) {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return
	}
	c := make(chan struct{})
	wait := patience
	if long {
		t.long = append(t.long, c)
		wait = longPatience
	} else {
		t.begun = append(t.begun, c)
	}
	t.mu.Unlock()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c:
		return
	case <-stop:
	case <-timer.C:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if remove(&t.begun, c) || remove(&t.long, c) {
		t.free-- // no turn was free: take one too many, and return it like any other
	}
}

// releaseTurn returns a turn.
func (t *turns) releaseTurn() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.free++
	for t.free > 0 {
		q := &t.begun
		if t.given++; len(t.begun) == 0 || len(t.long) > 0 && t.given%4 == 0 {
			q = &t.long
		}
		if len(*q) == 0 {
			return
		}
		close((*q)[0])
		*q = (*q)[1:]
		t.free--
	}
}

// hasWaiters reports whether an entry waits for a turn.
func (t *turns) hasWaiters() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.begun)+len(t.long) > 0
}

// remove removes c from q and reports whether it was there.
func remove(q *[]chan struct{}, c chan struct{}) bool {
	for i, x := range *q {
		if x == c {
			*q = append((*q)[:i], (*q)[i+1:]...)
			return true
		}
	}
	return false
}
