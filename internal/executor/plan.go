package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/plan"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A program that is planned runs twice. The first execution reads, and notes what it would write;
// nothing that it leaves is kept. At its end it asks once for all of that, by a call of its own
// through the door. When a person has approved it, that call runs the program again, as a second
// execution: it is told what the first one read, sees the same randomness and the same time, and
// may make the calls of the plan. What it comes to is what the first one answers.

// A planned is what a run has to do with a plan; nil: nothing.
type planned struct {
	args arguments // that the run began with
	of   string    // the execution whose plan it carries out; empty: it is planned itself
	seed string    // the program's randomness and
	from int64     // the time at its beginning, in milliseconds: the same both times

	mu    sync.Mutex
	clock int64   // the time that the program is told. It goes on by the program's own timers only
	due   float64 // milliseconds from then to its next one

	// Of one that is planned.
	writes   map[int]plan.Write // by the number of the call
	policies string
	whole    *plan.Plan // what a person is asked about; nil: not yet
	by       *run       // carries it out; nil: nothing does yet. Guarded by run.mu of what is planned
	carried  *carried   // how carrying it out ended; nil: not yet

	// Of one that carries a plan out.
	set   *plan.Set
	taken map[int]*journal.InPlan // calls that were taken out of it, by their number

	state string // of the session, as the program found it when it was planned
}

// A carried is what carrying a plan out came to.
type carried struct {
	*execution.Execution
	answer *tool.Result
	cpu    time.Duration // of the program, where that was in this process
}

// carrierOf is the id of the execution that carries out a plan, so that a process which starts
// again finds it.
func carrierOf(id string) string { return id + "_run" }

// planFor makes the planned of a run; nil where it has nothing to do with a plan.
func planFor(a arguments, now time.Time) (*planned, error) {
	switch {
	case a.carries != nil:
		whole, err := plan.Parse(a.carries.Plan)
		if err != nil {
			return nil, err
		}
		return &planned{args: a, of: a.after, seed: a.carries.Seed, from: a.carries.At, clock: a.carries.At, state: whole.State,
			set: plan.NewSet(whole), taken: map[int]*journal.InPlan{}}, nil
	case a.plan:
		at := now.UnixMilli()
		return &planned{args: a, seed: newSeed(), from: at, clock: at, writes: map[int]plan.Write{}}, nil
	}
	return nil, nil
}

// planning reports whether the run is planned: nothing that it does is to be kept.
func (r *run) planning() bool { return r.plan != nil && r.plan.set == nil }

// again takes over what a journal knows of a run whose process ended.
func (p *planned) again(st *journal.Story) error {
	if run, at := st.Run(); run != nil {
		p.seed, p.from, p.clock = run.Seed, at, at
		for _, h := range st.Heard {
			p.clock = max(p.clock, h.At)
		}
	}
	for _, k := range st.Calls {
		switch {
		case k.Plan == nil:
		case p.set == nil:
			p.note(k.N-1, k.Plan, k.Plan.Given(k.Arguments))
		case k.Known() && !k.Unsent:
			p.set.Done(k.Plan.Tool, k.Plan.Given(k.Arguments))
		}
	}
	if st.Planned == nil {
		return nil
	}
	var err error
	p.whole, err = plan.Parse(st.Planned.Plan)
	return err
}

// now is the time that the program is told.
func (p *planned) now() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock
}

// timer notes in how many milliseconds the program's next timer is due.
func (p *planned) timer(ms float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.due = max(min(ms, maxTimer), 0)
}

// wake moves the clock on to that timer.
func (p *planned) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock += int64(math.Ceil(p.due))
	p.due = 0
}

// note notes a call that was not sent.
func (p *planned) note(n int, in *journal.InPlan, args json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policies = in.Policies
	p.writes[n] = plan.Write{Tool: in.Tool, Arguments: args, Simulated: plan.Marked(args), Definition: in.Definition}
}

// writing gives what the door does with the n-th call if that may write; nil: what it does with
// any.
func (r *run) writing(n int) func(*tool.Call, string) (*tool.Instead, error) {
	p := r.plan
	if p == nil {
		return nil
	}
	return func(c *tool.Call, policies string) (*tool.Instead, error) {
		in := &journal.InPlan{Tool: c.Tool.Path(), Definition: c.Tool.Digest(), Policies: policies}
		if r.x.cfg.Privacy != nil {
			in.Arguments = c.Arguments
		}
		out := &tool.Instead{}
		if p.set == nil {
			p.note(n, in, c.Arguments)
			out.Result, out.Reason = plan.Simulate(c.Tool, n), "its program is being planned: it was not sent"
		} else {
			approved, err := p.set.Take(in.Tool, c.Arguments, in.Definition, policies)
			if err != nil {
				return nil, err
			}
			out.Arguments, out.Reason = approved, "approved with the plan of execution "+p.of
			p.mu.Lock()
			p.taken[n] = in
			p.mu.Unlock()
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if k := r.exec.Calls[n].Note; k != nil {
			k.Plan = in
		}
		return out, nil
	}
}

// simulated reports whether the n-th call was answered in place of its tool.
func (p *planned) simulated(n int) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.writes[n]
	return ok
}

// back puts the n-th call back into the plan that is carried out, if it was taken out of it: it was
// not sent.
func (p *planned) back(n int, args json.RawMessage) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if in := p.taken[n]; in != nil {
		delete(p.taken, n)
		p.set.Return(in.Tool, in.Given(args))
	}
}

// asPlanned notes in which state of its session a program is planned. It is an error where a plan
// was made in another one.
func (r *run) asPlanned() error {
	if r.plan == nil {
		return nil
	}
	state := ""
	if r.hold != nil && r.hold.Record() != nil {
		state = fmt.Sprintf("%s@%d", r.hold.Record().ID, r.hold.Record().Revision)
	}
	if r.planning() {
		r.plan.state = state
	} else if r.recall == nil && r.plan.state != state {
		return tool.Errorf(tool.Conflict, "session %s has changed since the plan was made, or is gone: nothing was written; plan it again", r.exec.Session)
	}
	return nil
}

// propose asks a person for all that the program would write, and has it carried out.
func (r *run) propose() error {
	p := r.plan
	if p.whole == nil {
		whole := &plan.Plan{Session: p.args.session, State: p.state, Policies: p.policies}
		for _, n := range slices.Sorted(maps.Keys(p.writes)) {
			whole.Writes = append(whole.Writes, p.writes[n])
		}
		if len(whole.Writes) == 0 {
			r.mu.Lock()
			r.exec.Notes = append(r.exec.Notes, "planned: the program writes nothing, so there is nothing to approve")
			r.mu.Unlock()
			return nil
		}
		raw, err := whole.Encode()
		if err != nil {
			return err
		}
		r.mu.Lock()
		p.whole = whole
		r.mu.Unlock()
		written := r.log.Planned(journal.Planned{Plan: raw, Seed: p.seed, At: p.from})
		if err := cmp.Or(written.Sync(), written.Wait()); err != nil { // who decides may look at it
			return tool.Errorf(tool.Internal, "the plan was not asked about: it can't be written to the journal: %w", err)
		}
	}
	if known, err := r.proposed(); known {
		return err
	}
	return r.askFor()
}

// proposed reports whether the journal knows how asking for the plan ended, and gives that.
func (r *run) proposed() (known bool, _ error) {
	r.mu.Lock()
	last := len(r.exec.Calls) - 1
	var k *journal.Call
	if last >= 0 {
		k = r.exec.Calls[last].Note
	}
	if k == nil || k.ID != journal.PlanCall {
		r.mu.Unlock()
		return false, nil
	}
	if !k.Known() {
		r.exec.Calls = r.exec.Calls[:last] // it is made again
	}
	r.mu.Unlock()
	switch {
	case !k.Known():
		return false, nil
	case k.Failure != nil:
		return true, &tool.Error{Kind: tool.Kind(k.Failure.Kind), Msg: k.Failure.Message}
	}
	_, err := r.carryOut(r.ctx, &tool.Call{Arguments: k.Arguments, Held: func(h *tool.Hold) { r.held(last, h) }})
	return true, err
}

// askFor makes the call by which the run asks for its plan.
func (r *run) askFor() error {
	raw, err := r.plan.whole.Encode()
	if err != nil {
		return err
	}
	var n int
	r.shift(func() {
		n = len(r.exec.Calls)
		note := r.note(n, &sandbox.GuestCall{ID: journal.PlanCall, Args: raw}, tool.PlanPath, "")
		r.exec.Calls = append(r.exec.Calls, execution.Call{Tool: tool.PlanPath, Args: r.short(raw), Pending: true, Begun: time.Now(), Note: note})
		r.begin()
	})
	c := r.callOf(n, tool.PlanPath, raw)
	c.Plan = tool.CallerFunc(r.carryOut)
	var res *tool.Result
	err = r.guard("a plan", func() (err error) {
		res, err = r.x.cfg.Door().Call(r.ctx, c)
		return err
	})
	value, _ := r.came(n, tool.PlanPath, res, err)
	r.unhold(len(value))
	return err
}

// carryOut runs the program again, once, and waits for its end. A person has approved what it may
// write.
func (r *run) carryOut(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	id := carrierOf(r.id)
	b, ok := r.x.history.get(id)
	if !ok {
		st, err := journal.Load(ctx, r.x.cfg.Journal, id)
		switch {
		case err != nil:
			return nil, err
		case st != nil:
			return r.carriedBefore(st)
		}
		if b, err = r.carrier(ctx, id, c.Arguments); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	r.plan.by = b
	r.mu.Unlock()
	b.within(c.Held)
	select {
	case <-b.done:
	case <-ctx.Done():
		b.cancel(context.Cause(ctx))
		<-b.done
		return nil, context.Cause(ctx)
	}
	r.plan.carried = &carried{b.snapshot(), b.answered, b.cpu}
	r.labels.Add(r.plan.carried.Labels)
	return tool.Text(false, "carried out as execution "+id), nil
}

// carriedBefore takes how carrying the plan out ended in another process.
func (r *run) carriedBefore(st *journal.Story) (*tool.Result, error) {
	e := &execution.Execution{}
	if st.End == nil || json.Unmarshal(st.End.Execution, e) != nil {
		return nil, interrupted("execution %s had begun to carry the plan out, and what came of it is not known: look what it did", st.Record.ID)
	}
	e.Undefined = st.End.Undefined
	res, err := tool.ParseResult(st.End.Answer)
	if err != nil {
		return nil, err
	}
	r.plan.carried = &carried{Execution: e, answer: res}
	r.labels.Add(e.Labels)
	return tool.Text(false, "carried out as execution "+st.Record.ID), nil
}

// carrier begins the execution that carries the plan out.
func (r *run) carrier(ctx context.Context, id string, approved json.RawMessage) (*run, error) {
	a := r.plan.args
	a.plan, a.after, a.carries = false, r.id, &journal.Planned{Plan: approved, Seed: r.plan.seed, At: r.plan.from}
	b := r.x.newRun(ctx, r.principal, a)
	b.id, b.exec.ID = id, id
	var err error
	if b.plan, err = planFor(a, r.x.cfg.Now()); err != nil {
		return nil, err
	}
	if b.prior, err = r.x.priorOf(ctx, r.principal, r.id, id); err != nil {
		return nil, err
	}
	b.labels.Add(tool.Joined(b.prior.Labels(), r.labels.All()))
	b.begins(a)
	r.x.history.begin(b)
	if !r.x.start(func() { b.live(a) }) {
		b.log.Freeze() // the next process begins it
		return nil, errClosing
	}
	return b, nil
}

// speaker gives the run that says what r waits for people for: the one that carries its plan out,
// where that does.
func (r *run) speaker() *run {
	if r.plan == nil {
		return r
	}
	r.mu.Lock()
	b := r.plan.by
	r.mu.Unlock()
	if b != nil {
		if held, _ := b.heldCalls(); len(held) > 0 {
			return b
		}
	}
	return r
}

// came gives what carrying the plan out came to; nil: there is no plan, or it was not carried out.
func (p *planned) came() *carried {
	if p == nil {
		return nil
	}
	return p.carried
}

// conclude makes the end of carrying the plan out that of an execution.
func (c *carried) conclude(e *execution.Execution, writes int) {
	e.State, e.Value, e.Error, e.Console, e.Calls, e.Undefined = c.State, c.Value, c.Error, c.Console, c.Calls, c.Undefined
	e.Notes = append(slices.Clone(c.Notes), fmt.Sprintf("the plan of %s was approved, and carried out as execution %s", prose.Count(writes, "call"), c.ID))
}

// content is that of the answer, and says with the last of the notes what it was.
func (c *carried) content(notes []string) (out []any) {
	for _, b := range c.answer.Content {
		out = append(out, b)
	}
	return append(out, tool.TextBlock{Type: "text", Text: execution.Notes(notes[len(notes)-1:])})
}

// leftOver says which calls of a plan the program did not make when it carried the plan out; empty:
// none.
func (p *planned) leftOver() string {
	if p == nil || p.set == nil {
		return ""
	}
	left := p.set.Left()
	if left == 0 {
		return ""
	}
	return prose.Count(left, "call") + " of the plan not made"
}

// planText is what the agent reads while a person looks at the plan.
func (p *planned) planText(h *tool.Hold, whole string) string {
	return fmt.Sprintf("a plan of %s (request %s). Nothing was sent; their answers were simulated:\n%s", prose.Count(len(p.whole.Writes), "call"), h.Request, whole)
}
