package wasm

import (
	"sync"
	"time"
)

const (
	// quantum is how long an entry may run while others wait: as long as a goroutine may, in Go's own scheduler.
	quantum = 10 * time.Millisecond
	// courtesy is how long an entry runs before it lets the goroutines run that wait for a processor: those that carry
	// the lines of other guests, and the rest of the process, would otherwise wait for Go's scheduler to preempt it,
	// ten times as long at each step.
	courtesy = time.Millisecond
	// patience is how long an entry waits for one of the turns before it runs without: an entry that is inside a
	// builtin can't be asked to step back, and must not keep the others out until its CPU time is over.
	patience = 50 * time.Millisecond
	// longPatience is the same for an entry that has stepped back.
	longPatience = time.Second
)

// turns bound how many guests run at the same instant, so that a crowd of them can't keep the rest of the process
// from the processors: each goroutine that wakes would otherwise wait for a slice of every guest.
//
// Those that begin an entry go before those that had a quantum already, but every fourth turn is for the latter: a
// short program answers at once however many loops run beside it, and the loops go on.
type turns struct {
	mu    sync.Mutex
	free  int // may be negative, when patience ended
	given int
	begun []chan struct{} // waiting to begin an entry, first come first served
	long  []chan struct{} // stepped back after a quantum
}

func newTurns(n int) *turns { return &turns{free: n} }

// take waits for a turn; stop ends the wait, with a turn all the same: who is to stop needs no queue for it.
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
		t.free-- // nobody gave a turn: take one too many, and give it back like any other
	}
}

// give gives a turn back.
func (t *turns) give() {
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

// wanted reports whether someone waits.
func (t *turns) wanted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.begun)+len(t.long) > 0
}

// remove takes c out of q and reports whether it was there.
func remove(q *[]chan struct{}, c chan struct{}) bool {
	for i, x := range *q {
		if x == c {
			*q = append((*q)[:i], (*q)[i+1:]...)
			return true
		}
	}
	return false
}
