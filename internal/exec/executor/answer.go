package executor

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"

	"github.com/biplane-dev/biplane/internal/base/tracing"
	"go.opentelemetry.io/otel/attribute"
)

// A finished is the result of a run. It is made once, when the end of the execution is recorded,
// and never changes.
type finished struct {
	*execution.Execution // as agents and people see it
	answer               *tool.Result
	blocks               []json.RawMessage // the content blocks that it emitted
}

// finish ends an execution with err, or with the guest's last message: it builds the answer and
// records the end. Until that is done, the execution reads as under way.
func (r *run) finish(err error) {
	r.state.addRecorded(r.history.Left()) // these calls were made, even if the program could not continue
	e := r.state.conclude(err, r.language)
	explainImports(r, e.Error)
	e.GoesOn, e.Journaled = r.history.Frozen(), r.history.isKept() && r.history.Lost() == ""
	if p := &r.machine; p.isolation.process && (p.origin.From == "restarted" || p.moves || e.State != execution.Done) {
		e.SessionNote = r.sessionText(e)
	}
	shown, res, note := r.makeAnswer(e)
	e.Labels = r.taint.labels.All() // those of the data in the answer are added when it is made
	r.history.recordEnd(e, shown, res, r.language)
	e.GoesOn = r.history.Frozen() // the process may have begun to shut down before the end was recorded
	f := &finished{Execution: r.conceal(e, shown, note), answer: res}
	if r.function != nil {
		f.blocks = r.state.hiddenBlocks()
	}
	held := r.spared.setAnswer(res) // before the end is reported: its tokens count against limits
	r.x.runs.finish(r, len(res.Raw)+len(e.Value)+callBytes(e.Calls)+held+r.state.consoleBytes())
	r.x.unwritten.addLog(r.history.Log)
	r.x.cfg.Supervisor.RecordEnd(e)
	if carried := r.plan.outcome(); carried != nil {
		r.meter.addCPU(carried.CPU()) // of an execution that was reported as part of r, and not admitted separately
	}
	if r.onEnd != nil {
		r.onEnd(e)
	}
	r.endSpan(e)
	r.files.dropTree()
	r.taint.setSession(nil)
	r.history.release()
	r.machine.hold, r.machine.box, r.calls.prior, r.program = nil, nil, nil, nil
	r.state.publish(f)
}

// makeAnswer returns the execution as a model may see it (nil if hiding failed), and the answer. It
// also returns a note on the parts left out of the answer; empty: none.
func (r *run) makeAnswer(e *execution.Execution) (shown *execution.Execution, res *tool.Result, note string) {
	err := r.guard("an answer", func() (err error) {
		shown = r.hideExecution(e)
		var content []any
		content, note = r.content(shown)
		res, err = tool.NewResult(content, r.meta(e.State, e.Error), e.State != execution.Done)
		return err
	})
	if err != nil {
		r.x.cfg.Log.Error("answer not built", "execution", r.id, "error", err)
		res = tool.Text(true, "internal error: the answer could not be made")
	}
	return shown, res, note
}

// conceal returns a copy of e to keep in memory and send to agents, with only what a model may see.
// shown is nil if hiding failed.
func (r *run) conceal(e, shown *execution.Execution, note string) *execution.Execution {
	out := *e
	switch {
	case r.x.cfg.Privacy == nil:
		if note != "" {
			out.Notes = append(slices.Clone(e.Notes), note)
		}
	case shown == nil:
		out.Value, out.Console, out.Notes, out.Error = json.RawMessage("null"), nil, nil, nil
	default:
		out.Value, out.Console, out.Notes, out.Error, out.Calls = shown.Value, shown.Console, shown.Notes,
			shown.Error, shown.Calls
	}
	out.Calls = slices.Clone(out.Calls)
	for i := range out.Calls {
		c := &out.Calls[i]
		if c.Note = nil; r.x.cfg.Privacy != nil && shown == nil {
			c.Args, c.Error = "", ""
		}
	}
	return &out
}

// callBytes returns the approximate size of the records of calls, in bytes.
func callBytes(calls []execution.Call) (n int) {
	for i := range calls {
		n += 200 + len(calls[i].Tool) + len(calls[i].Args) + len(calls[i].Error)
	}
	return n
}

// content returns the content of the answer, and a note on the parts left out. If a plan was
// carried out, it is that execution's content.
func (r *run) content(e *execution.Execution) (out []any, note string) {
	if c := r.plan.outcome(); c != nil {
		return c.content(e.Notes), ""
	}
	for _, t := range e.Texts(func() string { return r.results.valueText(e) }, r.sessionText(e)) {
		out = append(out, tool.TextBlock{Type: "text", Text: t})
	}
	if h := values.HandleOf(e.Value); h != "" && e.State == execution.Done {
		note = r.dialog.emit(h)
	}
	for _, b := range r.state.hiddenBlocks() {
		out = append(out, b)
	}
	return out, note
}

// sessionText returns the line about the session in the answer.
func (r *run) sessionText(e *execution.Execution) string {
	switch {
	case e.Session == "":
		return ""
	case e.State != execution.Done && r.machine.moves:
		return fmt.Sprintf("session %s is as it was before this program, in its kind of sandbox", e.Session)
	case e.State != execution.Done && r.machine.lost:
		return fmt.Sprintf("the files of session %s are as they were before this program; its variables are gone, "+
			"since the program was stopped", e.Session)
	case e.State != execution.Done && r.machine.isolation.process && r.machine.origin.From == "restarted":
		return fmt.Sprintf("session %s%s", e.Session, r.machine.origin.Text())
	case e.State != execution.Done && r.machine.isolation.process && !execution.WritesValue(r.language):
		return fmt.Sprintf("the files of session %s are as they were before this program; its variables may have "+
			"changed", e.Session)
	case e.State != execution.Done || r.isPlanning():
		return fmt.Sprintf("session %s is as it was before this program", e.Session)
	}
	if r.machine.moves && r.machine.origin.From != "moved" {
		return "session " + e.Session + r.machine.origin.Text() + ". It moved to another kind of sandbox: its other " +
			"variables move when they are used"
	}
	return "session " + e.Session + r.machine.origin.Text()
}

// endSpan ends the span of the execution.
func (r *run) endSpan(e *execution.Execution) {
	r.span.SetAttributes(attribute.String("biplane.execution.state", string(e.State)),
		attribute.String("biplane.sandbox.tier", e.Tier.String()),
		attribute.Int("biplane.execution.calls", len(e.Calls)))
	failure := ""
	if e.State != execution.Done {
		failure = string(e.State)
	}
	tracing.EndSpan(r.span, failure)
}
