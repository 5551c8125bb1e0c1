package queue

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, 4)
		if err := q.Enter(t.Context(), "first"); err != nil {
			t.Fatalf("Enter: %v", err)
		}
		entered := make(chan string)
		wait := func(ctx context.Context, who string) {
			go func() {
				if err := q.Enter(ctx, who); err != nil {
					who = "canceled"
				}
				entered <- who
			}()
			synctest.Wait() // it waits in the queue
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(t.Context(), "ann")
		wait(t.Context(), "ann")
		wait(ctx, "cat")
		wait(t.Context(), "bob")
		if err := q.Enter(t.Context(), "eve"); tool.AsError(err).Kind != tool.Limit {
			t.Errorf("a full queue: %v", err)
		}
		cancel()
		if who := <-entered; who != "canceled" {
			t.Errorf("%s entered", who)
		}
		holder := "first"
		for _, want := range []string{"ann", "bob", "ann"} { // taking turns
			q.Leave(holder)
			holder = want
			if who := <-entered; who != want {
				t.Errorf("%s entered, want %s", who, want)
			}
		}
		q.Leave(holder)
		if used, _ := q.under.Load(); used != 0 || q.length != 0 || len(q.waiting) != 0 || len(q.turn) != 0 {
			t.Errorf("left over: %d under way, %d waiting, %v, %v", used, q.length, q.waiting, q.turn)
		}
	})
}

// TestAGreedyPrincipal checks that a principal with any number of programs leaves slots for those
// of another, and that its waiting programs make room in the queue.
func TestAGreedyPrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(16, 4)
		for range 16 {
			if err := q.Enter(t.Context(), "eve"); err != nil {
				t.Fatalf("Enter: %v", err)
			}
		}
		refused := make(chan error, 8)
		for range 4 {
			go func() {
				err := q.Enter(t.Context(), "eve")
				if err == nil {
					q.Leave("eve")
				}
				refused <- err
			}()
			synctest.Wait()
		}
		if err := q.Enter(t.Context(), "eve"); err == nil || !strings.Contains(err.Error(), "your share of the queue") {
			t.Errorf("a fifth that waits: %v", err)
		}
		for _, p := range []string{"ann", "bob"} {
			if err := q.Enter(t.Context(), p); err != nil { // from the reserve
				t.Errorf("p = %s, err = %v, want nil", p, err)
			}
		}
		entered := make(chan error, 1)
		go func() { entered <- q.Enter(t.Context(), "cat") }()
		synctest.Wait()
		select {
		case err := <-refused:
			if err == nil || !strings.Contains(err.Error(), "yours are the most (4)") {
				t.Errorf("the newest that waits: %v", err)
			}
		default:
			t.Fatal("nothing made room in the queue")
		}
		q.Leave("eve")
		synctest.Wait()
		select {
		case err := <-entered:
			if err != nil {
				t.Errorf("err = %v, want nil", err)
			}
		default:
			t.Error("a slot went to who has 15 rather than to who has none")
		}
		for range 15 {
			q.Leave("eve")
		}
		for range 3 {
			if err := <-refused; err != nil {
				t.Errorf("err = %v, want nil", err)
			}
		}
		for _, p := range []string{"ann", "bob", "cat"} {
			q.Leave(p)
		}
		if used, holders := q.under.Load(); used != 0 || holders != 0 || len(q.turn) != 0 || len(q.waiting) != 0 {
			t.Errorf("%d left, of %d", used, holders)
		}
	})
}
