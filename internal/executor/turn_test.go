package executor

import "testing"

func come(turn chan struct{}) bool {
	select {
	case <-turn:
		return true
	default:
		return false
	}
}

func TestTurnsComeInOrder(t *testing.T) {
	q := newTurns(1)
	a, b, c, d := q.join(), q.join(), q.join(), q.join()
	if !come(a) || come(b) || come(c) || come(d) {
		t.Fatal("more than one turn at once")
	}
	q.leave(c) // gives up waiting
	q.leave(a)
	if !come(b) || come(d) {
		t.Fatal("the second is not the next")
	}
	q.leave(b)
	if !come(d) || come(c) {
		t.Fatal("the last is not the next, or the one that left is")
	}
	q.leave(d)
	if !come(q.join()) {
		t.Fatal("a turn was lost")
	}
}
