package executor

import (
	"encoding/json"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A history is the journal of an execution, and what was recorded of it before this process began.
// Methods of the journal do nothing if there is none, and those of the Recall if the execution
// began in this process. It is safe for concurrent use once the execution runs.
type history struct {
	*env
	*journal.Log    // nil: there is no journal
	*journal.Recall // what was recorded before this process began; nil: nothing was

	past     past            // audit records from before this process
	stored   bool            // the results are already stored: the program is only run to its end again
	recorder *guest.Recorder // records what the guest of a session receives; nil: there is none

	mu       sync.Mutex
	output   *journal.OutputDigest
	hasEnded bool              // the guest sent its last message
	late     []json.RawMessage // answers that arrived after the program's end, for its session
}

// isKept reports whether the execution has a journal.
func (h *history) isKept() bool { return h.Log != nil }

// isReplayed reports whether the program repeats what it did before this process began.
func (h *history) isReplayed() bool { return h.Recall != nil }

// isStored reports whether the program's results were stored before this process began.
func (h *history) isStored() bool { return h.stored }

// story returns the record from before this process began. The execution is replayed.
func (h *history) story() *journal.History { return h.History }

// resume continues the journal that st was read from.
func (h *history) resume(st *journal.History) {
	h.Log = journal.Continue(h.x.cfg.Journal, st, h.x.cfg.Limits.Journal.Execution, h.x.cfg.Clock)
	if len(st.Inputs) > 0 && st.Prepared != nil {
		h.Recall = journal.NewRecall(st)
	}
}

// stopReplay drops the recorded calls and lines: the program doesn't run again.
func (h *history) stopReplay() { h.Recall = nil }

// release drops the data that isn't needed after the end of the execution.
func (h *history) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recorder, h.late, h.Recall = nil, nil, nil
}

// setPast sets the audit records from before this process.
func (h *history) setPast(p past) { h.past = p }

// earlierRecord returns the id of a call's audit record from an earlier process.
func (h *history) earlierRecord(call string) string { return h.past.records[call] }

// checkCut returns an error if the end of the journal was removed. See past.checkCut.
func (h *history) checkCut(sure bool) error { return h.past.checkCut(h.x.cfg.Tools, sure) }

// recordGuest starts to record what the guest of a session receives.
func (h *history) recordGuest(language string) {
	h.recorder = guest.NewRecorder(language, h.x.cfg.Limits.Sessions.Journal)
}

// recordMessage records a message of the guest.
func (h *history) recordMessage(line []byte, m *sandbox.GuestMessage) {
	h.recorder.Said(m, false)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.output.Line(line, m.Done != nil || m.Fail != nil)
}

// recordQuestion records a question on which the guest blocks.
func (h *history) recordQuestion(line []byte, m *sandbox.GuestMessage) {
	h.recorder.Said(m, true)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.output.Question(line)
}

// recordAnswer records the answer to a question. If it is the outcome of a call that was made, that
// is the call's id; otherwise call is 0.
func (h *history) recordAnswer(line []byte, call, at int64) {
	h.recordAgain(line)
	if call != 0 {
		h.RecordDelivery(call, at, true)
	} else {
		h.RecordAnswer(line)
	}
}

// recordAgain records an answer to a question that the journal already has.
func (h *history) recordAgain(line []byte) { h.recorder.Heard(session.Answer, line) }

// setSpoken records that the guest sent its last message.
func (h *history) setSpoken() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hasEnded = true
}

// hasSpoken reports whether the guest sent its last message.
func (h *history) hasSpoken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hasEnded
}

// lateAnswers returns the answers that arrived after the program's end.
func (h *history) lateAnswers() []json.RawMessage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.late
}

// recordedLines returns the lines that the guest received before, as far as they are recorded.
func (h *history) recordedLines() []journal.Input {
	if h.Recall == nil {
		return nil
	}
	return h.Lines
}

// beginLog creates the journal of a new execution.
func (h *history) beginLog(a arguments, labels []string) {
	if h.x.cfg.Journal == nil {
		return
	}
	rec := journal.Record{ID: h.id, Principal: h.principal.ID, Client: h.principal.Client, Session: a.session,
		Language: a.language,
		State:    journal.Running, Started: h.started, After: a.after}
	b := journal.Begin{Source: a.Code, Language: a.Language, Session: a.session, After: a.after, Timeout: a.timeout,
		Files: a.files, Carries: a.carries, Principal: h.principal, Labels: labels}
	b.Tier, b.Sandbox, b.Image = a.tier, a.kind, a.image
	if a.plan {
		b.Mode = planMode
	}
	h.Log = journal.NewLog(h.x.cfg.Journal, rec, b, h.x.cfg.Limits.Journal.Execution, h.x.cfg.Clock)
}

// closingError returns the error with which the run ends when this process shuts down. If it has a
// journal, the next process continues the run.
func (h *history) closingError() error {
	if h.Log == nil {
		return errClosing
	}
	e := tool.Errorf(tool.Unavailable, "biplane is shutting down: the program goes on when biplane does. Call resume "+
		"with {\"execution\": %q} then; don't run it again", h.id)
	e.Err = tool.ErrGoesOn
	return e
}

// input returns the input of the guest, as the journal has it.
func (r *run) input() journal.Prepared {
	p := journal.Prepared{
		Code: r.program.Code, Name: r.program.Name, Line: r.program.Line,
		Runtime: r.program.Runtime, Namespaces: r.program.Namespaces, Aliases: r.program.Aliases,
		Whole:    r.program.Whole,
		Declared: r.program.Declared, Notes: r.program.Notes, Remark: r.program.Remark,
		Sandbox: r.machine.isolation.guests.KindName(), Image: r.machine.isolation.guests.ImageName(),
	}
	if r.machine.hold != nil {
		p.InSession, p.Known = true, declaredNames(r.machine.hold, r.language)
	}
	if r.machine.hold != nil && r.machine.hold.Record() != nil {
		p.Session, p.Revision, p.Programs = r.machine.hold.Record().ID, r.machine.hold.Record().Revision,
			r.machine.hold.State().Journal.Programs
	}
	return p
}

// recordInput records the input of the guest before the guest receives it.
func (h *history) recordInput(p journal.Prepared, language string, caps sandbox.Capabilities) {
	if h.Log == nil || h.Recall != nil {
		return
	}
	h.Update(func(rec *journal.Record) {
		rec.Language, rec.Tier, rec.Engine, rec.Build = language, caps.Tier, guest.Engine(caps, language),
			guest.Build(caps, language)
	}, false)
	h.RecordProgram(p)
}

// RecordLine records a line that was sent to the guest; lines are recorded in the order of sending.
func (h *history) RecordLine(line []byte, a about) {
	h.recorder.Heard(session.Line, line)
	switch {
	case a.recorded:
	case a.call != 0:
		h.RecordDelivery(a.call, a.at, false)
	default:
		h.Heard(line)
	}
}

// maxReason is the maximum length of a failure's reason in a list of executions, in bytes.
const maxReason = 300

// recordEnd writes how the execution ended to its journal. shown is e as a model may see it, or nil
// if hiding failed.
func (h *history) recordEnd(e, shown *execution.Execution, res *tool.Result, language string) {
	if h.Log == nil {
		return
	}
	raw, err := tool.Marshal(e)
	if err != nil {
		h.x.cfg.Log.Error("execution not recorded", "execution", h.id, "error", err)
	}
	end := journal.End{State: journal.State(e.State), Execution: raw, Undefined: e.Undefined, Answer: res.Raw,
		Labels: e.Labels}
	h.mu.Lock()
	if h.hasEnded {
		end.Said = h.output.Sum()
	}
	h.mu.Unlock()
	h.End(end, func(rec *journal.Record) {
		rec.State, rec.Ended, rec.Calls = end.State, h.x.cfg.Clock.Now(), len(e.Calls)
		rec.Language = language
		switch {
		case e.State == execution.Interrupted:
			rec.Why = e.Error.Message
		case shown != nil && shown.Error != nil:
			rec.Why = text.Cut(text.FirstLine(shown.Error.Message), maxReason)
		}
	})
}

// checkComplete returns an error if a recovered program ended without repeating everything that it
// did before.
func (h *history) checkComplete() error {
	if !h.Whole() {
		return errDiverged
	}
	return h.checkCut(true)
}

// checkState returns an error if the run can't start from the state that it started from
// originally.
func (h *history) checkState(build string, hold *live.Hold) error {
	c := h.Recall
	if c == nil {
		return nil
	}
	if b := build; b != c.History.Record.Build {
		return errInterrupted("it ran on another build of the engine (%s, this one is %s), which may do something else",
			c.History.Record.Build, b)
	}
	if hold == nil {
		return nil
	}
	switch now, then := hold.Revision(), c.History.Prepared.Revision; now {
	case then:
	case then + 1:
		h.stored = true
	default:
		return errInterrupted("its session is not as it was")
	}
	return nil
}

// appendTo appends the program's journal to the session's, or discards the session's journal if
// it gets too large.
func (h *history) appendTo(c *session.Change, state *session.State) {
	if state.Journal.Lost != "" {
		return
	}
	if h.recorder == nil {
		c.Forget, state.Journal = true, session.Mark{Lost: "its programs don't do the same each time"}
		return
	}
	most := h.x.cfg.Limits.Sessions.Journal
	if j := h.recorder.Journal(); j != nil {
		if part := session.NewBlob(j.Encode()); state.Journal.Bytes+int64(len(part.Data)) <= int64(most) {
			c.Add, c.Append = append(c.Add, part), []string{part.ID}
			state.Journal = state.Journal.Next(part.Data)
			return
		}
	}
	c.Forget = true
	state.Journal = session.Mark{Lost: "its programs heard more than " + text.Size(most)}
}

// keepLate keeps an answer that arrived after the program had ended. The session's next program
// receives it.
func (h *history) keepLate(a *sandbox.Answer) {
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a})
	if err != nil {
		return
	}
	h.mu.Lock()
	h.late = append(h.late, json.RawMessage(line))
	h.mu.Unlock()
}

// lateLines returns the late answers that earlier programs of the session did not receive, as lines
// with the current time.
func lateLines(g *session.Guest, now func() int64) (lines [][]byte) {
	if g == nil {
		return nil
	}
	for _, raw := range g.Late {
		var m sandbox.HostMessage
		if json.Unmarshal(raw, &m) != nil {
			continue // it was marshaled by keepLate
		}
		m.At = now()
		if line, err := tool.Marshal(m); err == nil {
			lines = append(lines, line)
		}
	}
	return lines
}
