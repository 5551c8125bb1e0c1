package queue

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
	q := NewTurns(1)
	a, b, c, d := q.Join(), q.Join(), q.Join(), q.Join()
	if !come(a) || come(b) || come(c) || come(d) {
		t.Fatal("more than one turn at once")
	}
	q.Leave(c) // stops waiting
	q.Leave(a)
	if !come(b) || come(d) {
		t.Fatal("the second is not the next")
	}
	q.Leave(b)
	if !come(d) || come(c) {
		t.Fatal("the last is not the next, or the one that left is")
	}
	q.Leave(d)
	if !come(q.Join()) {
		t.Fatal("a turn was lost")
	}
}
