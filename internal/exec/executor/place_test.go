package executor

import (
	"context"
	"errors"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/session/live"
)

func TestPlaceJoinsInOrder(t *testing.T) {
	t.Parallel()
	var order []string
	joins := func(name string) func() (turn, error) {
		return func() (turn, error) {
			order = append(order, name)
			return func(context.Context) (*live.Hold, error) { return nil, nil }, nil
		}
	}
	first := make(chan struct{})
	a := place{leave: func() { close(first) }}
	b := place{come: first}
	done := make(chan error)
	go func() {
		_, err := b.joinQueue(t.Context(), joins("second"))
		done <- err
	}()
	if _, err := a.joinQueue(t.Context(), joins("first")); err != nil {
		t.Errorf("the first: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("the second: %v", err)
	}
	if len(order) != 2 || order[0] != "first" {
		t.Errorf("joined in the order %q", order)
	}
}

func TestPlaceOfCanceledProgram(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	cancel(stopped)
	released := false
	p := place{come: make(chan struct{}), leave: func() { released = true }}
	_, err := p.joinQueue(ctx, func() (turn, error) {
		t.Error("a canceled program joined before its predecessors")
		return nil, nil
	})
	if !errors.Is(err, stopped) || !released {
		t.Errorf("got %v (successors released: %t), want %v and true", err, released, stopped)
	}
}

func TestPlaceOfRecoveredProgram(t *testing.T) {
	t.Parallel()
	p := place{wait: func(context.Context) (*live.Hold, error) { return nil, nil }, come: make(chan struct{})}
	wait, err := p.joinQueue(t.Context(), func() (turn, error) {
		t.Error("it joined the queue twice")
		return nil, nil
	})
	if wait == nil || err != nil {
		t.Errorf("got %v, want the turn that it had", err)
	}
}
