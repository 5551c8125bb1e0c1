package queue

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := New(1, 10)
		began, finish := make(chan string), make(chan struct{})
		work := func(ctx context.Context, who string, size int) chan error {
			done := make(chan error, 1)
			go func() {
				done <- w.DoWork(ctx, who, size, func() {
					began <- who
					<-finish
				})
			}()
			synctest.Wait()
			return done
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		ann := work(t.Context(), "ann", LargeWork+1)
		eve := work(ctx, "eve", LargeWork+1)
		bob := work(t.Context(), "bob", LargeWork+1)
		if who := <-began; who != "ann" {
			t.Fatalf("%s began first, want ann", who)
		}
		if under, waiting := w.Load(); under != 1 || waiting != 2 {
			t.Errorf("%d under way, %d wait; want 1 and 2", under, waiting)
		}
		small := work(t.Context(), "ann", LargeWork)
		if who := <-began; who != "ann" {
			t.Errorf("%s began, want the small work of ann", who)
		}
		gone := errors.New("the caller is gone")
		cancel(gone)
		if err := <-eve; !errors.Is(err, gone) {
			t.Errorf("work of a caller that is gone: %v, want %v", err, gone)
		}
		finish <- struct{}{}
		finish <- struct{}{}
		if who := <-began; who != "bob" {
			t.Errorf("%s began, want bob", who)
		}
		finish <- struct{}{}
		for _, done := range []chan error{ann, small, bob} {
			if err := <-done; err != nil {
				t.Errorf("err = %v, want nil", err)
			}
		}
		if under, waiting := w.Load(); under != 0 || waiting != 0 {
			t.Errorf("%d under way, %d wait at the end", under, waiting)
		}
	})
}

func TestWorkWithoutTurns(t *testing.T) {
	done := false
	if err := (*Fair)(nil).DoWork(t.Context(), "ann", LargeWork+1, func() { done = true }); err != nil || !done {
		t.Errorf("without turns: %v, done: %t", err, done)
	}
}
