package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A gated is a scene in which calls of box.write wait at a real approval gate, which outlives the
// scene's processes.
type gated struct {
	*scene
	gate *approval.Gate
}

// ends is a Supervisor that is called with each execution that ended.
type ends func(*execution.Execution)

func (ends) AdmitExecution(context.Context, *tool.Call) (func(*execution.Execution), error) {
	return nil, nil
}

func (ends) AdmitMove(*tool.Call, string, string) error  { return nil }
func (ends) AdmitImage(*tool.Call, string, string) error { return nil }

func (ends) AdmitTrial(*tool.Call, string, []tool.Finding) error { return nil }

func (ends) AdmitProgram(*tool.Call, string, []tool.Finding) error { return nil }

func (ends) ReadmitExecution(*tool.Call) func(*execution.Execution) { return nil }

func (ends) RecordStart(string, tool.Principal) {}

func (f ends) RecordEnd(e *execution.Execution) { f(e) }

func newGated(t testing.TB, tweak func(*executor.Config)) *gated {
	g := &gated{gate: approval.New(approval.Config{Store: approvaltest.NewMemory()})}
	g.scene = newScene(t, func(c *executor.Config) {
		inner := c.Door
		c.AnswerWithin = time.Minute
		c.Door = tool.CallerFunc(func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
			if c.Path == "box.write" {
				next := *c
				next.Tool = sceneTools()[0]
				if _, err := g.gate.Wait(ctx,
					&approval.Ask{Call: &next, Policy: "p", Version: "v", Reason: "it writes"}); err != nil {
					return nil, tool.NotSent(err)
				}
			}
			return inner.Call(ctx, c)
		})
		c.Supervisor = ends(func(e *execution.Execution) {
			if !e.GoesOn {
				_ = g.gate.WithdrawAll(context.Background(), e.ID)
			}
		})
		if tweak != nil {
			tweak(c)
		}
	})
	return g
}

// pending returns the pending requests as soon as there are n.
func (g *gated) pending(n int) (all []approval.Request) {
	g.t.Helper()
	eventually(g.t, fmt.Sprint(n, " calls wait"), func() bool {
		var err error
		if all, err = g.gate.List(context.Background(),
			approval.Query{States: []approval.State{approval.Pending}}); err != nil {
			g.t.Fatalf("List: %v", err)
		}
		return len(all) == n
	})
	return all
}

func (g *gated) approve(id string) {
	g.t.Helper()
	if _, err := g.gate.Decide(context.Background(), approval.Decider{Principal: bob}, id, true, ""); err != nil {
		g.t.Errorf("Decide: %v", err)
	}
}

// listed reports whether a list of executions with a state contains the execution.
func (g *gated) listed(id string, state journal.State) bool {
	g.t.Helper()
	all, err := g.x.Executions(context.Background(), g.who, journal.Query{States: []journal.State{state}})
	if err != nil {
		g.t.Fatalf("Executions: %v", err)
	}
	return len(all) == 1 && all[0].ID == id && all[0].State == state
}

// begin starts a program and returns without waiting for its answer.
func (g *gated) begin(code string) (answer chan string) {
	answer = make(chan string, 1)
	go func() {
		_, res, err := g.execute(map[string]any{"code": code})
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(res.Raw)
	}()
	return answer
}

// TestItIsToldThatItWaits checks that lists and watchers of executions report when one begins to
// wait for people and when it no longer does. Here the state changes because of another call's
// answer, and of another call.
func TestItIsToldThatItWaits(t *testing.T) {
	t.Parallel()
	// ms is the delay before the other call; a slow machine needs longer to report the state
	for ms := 600; !toldThatItWaits(t, ms); ms *= 4 {
		if ms > 20_000 {
			t.Fatal("nobody is told that it waits")
		}
	}
}

func toldThatItWaits(t *testing.T, ms int) bool {
	t.Helper()
	g := newGated(t, func(c *executor.Config) { c.Limits.Sessions.SuspendAfter = -1 }) // suspended programs wait, too
	first, second := make(chan struct{}), make(chan struct{})
	g.hold["box.read"], g.hold["box.image"] = first, second
	answer := g.begin(fmt.Sprintf(`await Promise.all([box.write({n: 1}), (async () => {
		await box.read({});
		await new Promise(next => setTimeout(next, %d)); await box.image({}); })()]); return "end"`, ms))
	id := g.pending(1)[0].Execution
	eventually(t, "both are called", func() bool { return g.count("box.read {}") == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var mu sync.Mutex
	told := journal.State("")
	watched := make(chan error, 1)
	go func() {
		watched <- g.x.Watch(ctx, g.who, id, func(d *execution.Details) error {
			mu.Lock()
			defer mu.Unlock()
			told = d.State
			return nil
		})
	}()
	is := func(state journal.State) bool {
		mu.Lock()
		now := told
		mu.Unlock()
		return now == state && g.listed(id, state)
	}
	eventually(t, "it is told that it runs", func() bool { return is(journal.Running) })
	close(first)
	inTime := false
	eventually(t, "it is told that it waits, or calls", func() bool {
		inTime = inTime || is(journal.Waiting)
		return inTime || g.count("box.image {}") == 1
	})
	if d, err := g.x.Details(ctx, g.who, id); err != nil || len(d.Calls) < 2 || d.Calls[0].Sent.Before(d.Started) {
		t.Errorf("d = %+v, err = %v, want err == nil && len(d.Calls) >= 2 && "+
			"!d.Calls[0].Sent.Before(d.Started)", d, err)
	}
	eventually(t, "another call", func() bool { return g.count("box.image {}") == 1 })
	eventually(t, "it is told that it runs again", func() bool { return is(journal.Running) })
	close(second)
	eventually(t, "it is told that it waits again", func() bool { return is(journal.Waiting) })
	g.approve(g.pending(1)[0].ID)
	if d := g.ended(id); d.State != journal.Done {
		t.Errorf("d.Error = %+v, want d.State == journal.Done", d.Error)
	}
	<-answer
	if err := <-watched; err != nil {
		t.Errorf("err = %v, want nil", err)
	}
	return inTime
}

// TestAllAreToldThatItWaits checks that all callers who wait for a program are notified when it
// waits for people.
func TestAllAreToldThatItWaits(t *testing.T) {
	t.Parallel()
	within := time.Second
	g := newGated(t, func(c *executor.Config) { c.AnswerWithin = within })
	hold := make(chan struct{})
	g.hold["box.read"] = hold
	_, res, err := g.execute(map[string]any{"code": `await box.read({}); await box.write({n: 1}); return "end"`})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	id := executionOf(res)
	within = 10 * time.Minute
	g.crash(0)
	eventually(t, "it goes on", func() bool { return g.count("box.read {}") == 2 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all, wait sync.WaitGroup
	for range 3 {
		wait.Add(1)
		told := sync.OnceFunc(wait.Done) // progress reports that it waits
		all.Go(func() {
			raw, _ := json.Marshal(map[string]string{"execution": id})
			res, err := g.x.Resume().Call(ctx,
				&tool.Call{Path: "biplane.resume", Arguments: raw, Principal: g.who, InPlace: true,
					Observer: watch{progress: func(tool.Progress) { told() }}})
			if err != nil || !strings.Contains(string(res.Raw), "waits for a person") {
				t.Errorf("res = %v, err = %v, want err == nil && strings.Contains(string(res.Raw), "+
					"\"waits for a person\")", res, err)
			}
		})
	}
	wait.Wait()
	close(hold)
	all.Wait()
	g.approve(g.pending(1)[0].ID)
	g.ended(id)
}

// TestAnEndedProgramWaitsForNobody checks that a program that has ended doesn't wait for people:
// calls that it didn't await are abandoned, and its answer says so.
func TestAnEndedProgramWaitsForNobody(t *testing.T) {
	t.Parallel()
	g := newGated(t, nil)
	answer := <-g.begin(`box.write({n: 1}); await box.read({}); throw new Error("enough")`)
	if !strings.Contains(answer, "enough") {
		t.Errorf("answered %s", answer)
	}
	g.pending(0)
	if n := g.count(`box.write {"n":1}`); n != 0 {
		t.Errorf("made %d times", n)
	}
}

// TestTimeOfPeopleIsNotItsOwn checks that the time that people take to decide doesn't count against
// the execution's limits, also if another process then recovers it.
func TestTimeOfPeopleIsNotItsOwn(t *testing.T) {
	t.Parallel()
	clock := new(wallclock.Clock)
	g := newGated(t, func(c *executor.Config) { c.Clock = clock })
	g.begin(`await box.write({n: 1}); await box.write({n: 2}); return "end"`)
	first := g.pending(1)[0]
	eventually(t, "it waits", func() bool { return g.listed(first.Execution, journal.Waiting) })
	clock.Advance(5 * time.Hour)
	g.approve(first.ID)
	eventually(t, "the first is made", func() bool { return g.count(`box.write {"n":1}`) == 1 })
	g.pending(1)
	g.crash(0)
	g.approve(g.pending(1)[0].ID)
	if d := g.ended(first.Execution); d.State != journal.Done {
		t.Errorf("d.State = %s, d.Error = %+v, want d.State == journal.Done", d.State, d.Error)
	}
}

var asked = regexp.MustCompile(`request (apr_[a-z0-9]+)`)

// TestHeldInAnyOrder checks random sequences of decisions, callers and crashes. Approved calls are
// made once, others never. An answer names the pending requests, but none that were decided before
// it was requested. Every execution ends, and nothing is left pending.
func TestHeldInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		heldInAnyOrder(t, rand.New(rand.NewPCG(seed, 7)))
	}
}

func heldInAnyOrder(t *testing.T, rnd *rand.Rand) {
	g := newGated(t, func(c *executor.Config) {
		c.Limits.Sessions.SuspendAfter = 20 * time.Millisecond
		c.AnswerWithin = 150 * time.Millisecond
	})
	defer g.stop()
	_, res, err := g.execute(map[string]any{"code": `
const say = r => r.status === "fulfilled" ? r.value.args.n : -1;
const one = await Promise.allSettled([1, 2, 3].map(n => box.write({n})).concat([4, 5].map(n => box.read({n}))));
const two = await Promise.allSettled([6, 7].map(async n => { await box.read({n}); await new Promise(next => setTimeout(next, 5 * n)); return box.write({n}); }));
return [...one, ...two].map(say)`})
	if err != nil {
		t.Fatalf("execute: %v", err)
	}
	id := executionOf(res)
	var mu sync.Mutex
	decided := map[string]bool{} // and the decision has been answered
	approved := map[string]bool{}
	resume := func(ctx context.Context, inPlace bool) (done bool) {
		mu.Lock()
		before := map[string]bool{}
		for r := range decided {
			before[r] = true
		}
		mu.Unlock()
		raw, _ := json.Marshal(map[string]string{"execution": id})
		res, err := g.x.Resume().Call(ctx,
			&tool.Call{Path: "biplane.resume", Arguments: raw, Principal: g.who, InPlace: inPlace})
		if err != nil {
			return false
		}
		for _, m := range asked.FindAllSubmatch(res.Raw, -1) {
			if before[string(m[1])] {
				t.Errorf("%s was decided on before: %s", m[1], res.Raw)
			}
		}
		_, state := idOf(t, res)
		return state == "done" || state == "failed"
	}
	decide := func(yes bool, which int) {
		all, err := g.gate.List(context.Background(), approval.Query{States: []approval.State{approval.Pending}})
		if err != nil || len(all) == 0 {
			return
		}
		r := all[which%len(all)]
		if _, err := g.gate.Decide(context.Background(), approval.Decider{Principal: bob}, r.ID, yes, ""); err == nil {
			mu.Lock()
			defer mu.Unlock()
			decided[r.ID] = true
			approved["box.write "+string(r.Arguments)] = yes
		}
	}
	end := time.Now().Add(2 * time.Minute)
	for done := false; !done; {
		if time.Now().After(end) {
			t.Fatal("it doesn't come to its end")
		}
		var wg sync.WaitGroup
		finished := make([]bool, 3)
		for i := range finished {
			inPlace := rnd.IntN(2) == 0
			wg.Go(func() { finished[i] = resume(t.Context(), inPlace) })
		}
		for range rnd.IntN(3) {
			yes, which, d := rnd.IntN(3) > 0, rnd.IntN(5), time.Duration(rnd.IntN(150))*time.Millisecond
			wg.Go(func() { time.Sleep(d); decide(yes, which) })
		}
		wg.Wait()
		for _, f := range finished {
			done = done || f
		}
		if rnd.IntN(6) == 0 {
			g.crash(0)
		}
	}
	d := g.ended(id)
	var got []int
	if err := json.Unmarshal(d.Value, &got); d.State != journal.Done || err != nil {
		t.Fatalf("d.State = %s, d.Error = %+v, want d.State == journal.Done && err == nil", d.State, d.Error)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, n := range []int{1, 2, 3, 4, 5, 6, 7} {
		key := fmt.Sprintf(`box.write {"n":%d}`, n)
		want := 0
		if approved[key] {
			want = 1
		}
		if n == 4 || n == 5 {
			continue
		}
		if g.made[key] != want || (got[i] == n) != (want == 1) {
			t.Errorf("%s was made %d times, want %d; the program was told %d", key, g.made[key], want, got[i])
		}
	}
	if all, err := g.gate.List(context.Background(),
		approval.Query{States: []approval.State{approval.Pending, approval.Approved}}); err != nil || len(all) > 0 {
		t.Errorf("left: %+v, %v", all, err)
	}
}
