package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A state holds the parts of an execution that calls, the guest's messages and decisions change.
// One event can change several of them at once, so one mutex guards them all. The other parts of a
// run call the methods of the state, and don't use its fields. The output, the table of calls and
// the pending decisions don't lock, and don't read each other's fields. The clock, the suspension,
// the watchers and the savings lock themselves; the state calls them while it holds its mutex.
type state struct {
	*env
	history    *history
	taint      *taint
	clock      *clock
	suspension *suspension
	spared     *savings
	watchers   *watchers

	reporter holdReporter
	mu       sync.Mutex // guards the fields below
	exec     execution.Execution
	program  *program.Program // nil: not prepared yet, or dropped
	findings []tool.Finding   // of the program; must not be modified
	finished *finished        // the result; nil: its end is not recorded yet
	asleep   bool             // the program is suspended
	table    callTable
	messages int // sent by the guest
	output   output
	end      *sandbox.GuestMessage // Done or Fail
	pending  pending
}

// updateCall changes the record of the n-th call, unless the run has ended.
func (s *state) updateCall(n int, change func(*execution.Call)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished == nil {
		change(&s.exec.Calls[n])
	}
}

// countMessage counts a message of the guest. It reports whether there are too many, and whether
// the guest had already sent its last one.
func (s *state) countMessage() (tooMany, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages++
	return s.messages > maxMessages, s.end != nil
}

// lastMessage returns the guest's last message, or nil if it has not sent it yet, and the number of
// its messages.
func (s *state) lastMessage() (end *sandbox.GuestMessage, sent int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end, s.messages
}

// endProgram records the guest's last message.
func (s *state) endProgram(m *sandbox.GuestMessage) {
	s.shift(func() {
		s.end = m
		s.history.setSpoken()
	})
}

// identify sets the fields that an execution reports from the start. tier is the tier of its
// previous sandbox, if it is recovered.
func (s *state) identify(tier tool.Tier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exec.ID, s.exec.Principal, s.exec.Started, s.exec.Tier = s.id, s.principal, s.started, tier
}

// setProgram sets the prepared program.
func (s *state) setProgram(p *program.Program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.program = p
	if p != nil {
		s.findings = p.Findings
	}
}

// setTier sets the tier and the image of the program's sandbox.
func (s *state) setTier(t tool.Tier, image string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exec.Tier, s.exec.Image = t, image
}

// startRunning records that the program has a sandbox, which lacks the protections missing. Its
// guest comes from origin.
func (s *state) startRunning(missing []string, origin live.Origin) {
	rebuilt := ""
	if origin.From == "journal" {
		rebuilt = origin.Why
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exec.State, s.exec.Missing, s.exec.Rebuilt = execution.Running, missing, rebuilt
}

// A status is the current activity of an execution.
type status struct {
	state    execution.State
	tier     tool.Tier      // of its sandbox
	image    string         // of its sandbox; empty: none
	findings []tool.Finding // of its program; nil: it is not prepared yet
	heldOnly bool           // the program waits only for people
}

// isBusy reports whether the execution has not ended and doesn't just wait for people.
func (st status) isBusy() bool {
	return st.state == execution.Queued || st.state == execution.Running ||
		st.state == execution.Waiting && !st.heldOnly
}

// current returns the current status of the execution.
func (s *state) current() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return status{state: s.exec.State, tier: s.exec.Tier, image: s.exec.Image, findings: s.findings,
		heldOnly: s.heldOnly()}
}

// setAsleep records whether the program is suspended.
func (s *state) setAsleep(asleep bool) { s.shift(func() { s.asleep = asleep }) }

// resumeGuest records that the guest is back, after it was suspended for d.
func (s *state) resumeGuest(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspension.recordSuspension(d)
	if s.table.outstanding > 0 {
		s.suspension.watchCalls()
	}
}

// suspendIfIdle calls pause if the program only waits, and has done so for long enough.
func (s *state) suspendIfIdle(pause func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspension.endCheck()
	if s.end != nil || s.table.outstanding == 0 {
		return // the next call starts the timer again
	}
	now := time.Now()
	soon, set := s.clock.untilTimer(now)
	if !set {
		soon = -1
	}
	s.suspension.tryPause(now, s.heldOnly(), soon, pause)
}

// A run that has begun and not ended is either running or waiting. It waits while it is suspended
// until a call is answered (asleep), or while it waits only for people (heldOnly). The
// state is computed here; startRunning and publish set it at the run's start and end.

// shift calls f, which changes the inputs of the state, and updates the state, unless the run has
// ended. It reports a new state, and what the run waits for. s.mu is held while f runs.
func (s *state) shift(f func()) {
	s.reporter.mu.Lock() // so that states are reported in order
	defer s.reporter.mu.Unlock()
	s.mu.Lock()
	f()
	held, was := s.heldOnly(), s.exec.State
	if s.finished == nil {
		if s.exec.State = execution.Running; held || s.asleep {
			s.exec.State = execution.Waiting
		}
		if held {
			s.suspension.checkIn(heldPatience)
			s.pending.signal.send()
		}
	}
	now, some := s.exec.State, s.pending.anyHold()
	s.mu.Unlock()
	if now != was {
		s.history.Update(func(rec *journal.Record) { rec.State = journal.State(now) }, true)
		s.watchers.notifyAll()
	}
	s.reporter.report(some)
}

// addConsole keeps a line of the console. It returns an error when the program has written too
// much: lines that aren't kept cost time, too.
func (s *state) addConsole(c *sandbox.Console) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Level == sandbox.NoteLevel {
		s.output.addDoubt(text.Cut(c.Text, maxNote))
		return nil
	}
	return s.output.addLine(c.Level, c.Text, cutAway(c.Text), func(text string) string {
		return rewriteFrames(s.program, text)
	})
}

// setOuter sets outer, which is notified from now on when the run starts or stops waiting for
// people.
func (s *state) setOuter(outer tool.Observer) {
	s.reporter.mu.Lock()
	defer s.reporter.mu.Unlock()
	s.reporter.outer = outer
	s.mu.Lock()
	some := s.pending.anyHold()
	s.mu.Unlock()
	s.reporter.report(some)
}

// boundTotal stores the timer that ends the execution after d.
func (s *state) boundTotal(total *time.Timer, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.totalTimer, s.pending.ends = total, time.Now().Add(d)
}

// setHold records that the n-th call waits for a person, or, if hold is nil, that it no longer
// does.
func (s *state) setHold(n int, hold *tool.Hold) {
	var since time.Time
	s.shift(func() {
		if hold != nil {
			s.pending.addHold(n, hold, s.x.cfg.Clock.Now())
		} else {
			since = s.pending.removeHold(n)
		}
	})
	if !since.IsZero() {
		s.history.Stood(since)
	}
}

// heldOnly reports whether the program waits only for people: all of its outstanding calls do, or
// as many as may run concurrently, which block the others. s.mu is held.
func (s *state) heldOnly() bool {
	return s.pending.blockAll(s.table.outstanding) && !s.isLeaving()
}

// isLeaving reports whether the program has sent its last message. Calls that it didn't await are
// soon abandoned, decided or not. A plan is proposed only after that. s.mu is held.
func (s *state) isLeaving() bool {
	return s.end != nil && (!s.isPlanning() || s.plan.proposal() == nil)
}

// heldCalls returns the calls that currently wait for people, in order, and the number of calls
// queued behind them.
func (s *state) heldCalls() (calls []heldCall, behind int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// the run that carries out the plan reports what it waits for
	if s.isLeaving() || s.plan.carrier() != nil {
		return nil, 0
	}
	for _, n := range slices.Sorted(maps.Keys(s.pending.holds)) {
		c := &s.exec.Calls[n]
		calls = append(calls, heldCall{s.pending.holds[n], c.Tool, c.Args})
	}
	if n := len(calls); n == s.pending.maxConcurrent {
		behind = s.table.outstanding - n
	}
	return calls, behind
}

// hiddenBlocks returns the content blocks that the program emitted, as a model may see them.
func (s *state) hiddenBlocks() []json.RawMessage {
	s.mu.Lock()
	out := slices.Clone(s.output.blocks)
	s.mu.Unlock()
	var texts tool.Texts
	for i := range out {
		texts.Blocks = append(texts.Blocks, &out[i])
	}
	hideTexts(s.ctx, s.x.cfg.Privacy, s.scope(), texts)
	return out
}

// addBlock adds the content block that the program emitted with h, unless err is why it can't. It
// returns a note if the block is missing in the answer.
func (s *state) addBlock(h string, block json.RawMessage, err error) (note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.exec.Notes) >= maxNotes:
	case err != nil:
		return "emit: " + tool.AsError(err).Msg
	case !s.output.addBlock(block):
		return fmt.Sprintf("emit: %s left out: all in all over %s", text.Cut(h, 80), text.Size(maxEmitted))
	}
	return ""
}

// addNote adds a note for the agent, unless it is empty.
func (s *state) addNote(note string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if note != "" {
		s.exec.Notes = append(s.exec.Notes, note)
	}
}

// addRemark adds a note for the agent about how a call was made.
func (s *state) addRemark(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.exec.Notes) < maxNotes && !slices.Contains(s.exec.Notes, text) {
		s.exec.Notes = append(s.exec.Notes, text)
	}
}

// publish makes the end of the run visible, and wakes those who wait for it. The end is recorded.
func (s *state) publish(f *finished) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished, s.exec = f, *f.Execution
	s.output, s.program, s.end, s.table.indexes, s.table.results = output{}, nil, nil, nil, lastResults{}
	close(s.done)
	s.watchers.notifyAll()
}

// result returns the result of the run, or nil if its end is not recorded yet.
func (s *state) result() *finished {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished
}

// consoleBytes returns the size of the console that is kept, in bytes.
func (s *state) consoleBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.kept
}

// journalCalls returns the calls of a run that is under way, with the delivery order from its
// journal; nil: it has ended.
func (s *state) journalCalls(kept []*journal.Call) []journal.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished != nil {
		return nil
	}
	order := map[int64]int{}
	for _, c := range kept {
		order[c.ID] = c.Order
	}
	out := make([]journal.Call, 0, len(s.exec.Calls))
	for i := range s.exec.Calls {
		rec := &s.exec.Calls[i]
		if rec.Note == nil {
			continue
		}
		c := *rec.Note
		c.Order = order[c.ID]
		if rec.Pending {
			// it may wait for its turn, or for a person, before it is sent
			c.MS, c.Sent = time.Since(rec.Begun).Milliseconds(), rec.Begun
		}
		out = append(out, c)
	}
	return slices.Clip(out)
}

// addRecorded adds the previous calls of a run that does not continue.
func (s *state) addRecorded(calls []*journal.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range calls {
		rec := execution.Call{Tool: k.Tool, MS: k.MS, Bytes: k.Bytes, Error: k.Error, From: k.From,
			Args: s.short(k.Arguments), Unsent: k.Unsent, Reads: k.ReadOnly, Note: k}
		switch {
		case k.Known():
		case k.Unknown():
			rec.Error = "canceled: biplane ended while it was under way"
		default:
			rec.Error = "canceled: biplane ended while it was under way; it changes nothing"
		}
		s.exec.Calls = append(s.exec.Calls, rec)
	}
}

// snapshot returns a copy of the current execution.
func (s *state) snapshot() *execution.Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copyExecution()
}

// copyExecution is snapshot for callers that hold s.mu.
func (s *state) copyExecution() *execution.Execution {
	e := s.exec
	e.Labels, e.Tokens = s.taint.labels.All(), s.spared.currentTokens()
	if s.finished == nil {
		e.Console, e.Logged = s.output.lines, s.output.logged
		e.MS = s.x.cfg.Clock.Now().Sub(e.Started).Milliseconds()
	}
	e.Console = append([]execution.Line{}, e.Console...)
	e.Calls = append([]execution.Call{}, e.Calls...)
	return &e
}

// planCall returns the call that proposes the program's plan, and its index, if the journal has
// its outcome. A call without outcome is removed: it is made again.
func (s *state) planCall() (k *journal.Call, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = len(s.exec.Calls) - 1
	if n < 0 || s.exec.Calls[n].Note == nil || s.exec.Calls[n].Note.ID != journal.PlanCall {
		return nil, n
	}
	if k = s.exec.Calls[n].Note; !k.Known() {
		s.exec.Calls = s.exec.Calls[:n]
		return nil, n
	}
	return k, n
}
