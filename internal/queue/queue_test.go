package queue

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/biplane-dev/biplane/internal/tool"
)

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, 4)
		if err := q.Enter(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		entered := make(chan string)
		wait := func(ctx context.Context, who string) {
			go func() {
				if err := q.Enter(ctx, who); err != nil {
					who = "canceled"
				}
				entered <- who
			}()
			synctest.Wait() // it stands in the queue
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
		for _, want := range []string{"ann", "bob", "ann"} { // in turns
			q.Leave()
			if who := <-entered; who != want {
				t.Errorf("%s entered, want %s", who, want)
			}
		}
		q.Leave()
		if q.free != 1 || q.length != 0 || len(q.waiting) != 0 || len(q.turn) != 0 {
			t.Errorf("left over: %d free, %d waiting, %v, %v", q.free, q.length, q.waiting, q.turn)
		}
	})
}
