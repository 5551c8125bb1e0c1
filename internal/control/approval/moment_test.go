package approval_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A slow store runs a hook after its operations.
type slow struct {
	approval.Store
	mu    sync.Mutex
	moved func(to approval.State) error // after Move
	got   func() error                  // after Get
}

func (s *slow) then(f *func() error) error {
	s.mu.Lock()
	next := *f
	*f = nil
	s.mu.Unlock()
	if next == nil {
		return nil
	}
	return next()
}

func (s *slow) Get(ctx context.Context, id string) (*approval.Request, error) {
	r, err := s.Store.Get(ctx, id)
	if err == nil {
		err = s.then(&s.got)
	}
	return r, err
}

func (s *slow) Move(ctx context.Context, id string, from, to approval.State, d approval.Decision) (bool, error) {
	moved, err := s.Store.Move(ctx, id, from, to, d)
	s.mu.Lock()
	after := s.moved
	s.mu.Unlock()
	if after != nil && err == nil {
		err = after(to)
	}
	return moved, err
}

// The decider may disconnect, or the disk fail, at any moment: the waiting call still sees a
// decision that is in the store.
func TestADecisionIsHeardOf(t *testing.T) {
	for name, how := range map[string]struct {
		fails error
		wants string
	}{"the decider leaves": {nil, ""}, "it can't be known whether it was written": {errors.New("disk"), "disk"}} {
		store := &slow{Store: approvaltest.NewMemory()}
		var recorded []approval.State
		record := func(_ context.Context, _ approval.Decider, _ *approval.Request, to approval.State, _ string) error {
			recorded = append(recorded, to)
			return nil
		}
		cfg := approval.Config{Store: store, Recorder: recorder{decision: record}}
		scenario(t, name, cfg, func(t *testing.T, g *approval.Gate) {
			a := ask("ex_1", "1", `{}`)
			held := 0
			a.Call.Observer = holdFunc(func(h *tool.Hold) {
				if held--; h != nil {
					held += 2
				}
			})
			began := time.Now()
			w := wait(t.Context(), g, a)
			id := pending(t, g)[0].ID
			ctx, leave := context.WithCancel(t.Context())
			store.moved = func(to approval.State) error {
				if to == approval.Approved {
					leave()
					return how.fails
				}
				return nil
			}
			_, err := g.Decide(ctx, bob, id, true, "")
			if how.wants == "" && err != nil || how.wants != "" && !errors.Is(err, how.fails) {
				t.Errorf("the decider heard %v", err)
			}
			if w.ends(t, ""); time.Since(began) > time.Second || held != 0 || len(recorded) != 1 {
				t.Errorf("the call heard of it after %v; held %d, recorded %v", time.Since(began), held, recorded)
			}
			leave()
		})
	}
	// A decision that was recorded when the decider disconnected still takes effect.
	leave := func() {}
	record := func(context.Context, approval.Decider, *approval.Request, approval.State, string) error {
		leave()
		return nil
	}
	scenario(t, "the decider leaves while it is recorded", approval.Config{Recorder: recorder{decision: record}},
		func(t *testing.T, g *approval.Gate) {
			w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
			id := pending(t, g)[0].ID
			var ctx context.Context
			ctx, leave = context.WithCancel(t.Context())
			if _, err := g.Decide(ctx, bob, id, true, ""); err != nil {
				t.Errorf("Decide: %v", err)
			}
			w.ends(t, "")
		})
}

// A call that is decided before it reports that it is held no longer reports it.
func TestDecidedBeforeItIsHeld(t *testing.T) {
	store := &slow{Store: approvaltest.NewMemory()}
	scenario(t, "at once", approval.Config{Store: store}, func(t *testing.T, g *approval.Gate) {
		a := ask("ex_1", "1", `{}`)
		a.Call.Observer = holdFunc(func(*tool.Hold) { t.Error("the call says that it waits, after it was decided on") })
		store.got = func() error { // the call has seen that the request is pending
			all, err := g.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}})
			if err != nil || len(all) != 1 {
				t.Errorf("all = %v, err = %v, want err == nil && len(all) == 1", all, err)
				return err
			}
			_, err = g.Decide(t.Context(), bob, all[0].ID, true, "")
			return err
		}
		wait(t.Context(), g, a).ends(t, "")
	})
}

// A request that no call waits for is not shown to people, even if the call failed because the
// store could not be read.
func TestACallThatFailsIsAskedAboutNoMore(t *testing.T) {
	store := &slow{Store: approvaltest.NewMemory()}
	scenario(t, "unreadable", approval.Config{Store: store}, func(t *testing.T, g *approval.Gate) {
		store.got = func() error { return errors.New("can't be read") }
		wait(t.Context(), g, ask("ex_1", "1", `{}`)).ends(t, "can't be read")
		if all := pending(t, g); len(all) != 0 {
			t.Errorf("still pending: %+v", all)
		}
	})
}

// A list shows the decision of a request that is decided at the last moment.
func TestListedAtTheLastMoment(t *testing.T) {
	record := func(context.Context, approval.Decider, *approval.Request, approval.State, string) error {
		time.Sleep(time.Second)
		return nil
	}
	cfg := approval.Config{Expires: time.Minute, Recorder: recorder{decision: record}}
	scenario(t, "list", cfg, func(t *testing.T, g *approval.Gate) {
		w := wait(t.Context(), g, ask("ex_1", "1", `{}`))
		id := pending(t, g)[0].ID
		time.Sleep(time.Minute - time.Second/2)
		go g.Decide(t.Context(), bob, id, true, "")
		time.Sleep(time.Second * 3 / 4)
		all, err := g.List(t.Context(), approval.Query{})
		if err != nil || len(all) != 1 || all[0].State != approval.Approved && all[0].State != approval.Made ||
			all[0].Decider != bob.Principal.ID {
			t.Errorf("listed %+v, %v", all, err)
		}
		w.ends(t, "")
	})
}

// In any order of events, each request has one decision, which is the one recorded. A call is made
// only if it was approved, and once. No call waits for a decided request, nothing is pending
// without a waiting call, and a held call's request is pending.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) { anyOrder(t, seed) })
	}
}

func anyOrder(t *testing.T, seed uint64) {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 1))
	nap := func() error { // of everyone, at every step
		mu.Lock()
		d := time.Duration(rnd.IntN(4)) * time.Millisecond
		mu.Unlock()
		time.Sleep(d)
		return nil
	}
	memory := approvaltest.NewMemory()
	recorded := map[string][]approval.State{}
	record := func(_ context.Context, _ approval.Decider, r *approval.Request, to approval.State, _ string) error {
		nap()
		mu.Lock()
		defer mu.Unlock()
		recorded[r.ID] = append(recorded[r.ID], to)
		return nil
	}
	g := approval.New(approval.Config{Store: &jittery{memory, nap}, Expires: 20 * time.Millisecond,
		Recorder: recorder{decision: record}})
	made, held := map[string]int{}, map[string]*tool.Hold{}
	var calls, others sync.WaitGroup
	for n := range 6 {
		key := strconv.Itoa(n)
		ctx, stop := context.WithCancelCause(t.Context())
		others.Go(func() {
			if n%3 != 1 {
				time.Sleep(time.Second) // when everything is over
			}
			nap()
			nap()
			nap()
			stop(tool.Errorf(tool.Canceled, "stopped"))
		})
		calls.Go(func() {
			nap()
			a := ask("ex_1", key, `{}`)
			a.Call.Observer = holdFunc(func(h *tool.Hold) {
				mu.Lock()
				defer mu.Unlock()
				if (held[key] == nil) == (h == nil) {
					t.Errorf("call %s is told %v, when it is held: %v", key, h, held[key])
				}
				held[key] = h
			})
			r, err := g.Wait(ctx, a)
			mu.Lock()
			defer mu.Unlock()
			if held[key] != nil {
				t.Errorf("call %s goes on, and is held", key)
			}
			if err == nil {
				made[r.ID]++
			}
		})
	}
	for n := range 4 {
		others.Go(func() {
			for range 8 {
				nap()
				all, err := g.List(t.Context(), approval.Query{States: []approval.State{approval.Pending}})
				if err != nil {
					t.Errorf("List: %v", err)
				}
				for _, r := range all {
					ctx, leave := context.WithTimeout(t.Context(), time.Duration(n)*time.Millisecond)
					if _, err := g.Decide(ctx, bob, r.ID, n%2 == 0, ""); err == nil {
						mu.Lock()
						if h := held[r.Call]; h != nil && h.Request == r.ID {
							t.Errorf("call %s is still held after its decision was confirmed", r.Call)
						}
						mu.Unlock()
					}
					leave()
				}
			}
		})
	}
	began := time.Now()
	calls.Wait()
	if d := time.Since(began); d > 200*time.Millisecond {
		t.Errorf("seed %d: it took %v", seed, d)
	}
	others.Wait()
	all, err := memory.List(t.Context(), approval.Query{})
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	for _, r := range all {
		said := recorded[r.ID]
		switch {
		case len(said) > 1:
			t.Errorf("seed %d: call %s: %v on record", seed, r.Call, said)
		case r.State == approval.Pending || r.State == approval.Approved:
			t.Errorf("seed %d: call %s is %s, and nobody waits", seed, r.Call, r.State)
		case r.State == approval.Denied != (len(said) == 1 && said[0] == approval.Denied):
			t.Errorf("seed %d: call %s is %s, on record %v", seed, r.Call, r.State, said)
		case (r.State == approval.Made) != (made[r.ID] == 1) ||
			r.State == approval.Made && (len(said) != 1 || said[0] != approval.Approved):
			t.Errorf("seed %d: call %s is %s, was made %d times, on record %v", seed, r.Call, r.State, made[r.ID], said)
		case r.State == approval.Expired && len(said) > 0:
			t.Errorf("seed %d: call %s has expired, on record %v", seed, r.Call, said)
		}
	}
}

// A jittery store sleeps before and after each operation, so that others run meanwhile.
type jittery struct {
	approval.Store
	nap func() error
}

func (j *jittery) Open(ctx context.Context, r *approval.Request) (*approval.Request, error) {
	j.nap()
	defer j.nap()
	return j.Store.Open(ctx, r)
}

func (j *jittery) Get(ctx context.Context, id string) (*approval.Request, error) {
	j.nap()
	defer j.nap()
	return j.Store.Get(ctx, id)
}

func (j *jittery) Move(ctx context.Context, id string, from, to approval.State, d approval.Decision) (bool, error) {
	j.nap()
	defer j.nap()
	return j.Store.Move(ctx, id, from, to, d)
}
