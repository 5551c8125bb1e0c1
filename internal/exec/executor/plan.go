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

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
)

// A planned program runs twice. The first execution reads, and notes its writes without making
// them; none of its results are kept. At its end it proposes all writes at once, in a call of its
// own through the gateway. When a person has approved the plan, that call runs the program again,
// as a second execution. This one receives the results that the first one read, and sees the same
// random numbers and the same time. It may make the calls of the plan. Its result becomes the
// result of the first execution.

// A planned is the plan state of a run; nil if the run has nothing to do with a plan.
type planned struct {
	args      arguments // the run's arguments
	planOf    string    // the execution whose plan it carries out; empty: the run itself is planned
	seed      string    // the program's random seed and
	startTime int64     // the time at its start, in milliseconds: the same for both executions

	mu       sync.Mutex
	clock    int64   // the time that the program sees; only the program's own timers advance it
	timerDue float64 // milliseconds from clock to the program's next timer

	// If the run is planned:
	writes    map[int]plan.Write // by index of the call
	policies  string
	proposed  *plan.Plan // the plan shown to a person; nil: not yet
	carriedBy *run       // the run that carries out the plan; nil: not yet
	result    *finished  // the result of carrying out the plan; nil: not yet

	// If the run carries out a plan:
	approved *plan.Set
	claimed  map[int]*journal.InPlan // calls taken out of the set, by index

	state string // session state that the program found when it was planned
}

// carrierOf returns the id of the execution that carries out the plan of execution id. It is
// derived from id so that a restarted process finds it.
func carrierOf(id string) string { return id + "_run" }

// planFor returns the plan state of a run, or nil if the run has nothing to do with a plan.
func planFor(a arguments, now time.Time) (*planned, error) {
	switch {
	case a.carries != nil:
		whole, err := plan.Parse(a.carries.Plan)
		if err != nil {
			return nil, err
		}
		return &planned{args: a, planOf: a.after, seed: a.carries.Seed, startTime: a.carries.At, clock: a.carries.At,
			state:    whole.State,
			approved: plan.NewSet(whole), claimed: map[int]*journal.InPlan{}}, nil
	case a.plan:
		at := now.UnixMilli()
		return &planned{args: a, seed: newSeed(), startTime: at, clock: at, writes: map[int]plan.Write{}}, nil
	}
	return nil, nil
}

// restore restores the state from the journal of a run whose process ended.
func (p *planned) restore(st *journal.History) error {
	if run, at := st.Run(); run != nil {
		p.seed, p.startTime, p.clock = run.Seed, at, at
		for _, h := range st.Inputs {
			p.clock = max(p.clock, h.At)
		}
	}
	for _, k := range st.Calls {
		switch {
		case k.Plan == nil:
		case p.approved == nil:
			p.addWrite(k.N-1, k.Plan, k.Plan.Given(k.Arguments))
		case k.Known() && !k.Unsent:
			p.approved.Done(k.Plan.Tool, k.Plan.Given(k.Arguments))
		}
	}
	if st.Planned == nil {
		return nil
	}
	whole, err := plan.Parse(st.Planned.Plan)
	p.propose(whole)
	return err
}

// propose records the plan that is shown to a person.
func (p *planned) propose(whole *plan.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proposed = whole
}

// proposal returns the plan that is shown to a person; nil: not yet.
func (p *planned) proposal() *plan.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proposed
}

// setCarrier records the run that carries out the plan.
func (p *planned) setCarrier(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carriedBy = r
}

// carrier returns the run that carries out the plan, or nil if there is none.
func (p *planned) carrier() *run {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carriedBy
}

// setOutcome records the result of carrying out the plan.
func (p *planned) setOutcome(f *finished) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result = f
}

// outcome returns the result of carrying out the plan, or nil if there is no plan or it was not
// carried out.
func (p *planned) outcome() *finished {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// currentTime returns the time that the program sees.
func (p *planned) currentTime() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock
}

// setTimer records that the program's next timer expires in ms milliseconds.
func (p *planned) setTimer(ms float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timerDue = max(min(ms, maxTimer), 0)
}

// passTimer advances the clock to that timer.
func (p *planned) passTimer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock += int64(math.Ceil(p.timerDue))
	p.timerDue = 0
}

// addWrite records a call that was not sent.
func (p *planned) addWrite(n int, in *journal.InPlan, args json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policies = in.Policies
	p.writes[n] = plan.Write{Tool: in.Tool, Arguments: args, Simulated: plan.Marked(args), Definition: in.Definition}
}

// A planner is a tool.Planner.
type planner func(c *tool.Call, policies string) (*tool.Instead, error)

// TakeOver calls f.
func (f planner) TakeOver(c *tool.Call, policies string) (*tool.Instead, error) {
	return f(c, policies)
}

// answerWrite handles the n-th call, which may write. It returns a simulated result if the program
// is planned, and otherwise the arguments that were approved.
func (p *planned) answerWrite(n int, in *journal.InPlan, c *tool.Call) (*tool.Instead, error) {
	if p.approved == nil {
		p.addWrite(n, in, c.Arguments)
		return &tool.Instead{Result: plan.Simulate(c.Tool, n), Reason: "its program is being planned: it was not sent"},
			nil
	}
	approved, err := p.approved.Take(in.Tool, c.Arguments, in.Definition, in.Policies)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claimed[n] = in
	return &tool.Instead{Arguments: approved, Reason: "approved with the plan of execution " + p.planOf}, nil
}

// isSimulated reports whether the n-th call was answered with a simulated result.
func (p *planned) isSimulated(n int) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.writes[n]
	return ok
}

// returnCall returns the n-th call, which was not sent, to the set if it was taken from the plan.
func (p *planned) returnCall(n int, args json.RawMessage) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if in := p.claimed[n]; in != nil {
		delete(p.claimed, n)
		p.approved.Return(in.Tool, in.Given(args))
	}
}

// checkPlanState records the session state in which a program is planned. If the run carries out a
// plan that was made in another state, it returns an error.
func (r *run) checkPlanState() error {
	if r.plan == nil {
		return nil
	}
	state := ""
	if r.machine.hold != nil && r.machine.hold.Record() != nil {
		state = fmt.Sprintf("%s@%d", r.machine.hold.Record().ID, r.machine.hold.Record().Revision)
	}
	if r.isPlanning() {
		r.plan.state = state
	} else if !r.history.isReplayed() && r.plan.state != state {
		return tool.Errorf(tool.Conflict,
			"session %s has changed since the plan was made, or is gone: nothing was written; plan it again", r.session)
	}
	return nil
}

// propose asks a person to approve the program's writes, and has the plan carried out.
func (r *run) propose() error {
	p := r.plan
	if p.proposal() == nil {
		whole := &plan.Plan{Session: p.args.session, State: p.state, Policies: p.policies}
		for _, n := range slices.Sorted(maps.Keys(p.writes)) {
			whole.Writes = append(whole.Writes, p.writes[n])
		}
		if len(whole.Writes) == 0 {
			r.state.addNote("planned: the program writes nothing, so there is nothing to approve")
			return nil
		}
		raw, err := whole.Encode()
		if err != nil {
			return err
		}
		p.propose(whole)
		written := r.history.RecordPlan(journal.Planned{Plan: raw, Seed: p.seed, At: p.startTime})
		if err := cmp.Or(written.Sync(), written.Wait()); err != nil { // the person who decides may look at it
			return tool.Errorf(tool.Internal,
				"the plan was not submitted for approval: it can't be written to the journal: %w", err)
		}
	}
	if known, err := r.findProposal(); known {
		return err
	}
	return r.askFor()
}

// findProposal reports whether the journal has the outcome of the plan call, and returns its error.
func (r *run) findProposal() (known bool, _ error) {
	k, n := r.state.planCall()
	switch {
	case k == nil:
		return false, nil
	case k.Failure != nil:
		return true, &tool.Error{Kind: tool.Kind(k.Failure.Kind), Msg: k.Failure.Message}
	}
	_, err := r.carryOut(r.ctx, &tool.Call{Arguments: k.Arguments, Observer: callObserver{calls: &r.calls, n: n}})
	return true, err
}

// askFor makes the call that proposes the run's plan.
func (r *run) askFor() error {
	raw, err := r.plan.proposal().Encode()
	if err != nil {
		return err
	}
	n, _ := r.state.addCall(&sandbox.GuestCall{ID: journal.PlanCall, Args: raw}, tool.PlanPath, "", math.MaxInt)
	c := r.calls.newCall(n, tool.PlanPath, raw)
	c.By.Plan = tool.CallerFunc(r.carryOut)
	var res *tool.Result
	err = r.guard("a plan", func() (err error) {
		res, err = r.x.cfg.Door.Call(r.ctx, c)
		return err
	})
	value, _ := r.calls.finishCall(n, tool.PlanPath, res, err)
	r.state.releaseCall(len(value))
	return err
}

// carryOut runs the program a second time, at most once, and waits for its end. A person has
// approved its writes.
func (r *run) carryOut(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	id := carrierOf(r.id)
	b, ok := r.x.runs.get(id)
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
	r.plan.setCarrier(b)
	b.state.setOuter(c.Observe())
	select {
	case <-b.done:
	case <-ctx.Done():
		b.cancel(context.Cause(ctx))
		<-b.done
		return nil, context.Cause(ctx)
	}
	f := b.state.result()
	r.plan.setOutcome(f)
	r.taint.labels.Add(f.Labels)
	return tool.Text(false, "carried out as execution "+id), nil
}

// carriedBefore restores the result of an execution that carried out the plan in another process.
func (r *run) carriedBefore(st *journal.History) (*tool.Result, error) {
	e := &execution.Execution{}
	if st.End == nil || json.Unmarshal(st.End.Execution, e) != nil {
		return nil, errInterrupted(
			"execution %s started to carry out the plan, and its outcome is unknown: "+
				"check what it did before you retry",
			st.Record.ID)
	}
	e.Undefined = st.End.Undefined
	res, err := tool.ParseResult(st.End.Answer)
	if err != nil {
		return nil, err
	}
	r.plan.setOutcome(&finished{Execution: e, answer: res})
	r.taint.labels.Add(e.Labels)
	return tool.Text(false, "carried out as execution "+st.Record.ID), nil
}

// carrier starts the execution that carries out the plan.
func (r *run) carrier(ctx context.Context, id string, approved json.RawMessage) (*run, error) {
	a := r.plan.args
	a.plan, a.after, a.carries = false, r.id, &journal.Planned{Plan: approved, Seed: r.plan.seed, At: r.plan.startTime}
	if r.machine.isolation.guests != nil {
		a.kind = r.machine.isolation.guests.KindName()
	}
	b := r.x.newRun(ctx, r.principal, a)
	b.id = id
	b.state.identify(0)
	var err error
	if b.plan, err = planFor(a, r.x.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	if b.calls.prior, err = r.x.priorOf(ctx, r.principal, r.id, id); err != nil {
		return nil, err
	}
	b.taint.labels.Add(tool.JoinLabels(b.calls.prior.Labels(), r.taint.labels.All()))
	b.history.beginLog(a, b.taint.labels.All())
	r.x.runs.begin(b)
	if !r.x.start(func() { b.runToEnd(a) }) {
		b.history.Freeze() // the next process starts it
		return nil, errClosing
	}
	return b, nil
}

// reporter returns the run that reports which decisions r waits for: the one that carries out its
// plan, if it waits for any, otherwise r.
func (r *run) reporter() *run {
	if b := r.plan.carrier(); b != nil {
		if held, _ := b.state.heldCalls(); len(held) > 0 {
			return b
		}
	}
	return r
}

// copyTo copies the result of carrying out the plan to e.
func (c *finished) copyTo(e *execution.Execution, writes int) {
	e.State, e.Value, e.Error, e.Console, e.Calls, e.Undefined = c.State, c.Value, c.Error, c.Console,
		c.Calls, c.Undefined
	e.Notes = append(slices.Clone(c.Notes), fmt.Sprintf("the plan of %s was approved, and carried out as execution %s",
		text.Count(writes, "call"), c.ID))
}

// content returns the content of the answer, followed by the last note, which mentions the plan.
func (c *finished) content(notes []string) (out []any) {
	for _, b := range c.answer.Content {
		out = append(out, b)
	}
	return append(out, tool.TextBlock{Type: "text", Text: execution.Notes(notes[len(notes)-1:])})
}

// describeUnmade returns how many calls of the plan the program did not make when it carried it
// out, as text. It is empty if there are none.
func (p *planned) describeUnmade() string {
	if p == nil || p.approved == nil {
		return ""
	}
	left := p.approved.Left()
	if left == 0 {
		return ""
	}
	return text.Count(left, "call") + " of the plan not made"
}

// planText returns the agent's description of a plan that waits for a person's decision.
func (p *planned) planText(h *tool.Hold, whole string) string {
	return fmt.Sprintf("a plan of %s (request %s). Nothing was sent; their answers were simulated:\n%s",
		text.Count(len(p.proposal().Writes), "call"), h.Request, whole)
}
