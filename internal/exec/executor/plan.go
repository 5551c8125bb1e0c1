package executor

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
)

// A planned program runs twice. The first execution reads, and notes its writes without making
// them; none of its results are kept. At its end it proposes all writes at once, in a separate call
// through the gateway. When a person has approved the plan, that call runs the program again, as a
// second execution. This one receives the results that the first one read, and sees the same random
// numbers and the same time. It may make the calls of the plan. Its result becomes the result of
// the first execution.

// A planState is the plan of a run; nil if the run has nothing to do with a plan.
type planState struct {
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
func planFor(a arguments, now time.Time) (*planState, error) {
	switch {
	case a.carries != nil:
		whole, err := plan.Parse(a.carries.Plan)
		if err != nil {
			return nil, err
		}
		return &planState{args: a, planOf: a.after, seed: a.carries.Seed, startTime: a.carries.At, clock: a.carries.At,
			state:    whole.State,
			approved: plan.NewSet(whole), claimed: map[int]*journal.InPlan{}}, nil
	case a.plan:
		at := now.UnixMilli()
		return &planState{args: a, seed: newSeed(), startTime: at, clock: at, writes: map[int]plan.Write{}}, nil
	}
	return nil, nil
}

// restore restores the state from the journal of a run whose process ended.
func (p *planState) restore(st *journal.History) error {
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
func (p *planState) propose(whole *plan.Plan) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proposed = whole
}

// proposal returns the plan that is shown to a person; nil: not yet.
func (p *planState) proposal() *plan.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.proposed
}

// setCarrier records the run that carries out the plan.
func (p *planState) setCarrier(r *run) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carriedBy = r
}

// carrier returns the run that carries out the plan, or nil if there is none.
func (p *planState) carrier() *run {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.carriedBy
}

// setOutcome records the result of carrying out the plan.
func (p *planState) setOutcome(f *finished) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.result = f
}

// outcome returns the result of carrying out the plan, or nil if there is no plan or it was not
// carried out.
func (p *planState) outcome() *finished {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.result
}

// currentTime returns the time that the program sees.
func (p *planState) currentTime() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock
}

// setTimer records that the program's next timer expires in ms milliseconds.
func (p *planState) setTimer(ms float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timerDue = max(min(ms, maxTimer), 0)
}

// passTimer advances the clock to that timer.
func (p *planState) passTimer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock += int64(math.Ceil(p.timerDue))
	p.timerDue = 0
}

// addWrite records a call that was not sent.
func (p *planState) addWrite(n int, in *journal.InPlan, args json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.policies = in.Policies
	p.writes[n] = plan.Write{Tool: in.Tool, Arguments: args, Simulated: plan.Marked(args), Definition: in.Definition}
}

// A callPlanner answers the writes of the n-th call of a program, which has to do with a plan.
type callPlanner struct {
	calls *calls
	n     int
}

// TakeOver returns a simulated result, or the arguments that were approved.
func (c callPlanner) TakeOver(sent *tool.Call, policies string) (*tool.Instead, error) {
	in := &journal.InPlan{Tool: sent.Tool.Path(), Definition: sent.Tool.Digest(), Policies: policies}
	if c.calls.x.cfg.Privacy != nil {
		in.Arguments = sent.Arguments
	}
	out, err := c.calls.plan.answerWrite(c.n, in, sent)
	if err != nil {
		return nil, err
	}
	c.calls.state.updateCall(c.n, func(rec *execution.Call) {
		if rec.Note != nil {
			rec.Note.Plan = in
		}
	})
	return out, nil
}

// answerWrite handles the n-th call, which may write. It returns a simulated result if the program
// is planned, and otherwise the arguments that were approved.
func (p *planState) answerWrite(n int, in *journal.InPlan, c *tool.Call) (*tool.Instead, error) {
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
func (p *planState) isSimulated(n int) bool {
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.writes[n]
	return ok
}

// returnCall returns the n-th call, which was not sent, to the set if it was taken from the plan.
func (p *planState) returnCall(n int, args json.RawMessage) {
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
func (p *planState) describeUnmade() string {
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
func (p *planState) planText(h *tool.Hold, whole string) string {
	return fmt.Sprintf("a plan of %s (request %s). Nothing was sent; their answers were simulated:\n%s",
		text.Count(len(p.proposal().Writes), "call"), h.Request, whole)
}

// planMode is the mode of a Begin whose program is planned.
const planMode = "plan"
