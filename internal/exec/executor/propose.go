package executor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
)

// A proposal asks a person to approve the writes of a planned program, and has the plan carried
// out.
type proposal struct {
	*env
	state   *state
	history *history
	calls   *calls
	taint   *taint
	machine *machine
}

// checkState records the session state in which a program is planned. If the run carries out a plan
// that was made in another state, it returns an error.
func (p *proposal) checkState() error {
	if p.plan == nil {
		return nil
	}
	state := ""
	if p.machine.hold != nil && p.machine.hold.Record() != nil {
		state = fmt.Sprintf("%s@%d", p.machine.hold.Record().ID, p.machine.hold.Record().Revision)
	}
	if p.isPlanning() {
		p.plan.state = state
	} else if !p.history.isReplayed() && p.plan.state != state {
		return tool.Errorf(tool.Conflict,
			"session %s has changed since the plan was made, or is gone: nothing was written; plan it again", p.session)
	}
	return nil
}

// proposeWrites asks a person to approve the program's writes, and has the plan carried out.
func (p *proposal) proposeWrites() error {
	if p.plan.proposal() == nil {
		whole := &plan.Plan{Session: p.plan.args.session, State: p.plan.state, Policies: p.plan.policies}
		for _, n := range slices.Sorted(maps.Keys(p.plan.writes)) {
			whole.Writes = append(whole.Writes, p.plan.writes[n])
		}
		if len(whole.Writes) == 0 {
			p.state.addNote("planned: the program writes nothing, so there is nothing to approve")
			return nil
		}
		raw, err := whole.Encode()
		if err != nil {
			return err
		}
		p.plan.propose(whole)
		written := p.history.RecordPlan(journal.Planned{Plan: raw, Seed: p.plan.seed, At: p.plan.startTime})
		if err := cmp.Or(written.Sync(), written.Wait()); err != nil { // the person who decides may look at it
			return tool.Errorf(tool.Internal,
				"the plan was not submitted for approval: it can't be written to the journal: %w", err)
		}
		if lost := p.history.Lost(); lost != "" { // its reads, and what a correction needs, would be missing
			return tool.Errorf(tool.Limit, "the plan was not submitted for approval: %s. Read less in one plan", lost)
		}
	}
	if known, err := p.findOutcome(); known {
		return err
	}
	return p.askPerson()
}

// findOutcome reports whether the journal has the outcome of the plan call, and returns its error.
func (p *proposal) findOutcome() (known bool, _ error) {
	k, n := p.state.planCall()
	switch {
	case k == nil:
		return false, nil
	case k.Failure != nil:
		return true, &tool.Error{Kind: tool.Kind(k.Failure.Kind), Msg: k.Failure.Message}
	}
	_, err := p.carryOut(p.ctx, &tool.Call{Arguments: k.Arguments, Observer: callObserver{calls: p.calls, n: n}})
	return true, err
}

// askPerson makes the call that proposes the run's plan.
func (p *proposal) askPerson() error {
	raw, err := p.plan.proposal().Encode()
	if err != nil {
		return err
	}
	n, _ := p.state.addCall(&sandbox.GuestCall{ID: journal.PlanCall, Args: raw}, tool.PlanPath, "", math.MaxInt)
	c := p.calls.newCall(n, tool.PlanPath, raw)
	c.By.Plan = tool.CallerFunc(p.carryOut)
	var res *tool.Result
	err = p.guard("a plan", func() (err error) {
		res, err = p.x.cfg.Door.Call(p.ctx, c)
		return err
	})
	value, _ := p.calls.finishCall(n, tool.PlanPath, res, err)
	p.state.releaseCall(len(value))
	return err
}

// carryOut runs the program a second time, at most once, and waits for its end. A person has
// approved its writes.
func (p *proposal) carryOut(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	id := carrierOf(p.id)
	b, ok := p.x.runs.get(id)
	if !ok {
		st, err := journal.Load(ctx, p.x.cfg.Journal, id)
		switch {
		case err != nil:
			return nil, err
		case st != nil:
			return p.restoreOutcome(st)
		}
		if b, err = p.startCarrier(ctx, id, c.Arguments); err != nil {
			return nil, err
		}
	}
	p.plan.setCarrier(b)
	b.state.setOuter(c.Observe())
	select {
	case <-b.done:
	case <-ctx.Done():
		b.cancel(context.Cause(ctx))
		<-b.done
		return nil, context.Cause(ctx)
	}
	f := b.state.result()
	p.plan.setOutcome(f)
	p.taint.labels.Add(f.Labels)
	return tool.Text(false, "carried out as execution "+id), nil
}

// restoreOutcome restores the result of an execution that carried out the plan in another process.
func (p *proposal) restoreOutcome(st *journal.History) (*tool.Result, error) {
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
	p.plan.setOutcome(&finished{Execution: e, answer: res})
	p.taint.labels.Add(e.Labels)
	return tool.Text(false, "carried out as execution "+st.Record.ID), nil
}

// startCarrier starts the execution that carries out the plan.
func (p *proposal) startCarrier(ctx context.Context, id string, approved json.RawMessage) (*run, error) {
	a := p.plan.args
	a.plan, a.after, a.carries = false, p.id, &journal.Planned{Plan: approved, Seed: p.plan.seed, At: p.plan.startTime}
	if p.machine.isolation.guests != nil {
		a.kind, a.image = p.machine.isolation.guests.KindName(), p.machine.isolation.guests.ImageName()
	}
	b := p.x.newRun(ctx, p.principal, a)
	b.id = id
	b.state.identify(0)
	var err error
	if b.plan, err = planFor(a, p.x.cfg.Clock.Now()); err != nil {
		return nil, err
	}
	if b.calls.prior, err = p.x.priorOf(ctx, p.principal, p.id, id); err != nil {
		return nil, err
	}
	b.taint.labels.Add(tool.JoinLabels(b.calls.prior.Labels(), p.taint.labels.All()))
	b.history.beginLog(a, b.taint.labels.All())
	p.x.runs.begin(b)
	if !p.x.start(func() { b.runToEnd(a) }) {
		b.history.Freeze() // the next process starts it
		<-p.ctx.Done()     // this process ends, and the planned execution continues in the next one
		return nil, context.Cause(p.ctx)
	}
	return b, nil
}
