package queue

import (
	"slices"
	"sync"
)

// Turns limits how many callers are active at the same time. The others wait in order of arrival.
type Turns struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

// NewTurns returns Turns that let n callers be active at the same time.
func NewTurns(n int) *Turns { return &Turns{free: n} }

// Join returns a channel that is closed when the caller's turn comes. The caller must call Leave in
// any case, even if its turn never came.
func (t *Turns) Join() chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	turn := make(chan struct{})
	if t.free > 0 {
		t.free--
		close(turn)
	} else {
		t.waiting = append(t.waiting, turn)
	}
	return turn
}

// Leave ends a turn, or stops waiting for it.
func (t *Turns) Leave(turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.waiting, turn); i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
		return
	}
	if len(t.waiting) == 0 {
		t.free++
		return
	}
	close(t.waiting[0])
	t.waiting = t.waiting[1:]
}
