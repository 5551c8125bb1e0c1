package executor

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// A fullSession can't keep labels.
type fullSession struct{ err error }

func (s fullSession) Label(context.Context, []string) error { return s.err }

func TestTaintLabels(t *testing.T) {
	t.Parallel()
	a := taint{env: &env{ctx: t.Context()}}
	if err := a.carry([]string{"pii"}); err != nil {
		t.Fatalf("without a session: %v", err)
	}
	a.setSession(fullSession{})
	if err := a.carry([]string{"money"}); err != nil {
		t.Fatalf("with a session: %v", err)
	}
	full := errors.New("the store is full")
	a.setSession(fullSession{full})
	if err := a.carry([]string{"secret"}); !errors.Is(err, full) {
		t.Errorf("with a full session: %v, want %v", err, full)
	}
	if got, want := a.labels.All(), []string{"money", "pii"}; !slices.Equal(got, want) {
		t.Errorf("labels: %q, want %q", got, want)
	}
}

func TestTaintBringsOnce(t *testing.T) {
	t.Parallel()
	var a taint
	failure := errors.New("the store can't be reached")
	tries := 0
	bring := func() error {
		if tries++; tries == 1 {
			return failure
		}
		return nil
	}
	if err := a.bringOnce("res_1", bring); !errors.Is(err, failure) {
		t.Errorf("the first attempt: %v, want %v", err, failure)
	}
	for range 2 {
		if err := a.bringOnce("res_1", bring); err != nil {
			t.Errorf("after that: %v", err)
		}
	}
	if tries != 2 {
		t.Errorf("brought %d times, want twice: once in vain", tries)
	}
}
