package executor

import (
	"slices"
	"sync"
)

// turns lets so many calls of a program go on at once, the others in the order in which the program made them.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting []chan struct{}
}

func newTurns(n int) *turns { return &turns{free: n} }

// join gives a turn, which has come when it is closed. Whoever joined leaves, whether its turn came or not.
func (t *turns) join() chan struct{} {
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

// leave gives up a turn, or the wait for it.
func (t *turns) leave(turn chan struct{}) {
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
