package executor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/program"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/values"
)

// undefinedText is the answer of a program without a value.
const undefinedText = "no value: the program returned undefined"

// finish makes the answer of an execution that ended, by err or by what the guest said last.
func (r *run) finish(err error) {
	r.recount(r.recall.left()) // they were made, whatever kept it from going on
	r.mu.Lock()
	r.conclude(err)
	r.exec.GoesOn = r.log.Frozen()
	r.exec.MS = r.x.cfg.Now().Sub(r.exec.Started).Milliseconds()
	r.mu.Unlock()
	e := r.snapshot()
	var shown *Execution
	var res *tool.Result
	if err := r.guard("an answer", func() (err error) {
		shown = r.hidden(e)
		res, err = tool.NewResult(r.content(shown), r.meta(e.State), e.State != Done)
		return err
	}); err != nil {
		r.x.cfg.Log.Error("make an answer", "execution", r.id, "error", err)
		res = tool.Text(true, "internal error: the answer could not be made")
	}
	r.journalEnd(e, res)
	r.mu.Lock()
	r.conceal(shown)
	r.emitted, r.program, r.fs, r.skills, r.ids = nil, nil, nil, nil, nil
	r.hold, r.box, r.recorder, r.late, r.recall, r.prior = nil, nil, nil, nil, nil, nil
	r.answered = res
	for i := range r.exec.Calls {
		r.exec.Calls[i].note = nil
	}
	size := len(res.Raw) + len(e.Value) + r.seenBytes + r.console + callBytes(e.Calls)
	r.mu.Unlock()
	r.x.history.finish(r, size)
	r.x.owe(r.log)
	if r.x.cfg.Ended != nil {
		r.x.cfg.Ended(e)
	}
	if r.plan != nil {
		r.cpu += r.plan.cpu // of an execution that was told of, and not admitted by itself
	}
	if r.admitted != nil {
		r.admitted(e)
	}
	close(r.done)
	r.changed()
}

// callBytes is how much the records of calls hold.
func callBytes(calls []CallRecord) (n int) {
	for i := range calls {
		n += 200 + len(calls[i].Tool) + len(calls[i].args) + len(calls[i].Error)
	}
	return n
}

// conclude sets state, value, error and notes. r.mu is held.
func (r *run) conclude(err error) {
	e := &r.exec
	for i := range e.Calls {
		if c := &e.Calls[i]; c.pending { // its goroutine is gone: it never began
			c.pending, c.unsent, c.Error = false, true, errNotMade.Msg
		}
	}
	if r.program != nil {
		e.Notes = append(append([]string{}, r.program.Notes...), e.Notes...)
	}
	if r.dropped > 0 {
		e.Notes = append(e.Notes, fmt.Sprintf("%s dropped: the limit is %s", prose.Count(r.dropped, "console line"), prose.Size(r.x.cfg.Limits.Console)))
	}
	if left := r.plan.leftOver(); left != "" && r.exec.State != Queued {
		e.Notes = append(e.Notes, left)
	}
	if lost := r.log.Lost(); lost != "" {
		e.Notes = append(e.Notes, "this execution can't be replayed, nor recovered after a crash: "+lost)
	}
	switch {
	case err == nil && r.concluded():
	case err == nil && r.end != nil && r.end.Done != nil:
		e.State, e.Value = Done, r.end.Done.Value
		if bytes.Contains(e.Value, []byte(program.FileName)) {
			e.Value = json.RawMessage(r.places(string(e.Value)))
		}
		e.Undefined = len(e.Value) == 0
		if r.program != nil && r.program.Remark != "" {
			e.Notes = append(e.Notes, r.program.Remark)
		}
		if n := r.unawaited(r.end.Done.Unawaited); n != "" {
			e.Notes = append(e.Notes, n)
		}
	case err == nil && r.end != nil && r.end.Fail != nil:
		e.State, e.Error = Failed, r.thrown(&r.end.Fail.Error)
	case isInterruption(err):
		e.State, e.Error = Interrupted, r.broken(err)
	default:
		e.State, e.Error = Failed, r.broken(err)
		e.Notes = append(e.Notes, furtherProblems(err)...)
	}
	if e.Value == nil {
		e.Value = json.RawMessage("null")
	}
	r.end = nil
}

// unawaited names the calls that the program didn't wait for. r.mu is held.
func (r *run) unawaited(ids []int64) string {
	var names []string
	seen := map[string]bool{}
	known, stopped := 0, 0
	for _, id := range ids {
		n, ok := r.ids[id]
		if !ok { // refused at once, as one over the limit
			continue
		}
		c := &r.exec.Calls[n]
		known++
		if !c.unsent && strings.HasPrefix(c.Error, "canceled") {
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

// content makes that of the answer: of a plan that was carried out, what that answered.
func (r *run) content(e *Execution) []any {
	if r.plan == nil || r.plan.answer == nil {
		return r.blocks(e)
	}
	var out []any
	for _, b := range r.plan.answer.Content {
		out = append(out, b)
	}
	return append(out, tool.TextBlock{Type: "text", Text: notesText(e.Notes[len(e.Notes)-1:])})
}

// blocks makes the content of the answer.
func (r *run) blocks(e *Execution) []any {
	var out []any
	text := func(s string) {
		if s != "" {
			out = append(out, tool.TextBlock{Type: "text", Text: s})
		}
	}
	switch {
	case e.State != Done:
		text(r.failureText(e))
	case e.Undefined:
		text(undefinedText)
	default:
		text(r.valueText(e))
	}
	text(consoleText(e.Console, e.logged))
	if e.State != Done {
		text(lines(r.sessionText(e), notesText(e.Notes[:len(e.Notes)-e.Error.more]), missingText(e.Missing)))
	} else {
		text(lines(callsText(e.Calls), reusedText(e.Calls), r.sessionText(e), notesText(e.Notes), missingText(e.Missing)))
	}
	if h := values.HandleOf(e.Value); h != "" && e.State == Done {
		r.emit(h)
	}
	for _, b := range r.hiddenBlocks() {
		out = append(out, b)
	}
	return out
}

// missingText is the one line on protections that are not armed, where there are any.
func missingText(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	const most = 300
	return prose.Cut("protections not armed here: "+strings.Join(missing, "; "), most)
}

// lines joins what is there.
func lines(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "\n")
}

// sessionText is the one line on the session.
func (r *run) sessionText(e *Execution) string {
	switch {
	case e.Session == "":
		return ""
	case e.State != Done || r.planning():
		return fmt.Sprintf("session %s is as it was before this program", e.Session)
	}
	return "session " + e.Session + r.origin.Text()
}

// maxConsole is how much of the console the agent is shown, in bytes.
const maxConsole = 8 << 10

// consoleText shows the console: its head and its tail where it is long. logged is the size of all that was logged, kept
// or not.
func consoleText(lines []Line, logged int) string {
	if len(lines) == 0 {
		return ""
	}
	shown := make([]string, len(lines))
	total := 0
	for i, l := range lines {
		shown[i] = l.Text
		if l.Level != "log" && l.Level != "info" {
			shown[i] = l.Level + ": " + l.Text
		}
		total += len(shown[i]) + 1
	}
	if total <= maxConsole {
		return "console:\n" + strings.Join(shown, "\n")
	}
	all := strings.Join(shown, "\n")
	head, tail := prose.Cut(all, maxConsole*3/4), all[len(all)-maxConsole/4:]
	total = max(total, logged)
	return fmt.Sprintf("console (%s in %s; the middle is left out):\n%s\n…\n%s", prose.Size(total), prose.Count(len(lines), "line"), head, strings.ToValidUTF8(tail, ""))
}

func notesText(notes []string) string {
	if len(notes) == 0 {
		return ""
	}
	const most = 10
	if len(notes) > most {
		notes = append(notes[:most:most], fmt.Sprintf("… and %d more", len(notes)-most))
	}
	return "note: " + strings.Join(notes, "\nnote: ")
}

// callsText is the one line on the calls: how many of which, how much they answered, and how long they took from the
// first to the last.
func callsText(calls []CallRecord) string {
	calls, unsent := split(slices.DeleteFunc(slices.Clone(calls), func(c CallRecord) bool { return c.From != "" }))
	refused := ""
	if len(unsent) > 0 {
		refused = prose.Count(len(unsent), "call") + " not made: " + strings.Join(countNames(unsent), ", ")
	}
	if len(calls) == 0 {
		return refused
	}
	type sum struct {
		name          string
		n, bytes, bad int
		from, to      time.Time
	}
	by := map[string]*sum{}
	var all []*sum
	for _, c := range calls {
		s := by[c.Tool]
		if s == nil {
			s = &sum{name: c.Tool, from: c.begun}
			by[c.Tool], all = s, append(all, s)
		}
		s.n++
		s.bytes += c.Bytes
		if c.Error != "" {
			s.bad++
		}
		if end := c.begun.Add(c.took); end.After(s.to) {
			s.to = end
		}
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].n > all[j].n })
	var parts []string
	for i, s := range all {
		if i == 12 {
			parts = append(parts, fmt.Sprintf("and %d more tools", len(all)-i))
			break
		}
		p := prose.Cut(s.name, 100)
		if s.n > 1 {
			p += fmt.Sprintf(" x%s", prose.Group(s.n))
		}
		p += fmt.Sprintf(" (%s, %s", prose.Size(s.bytes), prose.Duration(s.to.Sub(s.from)))
		if s.bad > 0 {
			p += fmt.Sprintf(", %d failed", s.bad)
		}
		parts = append(parts, p+")")
	}
	line := prose.Count(len(calls), "call") + ": " + strings.Join(parts, ", ")
	if refused != "" {
		line += "; " + refused
	}
	return line
}

// countNames names the tools of calls, each with how many there were.
func countNames(calls []CallRecord) []string {
	n := map[string]int{}
	var names []string
	for i := range calls {
		name := prose.Cut(calls[i].Tool, 100)
		if n[name]++; n[name] == 1 {
			names = append(names, name)
		}
	}
	for i, name := range names {
		if i == 12 {
			return append(names[:i], fmt.Sprintf("and %d more tools", len(names)-i))
		}
		if n[name] > 1 {
			names[i] += " x" + prose.Group(n[name])
		}
	}
	return names
}

// broken tells why a program didn't run, or didn't come to its end.
func (r *run) broken(err error) *Failure {
	var p *program.Error
	if errors.As(err, &p) {
		f := &Failure{Kind: p.Kind, Message: p.Message, Line: p.Line, Column: p.Column, Frame: p.Frame, text: p.Error(), more: len(furtherProblems(err))}
		for _, m := range p.More {
			f.Message += "\n" + m.Message
		}
		return f
	}
	if l := limitOf(err); l != nil {
		return &Failure{Kind: string(tool.Limit), Message: l.Error()}
	}
	e := tool.AsError(err)
	if e == nil {
		e = tool.Errorf(tool.Internal, "the program ended, and said nothing")
	}
	if e.Kind == tool.Internal {
		r.x.cfg.Log.Error("execution", "execution", r.id, "error", err)
	}
	return &Failure{Kind: string(e.Kind), Message: e.Msg}
}

// furtherProblems tells the places of all that is wrong in a program's text but the first, which Failure has fields for.
func furtherProblems(err error) (notes []string) {
	var p *program.Error
	if !errors.As(err, &p) {
		return nil
	}
	for _, m := range p.More {
		if m.Line > 0 {
			notes = append(notes, strings.TrimSpace(fmt.Sprintf("a further problem is at line %d, column %d\n%s", m.Line, m.Column, m.Frame)))
		}
	}
	return notes
}
