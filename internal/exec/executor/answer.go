package executor

import (
	"fmt"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/values"
	"github.com/biplane-dev/biplane/internal/tool"
)

// finish builds the answer of an execution that ended with err or with the guest's last message.
func (r *run) finish(err error) {
	r.state.addRecorded(r.history.Left()) // these calls were made, even if the program could not continue
	r.state.mu.Lock()
	r.state.conclude(err, r.language)
	r.state.exec.GoesOn = r.history.Frozen()
	r.state.exec.Journaled = r.history.isKept() && r.history.Lost() == ""
	r.state.exec.MS = r.x.cfg.Clock.Now().Sub(r.state.exec.Started).Milliseconds()
	r.state.mu.Unlock()
	e := r.state.snapshot()
	var shown *execution.Execution
	var res *tool.Result
	if err := r.guard("an answer", func() (err error) {
		shown = r.hideExecution(e)
		res, err = tool.NewResult(r.content(shown), r.meta(e.State), e.State != execution.Done)
		return err
	}); err != nil {
		r.x.cfg.Log.Error("make an answer", "execution", r.id, "error", err)
		res = tool.Text(true, "internal error: the answer could not be made")
	}
	r.history.recordEnd(e, shown, res, r.language)
	r.state.mu.Lock()
	size := len(res.Raw) + len(e.Value) + r.state.spared.bytes + r.state.output.kept + callBytes(e.Calls)
	r.state.conceal(shown)
	r.files.dropTree()
	r.taint.setSession(nil)
	r.state.output, r.state.program, r.state.table.indexes = output{}, nil, nil
	r.state.table.results = lastResults{}
	r.history.release()
	r.machine.hold, r.machine.box, r.calls.prior = nil, nil, nil
	r.state.answered = res
	for i := range r.state.exec.Calls {
		r.state.exec.Calls[i].Note = nil
	}
	r.state.mu.Unlock()
	r.x.runs.finish(r, size)
	r.x.owe(r.history.Log)
	if r.x.cfg.Ended != nil {
		r.x.cfg.Ended(e)
	}
	if carried := r.plan.came(); carried != nil {
		r.meter.addCPU(carried.CPU()) // of an execution that was reported as part of r, and not admitted separately
	}
	if r.admitted != nil {
		r.admitted(e)
	}
	close(r.done)
	r.state.notifyWatchers()
}

// callBytes returns the approximate size of the records of calls, in bytes.
func callBytes(calls []execution.Call) (n int) {
	for i := range calls {
		n += 200 + len(calls[i].Tool) + len(calls[i].Args) + len(calls[i].Error)
	}
	return n
}

// content returns the content of the answer. If a plan was carried out, it is that execution's
// content.
func (r *run) content(e *execution.Execution) []any {
	if c := r.plan.came(); c != nil {
		return c.content(e.Notes)
	}
	var out []any
	for _, t := range e.Texts(func() string { return r.results.valueText(e) }, r.sessionText(e)) {
		out = append(out, tool.TextBlock{Type: "text", Text: t})
	}
	if h := values.HandleOf(e.Value); h != "" && e.State == execution.Done {
		r.dialog.emit(h)
	}
	for _, b := range r.state.hiddenBlocks() {
		out = append(out, b)
	}
	return out
}

// sessionText returns the line about the session in the answer.
func (r *run) sessionText(e *execution.Execution) string {
	switch {
	case e.Session == "":
		return ""
	case e.State != execution.Done || r.isPlanning():
		return fmt.Sprintf("session %s is as it was before this program", e.Session)
	}
	return "session " + e.Session + r.machine.origin.Text()
}
