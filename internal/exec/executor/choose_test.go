package executor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A fleet is a stage with several kinds of sandboxes.
type fleet struct {
	*stage
	wasm, process *puppet
	kinds         []sandbox.Kind
}

// newFleet returns a stage with a wasm and a process kind.
func newFleet(t *testing.T) *fleet {
	f := &fleet{wasm: &puppet{engine: "w"}, process: &puppet{engine: "p", tier: tool.Process}}
	f.kinds = []sandbox.Kind{
		{Name: "wasm", Driver: f.wasm},
		{Name: "process", Tier: tool.Process, Driver: f.process},
	}
	f.stage = newStage(t, func(c *executor.Config) { c.Drivers = f.kinds })
	t.Cleanup(func() {
		f.stop()
		for _, k := range []*puppet{f.wasm, f.process} {
			if n := k.open.Load(); n != 0 {
				t.Errorf("%d sandboxes of engine %q are still open", n, k.engine)
			}
		}
	})
	return f
}

// tryAt runs a program whose grant requires a tier.
func (f *fleet) tryAt(tier tool.Tier, session, code string, more ...string) outcome {
	f.t.Helper()
	f.grant.Tier = tier
	return f.try(f.t.Context(), ann, session, code, more...)
}

// doAt runs a program that must succeed, and checks which driver ran it.
func (f *fleet) doAt(tier tool.Tier, session string, on *puppet, list ...op) outcome {
	f.t.Helper()
	before := on.made.Load() + on.back.Load()
	o := f.tryAt(tier, session, ops(list...))
	if o.failed {
		f.t.Fatalf("at tier %s: %v %s", tier, o.err, o.text)
	}
	if o.from != "memory" && on.made.Load()+on.back.Load() == before {
		f.t.Errorf("tier %s: engine %q made no sandbox", tier, on.engine)
	}
	if got := tierIn(f.t, o.res); got != on.tier.String() && (got != "" || on.tier != tool.WASM) {
		f.t.Errorf("the answer names tier %q, want %s", got, on.tier)
	}
	if line := "ran in a sandbox of tier"; strings.Contains(o.text, line) != (on.tier != tool.WASM) {
		f.t.Errorf("tier %s: %q in the answer: %s", on.tier, line, o.text)
	}
	return o
}

// tierIn returns the tier in the metadata of an answer, or "".
func tierIn(t testing.TB, res *tool.Result) string {
	t.Helper()
	var v struct {
		Meta map[string]struct{ Tier string } `json:"_meta"`
	}
	if err := json.Unmarshal(res.Raw, &v); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return v.Meta["biplane.dev/execution"].Tier
}

// refusedAt runs a program that no sandbox may run, and checks its error.
func (f *fleet) refusedAt(tier tool.Tier, session, language string, kind tool.Kind, parts ...string) {
	f.t.Helper()
	made := f.wasm.made.Load() + f.process.made.Load() + f.wasm.back.Load() + f.process.back.Load()
	o := f.tryAt(tier, session, ops(op{Get: "x"}), "language", language)
	if !o.failed || o.err != nil {
		f.t.Fatalf("tier %s: %v %s", tier, o.err, o.text)
	}
	for _, part := range parts {
		if !strings.Contains(o.text, part) {
			f.t.Errorf("tier %s, %s: %q is missing in: %s", tier, language, part, o.text)
		}
	}
	if !strings.Contains(string(o.res.Raw), `"kind":"`+string(kind)+`"`) {
		f.t.Errorf("tier %s: not of kind %s: %s", tier, kind, o.res.Raw)
	}
	if n := f.wasm.made.Load() + f.process.made.Load() + f.wasm.back.Load() + f.process.back.Load(); n != made {
		f.t.Errorf("tier %s: %d sandboxes were made", tier, n-made)
	}
}

// TestCheapestDriver checks that a program runs in the cheapest sandbox that its grant allows and
// that runs its language, and that the answer and the journal name a stronger tier.
func TestCheapestDriver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.doAt(tool.WASM, "", f.wasm, op{Set: "x=1"})
	o := f.doAt(tool.Process, "", f.process, op{Set: "x=1"})
	id, _ := idOf(t, o.res)
	d, err := f.x.Details(t.Context(), ann, id)
	if err != nil || d.Tier != tool.Process || d.Engine != "puppet p" {
		t.Errorf("the journal: %+v, %v", d, err)
	}
	f.wasm.langs = []string{"js"}
	f.restart()
	if o := f.tryAt(tool.WASM, "", ops(), "language", "python"); o.failed || tierIn(t, o.res) != "process" {
		t.Errorf("Python, which only one driver runs: %v %s", o.err, o.text)
	}
	f.doAt(tool.WASM, "", f.wasm, op{Set: "x=1"})
	f.wasm.broken = errors.New("no memory")
	f.restart()
	f.doAt(tool.WASM, "", f.process, op{Set: "x=1"})
}

// TestNoDriverFits checks that a program never runs in a weaker sandbox than its grant asks for,
// and that the error names the request and the reason why each driver is unsuitable.
func TestNoDriverFits(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.refusedAt(tool.GVisor, "", "typescript", tool.Unavailable, "a sandbox of tier gvisor or stronger, for typescript",
		"wasm is only of tier wasm; process is only of tier process. Don't try it again")
	f.kinds = append(f.kinds, sandbox.Kind{Name: "microvm", Tier: tool.MicroVM, Err: errors.New("/dev/kvm is missing")})
	f.process.langs = []string{"js"}
	f.restart()
	f.refusedAt(tool.MicroVM, "", "typescript", tool.Unavailable, "tier microvm, for typescript",
		"process is only of tier process", "microvm can't run here: /dev/kvm is missing")
	f.refusedAt(tool.Process, "", "python", tool.Unavailable, "tier process or stronger, for python",
		"wasm is only of tier wasm", "process can't run python", "/dev/kvm")
	f.process.tier = tool.WASM // its Probe finds less than what the kind is for
	f.restart()
	f.refusedAt(tool.Process, "", "typescript", tool.Unavailable, "process is only of tier wasm on this host")
	f.process.broken = errors.New("user namespaces are disabled")
	f.restart()
	f.refusedAt(tool.Process, "", "typescript", tool.Unavailable,
		"process can't run here: user namespaces are disabled")
}

// TestSessionKeepsItsDriver checks that a session, its fork, and its export stay in the kind of
// sandbox in which the session began.
func TestSessionKeepsItsDriver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.doAt(tool.Process, "strong", f.process, op{Set: "x=1"})
	f.doAt(tool.WASM, "weak", f.wasm, op{Set: "x=2"})
	f.doAt(tool.WASM, "strong", f.process, op{Set: "x=+3"}) // from memory
	if _, err := f.x.Sessions().Fork(t.Context(), ann, "strong", "fork"); err != nil {
		t.Fatalf("Fork: %v", err)
	}
	file := f.export("strong", "open sesame")
	f.restart()
	for _, name := range []string{"strong", "fork"} {
		if o := f.doAt(tool.WASM, name, f.process, op{Get: "x"}); o.value != "13" {
			t.Errorf("session %s: x is %q, want 13", name, o.value)
		}
	}
	if _, err := f.load("copy", file, "open sesame"); err != nil {
		t.Fatalf("load: %v", err)
	}
	if o := f.doAt(tool.WASM, "copy", f.process, op{Get: "x"}); o.value != "13" {
		t.Errorf("the imported session: x is %q, want 13", o.value)
	}
	f.refusedAt(tool.Process, "weak", "typescript", tool.Conflict,
		`session "weak" stays in the kind of sandbox in which it began (wasm)`, "needs tier process or stronger",
		"biplane sessions end weak")
	if o := f.doAt(tool.WASM, "weak", f.wasm, op{Get: "x"}); o.value != "2" {
		t.Errorf("after the refusal: x is %q, want 2", o.value)
	}
	f.kinds = f.kinds[:1]
	f.restart()
	f.refusedAt(tool.WASM, "strong", "typescript", tool.Conflict, "(process)", "can't run this program")
	if _, err := f.load("again", file, "open sesame"); kindOf(err) != tool.Unavailable {
		t.Errorf("an import without its driver: %v", err)
	}
}

// TestRecoveryKeepsTheDriver checks that a waiting execution continues in the kind of sandbox in
// which it began, after a restart and after a suspension, and that it is replayed there. Without
// this kind it ends as interrupted.
func TestRecoveryKeepsTheDriver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	begin := func(tier tool.Tier) string {
		t.Helper()
		f.grant.Tier = tier
		raw, err := tool.Marshal(map[string]any{"code": ops(op{Set: "x=1"}, op{Call: "box.gate"}, op{Get: "x"})})
		if err != nil {
			t.Fatalf("tool.Marshal: %v", err)
		}
		go f.x.Execute().Call(context.Background(),
			&tool.Call{Path: "biplane.execute", Arguments: raw, Principal: ann, Grant: f.grant})
		var open []journal.Record
		eventually(t, "the call is made, and its execution is in the store", func() bool {
			if open, err = f.db.Executions(f.key).Open(t.Context()); err != nil {
				t.Fatalf("Open: %v", err)
			}
			return f.inside.Load() == 1 && len(open) == 1
		})
		return open[0].ID
	}
	result := func(id string) outcome {
		t.Helper()
		if err := f.x.Recover(t.Context()); err != nil {
			t.Fatalf("Recover: %v", err)
		}
		raw, _ := tool.Marshal(map[string]string{"execution": id})
		res, err := f.x.Resume().Call(t.Context(), &tool.Call{Path: "biplane.resume", Arguments: raw, Principal: ann})
		if err != nil {
			t.Fatalf("Call: %v", err)
		}
		return read(t, res)
	}
	weak := func() { f.kinds[0].Tier, f.wasm.tier = tool.Process, tool.Process } // a trap: now it is cheapest

	id := begin(tool.Process)
	weak()
	f.restart()
	made := f.wasm.made.Load()
	close(f.gate)
	if o := result(id); o.value != "1" || tierIn(t, o.res) != "process" {
		t.Errorf("recovered: %s", o.text)
	}
	if _, err := f.x.Replay(t.Context(), ann, id, execution.ReplayOptions{}); err != nil {
		t.Errorf("replay: %v", err)
	}
	if n := f.wasm.made.Load(); n != made {
		t.Errorf("the other driver made %d sandboxes", n-made)
	}

	f.gate = make(chan struct{})
	f.kinds[0].Tier, f.wasm.tier = tool.WASM, tool.WASM
	f.restart()
	id = begin(tool.Process)
	f.kinds = f.kinds[:1]
	f.restart()
	d := result(id)
	if !d.failed || !strings.Contains(d.text, "can't continue in the kind of sandbox in which it began") {
		t.Errorf("without its driver: %s", d.text)
	}
	if x, err := f.x.Details(t.Context(), ann, id); err != nil || x.State != journal.Interrupted {
		t.Errorf("without its driver: %+v, %v", x, err)
	}
}

// TestWokenProgramKeepsTheDriver checks that a suspended program is restored in the kind of sandbox
// in which it began.
func TestWokenProgramKeepsTheDriver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	tweak := f.tweak
	f.tweak = func(c *executor.Config) { tweak(c); napping(c) }
	f.restart()
	f.grant.Tier = tool.Process
	done := make(chan outcome)
	go func() { done <- f.try(t.Context(), ann, "", ops(op{Set: "x=1"}, op{Call: "box.slow"}, op{Get: "x"})) }()
	eventually(t, "the program is suspended", func() bool {
		run, _ := f.x.Load() // it releases its slot last
		return f.process.open.Load() == 0 && f.inside.Load() > 0 && run == 0 && blobs(t, f.stage) > 0
	})
	f.slow <- struct{}{}
	if o := <-done; o.value != "1" || tierIn(t, o.res) != "process" || f.process.back.Load() != 1 {
		t.Errorf("%s, restored %d times", o.text, f.process.back.Load())
	}
}

// An eraser removes the recorded kinds of sandboxes from what a store returns, as if it had been
// written before they were recorded.
type eraser struct{ erased atomic.Int64 }

func (e *eraser) erase(b []byte) []byte {
	kind := []byte(`,"sandbox":"wasm"`)
	e.erased.Add(int64(bytes.Count(b, kind)))
	return bytes.ReplaceAll(b, kind, bytes.Repeat([]byte(" "), len(kind))) // entries have a length
}

type oldSessions struct {
	session.Store
	*eraser
}

func (o oldSessions) Load(ctx context.Context, owner, name string) (*session.Record, error) {
	r, err := o.Store.Load(ctx, owner, name)
	if r != nil {
		r.State = o.erase(r.State)
	}
	return r, err
}

type oldJournals struct {
	journal.Store
	*eraser
}

func (o oldJournals) Parts(ctx context.Context, id string) ([][]byte, error) {
	parts, err := o.Store.Parts(ctx, id)
	for i := range parts {
		parts[i] = o.erase(parts[i])
	}
	return parts, err
}

// TestOldDataFolder checks that sessions and executions without a recorded kind of sandbox continue
// in the wasm driver, even if another driver would be chosen today.
func TestOldDataFolder(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	var sessions, journals eraser
	tweak := f.tweak
	f.tweak = func(c *executor.Config) {
		tweak(c)
		c.Store, c.Journal = oldSessions{c.Store, &sessions}, oldJournals{c.Journal, &journals}
	}
	o := f.doAt(tool.WASM, "work", f.wasm, op{Set: "x=1"}, op{Get: "x"})
	id, _ := idOf(t, o.res)
	f.kinds[0], f.kinds[1] = f.kinds[1], f.kinds[0]
	f.restart()
	if o := f.doAt(tool.WASM, "work", f.wasm, op{Get: "x"}); o.value != "1" {
		t.Errorf("the session: %s", o.text)
	}
	made := f.process.made.Load()
	r, err := f.x.Replay(t.Context(), ann, id, execution.ReplayOptions{})
	if err != nil || !r.Same || f.process.made.Load() != made {
		t.Errorf("the replay: %+v, %v; the process driver made %d sandboxes", r, err, f.process.made.Load()-made)
	}
	if sessions.erased.Load() == 0 || journals.erased.Load() == 0 {
		t.Errorf("erased %d kinds from sessions, %d from journals", sessions.erased.Load(), journals.erased.Load())
	}
}

// A plannedDoor lists the writes of planned programs, and waits for a decision before it has a plan
// carried out.
type plannedDoor struct {
	next    tool.Caller
	asked   chan struct{} // receives each plan that waits for a decision
	approve chan struct{} // closed when plans are approved
}

func (d *plannedDoor) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	by := c.FromProgram()
	if by.Plan != nil {
		d.asked <- struct{}{}
		select {
		case <-d.approve:
			return by.Plan.Call(ctx, c)
		case <-ctx.Done():
			return nil, tool.NotSent(context.Cause(ctx))
		}
	}
	if by.Planner == nil {
		return d.next.Call(ctx, c)
	}
	write := *c
	write.Tool = &tool.Tool{Upstream: "box", Name: "put", InputSchema: []byte(`{"type":"object"}`)}
	instead, err := by.Planner.TakeOver(&write, "v1")
	if err != nil || instead.Result != nil {
		return instead.Result, err
	}
	write.Arguments = instead.Arguments
	return d.next.Call(ctx, &write)
}

// TestPlanKeepsTheDriver checks that a plan is carried out in the kind of sandbox in which its
// program was planned, also by the next process, in which another kind is the cheapest.
func TestPlanKeepsTheDriver(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		f := newFleet(t)
		door := &plannedDoor{asked: make(chan struct{}, 2), approve: make(chan struct{})}
		tweak := f.tweak
		f.tweak = func(c *executor.Config) {
			tweak(c)
			door.next = c.Door
			c.Door = door
		}
		f.restart()
		answer := make(chan outcome, 1)
		go func() {
			answer <- f.tryAt(tool.Process, "", ops(op{Set: "x=1"}, op{Call: "box.put"}, op{Get: "x"}), "mode", "plan")
		}()
		<-door.asked
		all, err := f.x.Executions(t.Context(), ann, journal.Query{})
		if err != nil || len(all) != 1 {
			t.Fatalf("all = %v, err = %v, want err == nil && len(all) == 1", all, err)
		}
		planned := f.process.made.Load()
		if restart {
			f.kinds[0].Tier, f.wasm.tier = tool.Process, tool.Process // a trap: now it is cheapest
			f.restart()
			<-answer
			if err := f.x.Recover(t.Context()); err != nil {
				t.Fatalf("Recover: %v", err)
			}
			go func() {
				raw, _ := tool.Marshal(map[string]string{"execution": all[0].ID})
				res, err := f.x.Resume().Call(context.Background(), &tool.Call{Arguments: raw, Principal: ann})
				if err != nil {
					answer <- outcome{err: err, failed: true}
					return
				}
				answer <- read(t, res)
			}()
			<-door.asked
		}
		close(door.approve)
		if o := <-answer; o.failed || o.value != "1" || tierIn(t, o.res) != "process" {
			t.Errorf("restarted: %t: %+v, want the value of a program at tier process", restart, o)
		}
		if made, other := f.process.made.Load(), f.wasm.made.Load(); made != planned+1 || other != 0 {
			t.Errorf("restarted: %t: its driver made %d sandboxes for the plan, the other driver %d; want 1 and 0",
				restart, made-planned, other)
		}
		run, err := f.x.Details(t.Context(), ann, all[0].ID+"_run")
		if err != nil || run.State != journal.Done || run.Tier != tool.Process || run.Engine != "puppet p" ||
			len(run.Calls) != 1 || run.Calls[0].Plan == nil {
			t.Errorf("restarted: %t: the execution that carried out the plan: %+v, %v", restart, run, err)
		}
	}
}
