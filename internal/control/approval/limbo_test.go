package approval_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// If a call differs from the one requested before a restart, it is requested again. The old request
// is not used, even if it was approved.
func TestChangedWhileTheProcessWasAway(t *testing.T) {
	for _, approved := range []bool{false, true} {
		scenario(t, "policies", approval.Config{}, func(t *testing.T, _ *approval.Gate) {
			store := approvaltest.NewMemory()
			ctx, stop := context.WithCancelCause(t.Context())
			w := wait(ctx, approval.New(approval.Config{Store: store}), ask("ex_1", "1", `{}`))
			synctest.Wait()
			stop(errShutdown)
			<-w.done
			g := approval.New(approval.Config{Store: store})
			old := pending(t, g)[0].ID
			if approved {
				decide(t, g, old, true)
			}
			a := ask("ex_1", "1", `{}`)
			a.Version = "v2"
			w = wait(t.Context(), g, a)
			all := pending(t, g)
			if len(all) != 1 || all[0].ID == old || all[0].Version != "v2" {
				t.Fatalf("pending %+v", all)
			}
			if r, err := g.Get(t.Context(), old); err != nil || r.State != approval.Withdrawn ||
				(r.Decider == "local:bob") != approved {
				t.Errorf("the old one: %+v, %v", r, err)
			}
			decide(t, g, all[0].ID, true)
			w.ends(t, "")
		})
	}
}

// When an execution has ended, its open requests are withdrawn, including approved but unused ones.
func TestNothingWaitsForAnExecutionThatEnded(t *testing.T) {
	scenario(t, "ended", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		ctx, stop := context.WithCancelCause(t.Context())
		var all []*waiting
		for _, id := range []string{"1", "2"} {
			all = append(all, wait(ctx, g, ask("ex_1", id, `{}`)))
		}
		other := wait(t.Context(), g, ask("ex_2", "1", `{}`))
		synctest.Wait()
		stop(errShutdown)
		for _, w := range all {
			<-w.done
		}
		for _, r := range pending(t, g) {
			if r.Execution == "ex_1" && r.Call == "1" {
				decide(t, g, r.ID, true)
			}
		}
		if err := g.WithdrawAll(t.Context(), "ex_1"); err != nil {
			t.Fatalf("WithdrawAll: %v", err)
		}
		left, err := g.List(t.Context(), approval.Query{})
		if err != nil || len(left) != 3 {
			t.Fatalf("left = %v, err = %v, want err == nil && len(left) == 3", left, err)
		}
		for _, r := range left {
			if (r.State == approval.Withdrawn) != (r.Execution == "ex_1") {
				t.Errorf("%s of %s is %s", r.Call, r.Execution, r.State)
			}
		}
		decide(t, g, pending(t, g)[0].ID, true)
		other.ends(t, "")
	})
}

// A listing counts the lists that a Gate reads.
type listing struct {
	approval.Store
	lists int
}

func (s *listing) List(ctx context.Context, q approval.Query) ([]approval.Request, error) {
	s.lists++
	return s.Store.List(ctx, q)
}

// The end of an execution without requests reads no list, except for the first one of a process,
// which looks for the requests of earlier processes.
func TestExecutionWithoutRequestsReadsNoList(t *testing.T) {
	scenario(t, "lists", approval.Config{}, func(t *testing.T, _ *approval.Gate) {
		store := approvaltest.NewMemory()
		ctx, stop := context.WithCancelCause(t.Context())
		w := wait(ctx, approval.New(approval.Config{Store: store}), ask("ex_1", "1", `{}`))
		synctest.Wait()
		stop(errShutdown)
		<-w.done
		counted := &listing{Store: store}
		g := approval.New(approval.Config{Store: counted})
		withdraw := func(execution string, want int) {
			t.Helper()
			before := counted.lists
			if err := g.WithdrawAll(t.Context(), execution); err != nil {
				t.Fatalf("WithdrawAll(%q): %v", execution, err)
			}
			if n := counted.lists - before; n != want {
				t.Errorf("WithdrawAll(%q) read %d lists, want %d", execution, n, want)
			}
		}
		withdraw("ex_2", 2) // all requests in force: one page, and an empty one
		withdraw("ex_3", 0)
		withdraw("ex_1", 2)
		if left := pending(t, g); len(left) != 0 {
			t.Errorf("pending after the execution's end: %+v", left)
		}
		withdraw("ex_1", 0)
		ctx, stop = context.WithCancelCause(t.Context())
		w = wait(ctx, g, ask("ex_3", "1", `{}`))
		synctest.Wait()
		stop(errShutdown)
		<-w.done
		withdraw("ex_3", 2)
	})
}

// Of many simultaneous deciders one succeeds, and only that decision is recorded.
func TestOneOfManyDecidersIsOnRecord(t *testing.T) {
	var mu sync.Mutex
	var recorded []approval.State
	record := func(_ context.Context, _ approval.Decider, _ *approval.Request, to approval.State, _ string) error {
		time.Sleep(time.Second) // in the bubble: the disk is slow
		mu.Lock()
		defer mu.Unlock()
		recorded = append(recorded, to)
		return nil
	}
	scenario(t, "deciders", approval.Config{Recorder: recorder{decision: record}, Expires: time.Minute},
		func(t *testing.T, g *approval.Gate) {
			w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
			id := pending(t, g)[0].ID
			var wg sync.WaitGroup
			won := make(chan approval.State, 20)
			for i := range 20 {
				wg.Go(func() {
					r, err := g.Decide(t.Context(), bob, id, i%2 == 0, "")
					if err == nil {
						won <- r.State
					} else if tool.AsError(err).Kind != tool.Conflict {
						t.Errorf("err = %v, want tool.AsError(err).Kind == tool.Conflict", err)
					}
				})
			}
			wg.Wait()
			<-w.done
			if len(won) != 1 || len(recorded) != 1 || recorded[0] != <-won {
				t.Errorf("%d decided, recorded %v", len(won), recorded)
			}
		})
	recorded = nil
	scenario(t, "expiry at the same moment",
		approval.Config{Recorder: recorder{decision: record}, Expires: time.Minute},
		func(t *testing.T, g *approval.Gate) {
			w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
			id := pending(t, g)[0].ID
			time.Sleep(time.Minute - time.Second/2) // it expires while the decision is being recorded
			if _, err := g.Decide(t.Context(), bob, id, true, ""); err != nil {
				t.Errorf("Decide: %v", err)
			}
			if w.ends(t, ""); len(recorded) != 1 {
				t.Errorf("recorded %v", recorded)
			}
		})
}

// An approval of a call from outside is valid until its request would have expired.
func TestAnApprovalNobodyUsedIsOverInTime(t *testing.T) {
	for wait1, asked := range map[time.Duration]int{30 * time.Second: 0, 2 * time.Minute: 1} {
		scenario(t, wait1.String(), approval.Config{Expires: time.Minute}, func(t *testing.T, g *approval.Gate) {
			ctx, cancel := context.WithCancel(t.Context())
			w := wait(ctx, g, ask("", "1", `{}`))
			decided := pending(t, g)[0].ID
			cancel()
			<-w.done
			decide(t, g, decided, true)
			time.Sleep(wait1)
			ctx, cancel = context.WithCancel(t.Context())
			w = wait(ctx, g, ask("", "2", `{}`))
			all := pending(t, g)
			if len(all) != asked || len(all) == 1 && all[0].ID == decided {
				t.Errorf("pending %+v", all)
			}
			cancel()
			<-w.done
			if (w.err == nil) != (asked == 0) {
				t.Errorf("ended with %v", w.err)
			}
		})
	}
}

// A client that repeatedly calls and gives up doesn't hide the requests of others. It may repeat
// the calls it has already requested.
func TestAClientDoesNotFloodPeople(t *testing.T) {
	scenario(t, "flood", approval.Config{}, func(t *testing.T, g *approval.Gate) {
		once := func(a *approval.Ask) error {
			ctx, cancel := context.WithCancel(t.Context())
			w := wait(ctx, g, a)
			synctest.Wait()
			cancel()
			<-w.done
			return w.err
		}
		for i := range approval.MaxWaiting + 50 {
			err := once(ask("", "1", fmt.Sprintf(`{"n": %d}`, i)))
			if over := tool.AsError(err).Kind == tool.Limit; over != (i >= approval.MaxWaiting) {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		if all := pending(t, g); len(all) != approval.MaxWaiting {
			t.Errorf("%d wait", len(all))
		}
		other := ask("", "1", `{}`)
		other.Call.Principal.ID = "key:other"
		for _, a := range []*approval.Ask{other, ask("ex_1", "1", `{}`), ask("", "9", `{"n": 7}`)} {
			if err := once(a); tool.AsError(err).Kind == tool.Limit {
				t.Errorf("err = %v, want tool.AsError(err).Kind != tool.Limit", err)
			}
		}
	})
}
