package queue

import (
	"slices"
	"sync"
)

// Turns lets so many go on at once, the others in the order in which they came.
type Turns struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

// NewTurns makes those of which n go on at once.
func NewTurns(n int) *Turns { return &Turns{free: n} }

// Join gives a turn, which has come when it is closed. Whoever joined leaves, whether its turn came
// or not.
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

// Leave gives up a turn, or the wait for it.
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
