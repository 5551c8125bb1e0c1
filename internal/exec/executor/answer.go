package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/program"
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
	r.state.exec.MS = r.x.cfg.Now().Sub(r.state.exec.Started).Milliseconds()
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

// conclude sets the state, value, error and notes of the execution. r.state.mu is held.
func (s *state) conclude(err error, language string) {
	e := &s.exec
	e.Console, e.Logged = s.output.lines, s.output.logged
	for i := range e.Calls {
		if c := &e.Calls[i]; c.Pending { // its goroutine is gone: it never started
			c.Pending, c.Unsent, c.Error = false, true, errNotMade.Msg
		}
	}
	if s.program != nil {
		e.Notes = append(append([]string{}, s.program.Notes...), e.Notes...)
	}
	e.Notes = append(e.Notes, slices.DeleteFunc(s.output.doubts, s.hasNoted)...)
	if note := s.output.droppedNote(); note != "" {
		e.Notes = append(e.Notes, note)
	}
	if left := s.plan.leftOver(); left != "" && s.exec.State != execution.Queued {
		e.Notes = append(e.Notes, left)
	}
	if lost := s.history.Lost(); lost != "" {
		e.Notes = append(e.Notes, "this execution can't be replayed, nor recovered after a crash: "+lost)
	}
	switch {
	case err == nil && s.plan.came() != nil:
		s.plan.came().conclude(e, len(s.plan.whole.Writes))
	case err == nil && s.end != nil && s.end.Done != nil:
		e.State, e.Value = execution.Done, s.end.Done.Value
		if bytes.Contains(e.Value, []byte(program.FileName)) {
			e.Value = json.RawMessage(s.rewriteFrames(string(e.Value)))
		}
		e.Undefined, e.Language = len(e.Value) == 0, language
		if s.program != nil && s.program.Remark != "" {
			e.Notes = append(e.Notes, s.program.Remark)
		}
		if n := s.unawaited(s.end.Done.Unawaited); n != "" {
			e.Notes = append(e.Notes, n)
		}
		if n := s.explainUndefined(e); n != "" {
			e.Notes = append(e.Notes, n)
		}
	case err == nil && s.end != nil && s.end.Fail != nil:
		e.State, e.Error = execution.Failed, execution.Thrown(s.program, &s.end.Fail.Error)
		s.explainShape(e.Error)
	case isInterruption(err):
		e.State, e.Error = execution.Interrupted, s.failureOf(err)
	default:
		e.State, e.Error = execution.Failed, s.failureOf(err)
		e.Notes = append(e.Notes, execution.FurtherProblems(err)...)
	}
	if e.Value == nil {
		e.Value = json.RawMessage("null")
	}
	s.end = nil
}

// unawaited returns a note that names the calls that the program didn't await. s.mu is held.
func (s *state) unawaited(ids []int64) string {
	var names []string
	seen := map[string]bool{}
	known, stopped := 0, 0
	for _, id := range ids {
		n, ok := s.table.indexes[id]
		if !ok { // refused immediately, such as a call over the limit
			continue
		}
		c := &s.exec.Calls[n]
		known++
		if !c.Unsent && strings.HasPrefix(c.Error, "canceled") {
			stopped++
		}
		if !seen[c.Tool] {
			seen[c.Tool] = true
			names = append(names, c.Tool)
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > 5 {
		names, more = names[:5], ", …"
	}
	outcome := "they were awaited at its end"
	if stopped > 0 {
		outcome = fmt.Sprintf("%d took much longer than the program and were canceled: whether they took effect is not known", stopped)
	}
	return fmt.Sprintf("not awaited by the program: %s (%s%s); %s: write await, or await Promise.all([...])",
		prose.Count(known, "call"), strings.Join(names, ", "), more, outcome)
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
