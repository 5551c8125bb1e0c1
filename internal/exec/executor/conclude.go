package executor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// conclude returns the execution as it ended: with its state, value, error and notes. The state
// itself doesn't change before publish.
func (s *state) conclude(err error, language string) *execution.Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.copyExecution()
	e.Notes = slices.Clone(e.Notes)
	for i := range e.Calls {
		if c := &e.Calls[i]; c.Pending { // its goroutine is gone: it never started
			c.Pending, c.Unsent, c.Error = false, true, errNotMade.Msg
		}
	}
	if s.program != nil {
		e.Notes = append(slices.Clone(s.program.Notes), e.Notes...)
	}
	e.Notes = append(e.Notes, slices.DeleteFunc(s.output.doubts, func(doubt string) bool {
		return hasNote(s.program, doubt)
	})...)
	if note := s.output.droppedNote(); note != "" {
		e.Notes = append(e.Notes, note)
	}
	if left := s.plan.describeUnmade(); left != "" && s.exec.State != execution.Queued {
		e.Notes = append(e.Notes, left)
	}
	if lost := s.history.Lost(); lost != "" {
		e.Notes = append(e.Notes, "this execution can't be replayed, nor recovered after a crash: "+lost)
	}
	switch {
	case err == nil && s.plan.outcome() != nil:
		s.plan.outcome().copyTo(e, len(s.plan.proposal().Writes))
	case err == nil && s.end != nil && s.end.Done != nil:
		e.State, e.Value = execution.Done, s.end.Done.Value
		if bytes.Contains(e.Value, []byte(program.FileName)) {
			e.Value = json.RawMessage(rewriteFrames(s.program, string(e.Value)))
		}
		e.Undefined, e.Language = len(e.Value) == 0, language
		if execution.WritesValue(language) && !e.Undefined { // the value is standard output
			e.Console = slices.DeleteFunc(slices.Clone(e.Console),
				func(l execution.Line) bool { return l.Level == "log" })
		}
		if s.program != nil && s.program.Remark != "" {
			e.Notes = append(e.Notes, s.program.Remark)
		}
		if n := s.table.describeUnawaited(e.Calls, s.end.Done.Unawaited); n != "" {
			e.Notes = append(e.Notes, n)
		}
		if n := s.table.results.explainUndefined(s.program, e); n != "" {
			e.Notes = append(e.Notes, n)
		}
	case err == nil && s.end != nil && s.end.Fail != nil:
		e.State, e.Error = execution.Failed, execution.Thrown(s.program, &s.end.Fail.Error)
		s.table.results.explainShape(s.program, e.Error)
	case isInterruption(err):
		e.State, e.Error = execution.Interrupted, s.failureOf(err)
	default:
		e.State, e.Error = execution.Failed, s.failureOf(err)
		e.Notes = append(e.Notes, execution.FurtherProblems(err)...)
	}
	if e.Value == nil {
		e.Value = json.RawMessage("null")
	}
	return e
}

// describeUnawaited returns a note that names the calls that the program didn't await.
func (t *callTable) describeUnawaited(calls []execution.Call, ids []int64) string {
	var names []string
	seen := map[string]bool{}
	known, stopped := 0, 0
	for _, id := range ids {
		n, ok := t.indexes[id]
		if !ok { // refused immediately, such as a call over the limit
			continue
		}
		c := &calls[n]
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
		outcome = fmt.Sprintf(
			"%d took much longer than the program and were canceled: whether they took effect is not known", stopped)
	}
	return fmt.Sprintf("not awaited by the program: %s (%s%s); %s: write await, or await Promise.all([...])",
		text.Count(known, "call"), strings.Join(names, ", "), more, outcome)
}

// hasNote reports whether the check of the program's text already produced this note.
func hasNote(p *program.Program, doubt string) bool {
	what, _, _ := strings.Cut(doubt, " is not declared")
	return p != nil && slices.ContainsFunc(p.Notes, func(n string) bool {
		return strings.HasPrefix(n, what+" is not declared")
	})
}

// rewriteFrames rewrites stack frames in text, the program's output, to positions in the agent's
// source.
func rewriteFrames(p *program.Program, text string) string {
	if p == nil {
		return text
	}
	return p.Rewrite(text)
}

// explainShape adds a hint about the result on which the program failed.
func (l *lastResults) explainShape(p *program.Program, f *execution.Failure) {
	if p == nil || f.Kind != "exception" && f.Kind != string(tool.Invalid) {
		return
	}
	if hint := l.shapeHint(f, p.Source, p.NameAt(f.Line, f.Column)); hint != "" {
		f.Hint = hint
	}
}

// explainUndefined describes the result of which a program read a missing property, if its value is
// undefined for that reason; empty otherwise.
func (l *lastResults) explainUndefined(p *program.Program, e *execution.Execution) string {
	if p == nil || !e.Undefined {
		return ""
	}
	lines := strings.Split(p.Source, "\n")
	for i := len(lines) - 1; i >= 0; i-- {
		if enveloped.Get().MatchString(lines[i]) {
			return l.shapeHint(&execution.Failure{Line: i + 1, Message: "TypeError: undefined"}, p.Source, "")
		}
	}
	return ""
}
