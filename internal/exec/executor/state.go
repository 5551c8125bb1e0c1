package executor

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A state is what calls, messages of the guest, timers and decisions change of an execution. Such
// an event can change several of its parts at once, so one mutex guards them all. The clock, the
// output, the table of calls, the pending decisions and the suspension don't lock, and don't read
// each other's fields.
type state struct {
	*env
	history *history
	taint   *taint

	relay      relay
	mu         sync.Mutex // guards what follows
	exec       execution.Execution
	program    *program.Program // nil: not prepared yet, or dropped
	finished   *finished        // the result; nil: its end is not recorded yet
	table      callTable
	messages   int // sent by the guest
	clock      clock
	output     output
	spared     spared
	end        *sandbox.GuestMessage // Done or Fail
	news       chan struct{}         // closed on a change; nil: no one is watching
	pending    pending
	suspension suspension
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
	s.suspension.active = time.Now()
	return s.messages > maxMessages, s.end != nil
}

// beginQuestion is countMessage for a question on which the guest blocks until endQuestion.
func (s *state) beginQuestion() (tooMany, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages++
	s.suspension.asking++
	return s.messages > maxMessages, s.end != nil
}

// endQuestion records that a question was answered.
func (s *state) endQuestion() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspension.asking--
	s.suspension.active = time.Now()
}

// A run that has begun and not ended is either running or waiting. It waits while it is suspended
// until a call is answered (suspension.asleep), or while it waits only for people (heldOnly). The
// state is computed here; prepareAndRun and publish set it at the run's start and end.

// shift calls f, which changes the inputs of the state, and reports a new state. s.mu is held while
// f runs.
func (s *state) shift(f func()) {
	s.relay.mu.Lock() // so that states are reported in order
	defer s.relay.mu.Unlock()
	s.mu.Lock()
	f()
	changed, now := s.updateState()
	s.mu.Unlock()
	if changed {
		s.history.Update(func(rec *journal.Record) { rec.State = journal.State(now) }, true)
		s.notifyWatchers()
	}
	s.passHold()
}

// updateState updates the state of a run that has begun, unless it has ended. s.mu is held.
func (s *state) updateState() (changed bool, now execution.State) {
	if s.finished != nil {
		return false, s.exec.State
	}
	held := s.heldOnly()
	if now = execution.Running; held || s.suspension.asleep {
		now = execution.Waiting
	}
	if held {
		s.suspension.checkIn(heldPatience)
		s.pending.notifyCaller()
	}
	changed = s.exec.State != now
	s.exec.State = now
	return changed, now
}

// releaseCall ends a call whose answer of size bytes has been passed on.
func (s *state) releaseCall(size int) {
	s.shift(func() {
		s.table.removeAnswer(size)
		s.settleCall()
	})
}

// addDoubt adds a note on the arguments of a call that was made, unless it is already noted.
func (s *state) addDoubt(path string, args json.RawMessage, err error) {
	if err != nil && tool.AsError(err).Unsent {
		return
	}
	note := s.x.cfg.Tools.DescribeDoubt(path, args)
	if note == "" {
		return
	}
	s.hideText(&note)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output.addDoubt(note)
}

// setReport stores the progress reported by the tool of the n-th call.
func (s *state) setReport(n int, p tool.Progress) {
	s.hideText(&p.Message)
	text := reportText(p)
	s.updateCall(n, func(c *execution.Call) { c.Report = text })
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
	return s.output.addLine(c.Level, c.Text, cutAway(c.Text), s.rewriteFrames)
}

func (s *state) callProgress() tool.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := tool.Progress{Done: time.Since(s.began).Seconds()}
	if s.exec.State == execution.Queued {
		p.Message = "waiting for its turn"
		return p
	}
	var done int
	var pending []string
	for i := range s.exec.Calls {
		if c := &s.exec.Calls[i]; !c.Pending {
			done++
		} else if len(pending) < 3 {
			name := c.Tool
			if c.Report != "" {
				name += ": " + c.Report
			}
			pending = append(pending, name)
		}
	}
	msg := text.Count(done, "call") + " done"
	if n := len(s.exec.Calls) - done; n > 0 {
		msg += fmt.Sprintf(", %d running: %s", n, strings.Join(pending, ", "))
		if n > len(pending) {
			msg += ", …"
		}
	}
	p.Message = msg
	return p
}

// setOuter sets outer, which is called from now on when the run starts or stops waiting for people.
func (s *state) setOuter(outer func(*tool.Hold)) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	s.relay.outer = outer
	s.passHold()
}

// passHold reports a change of what the run waits for. s.relay.mu is held.
func (s *state) passHold() {
	s.mu.Lock()
	some := s.pending.anyHold()
	s.mu.Unlock()
	s.relay.passChange(some)
}

// boundTotal stores the timer that ends the execution after d.
func (s *state) boundTotal(total *time.Timer, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.total, s.pending.ends = total, time.Now().Add(d)
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
	return s.end != nil && (!s.isPlanning() || s.plan.whole == nil)
}

// waitsForPeople is heldOnly for callers that don't hold s.mu.
func (s *state) waitsForPeople() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heldOnly()
}

// heldCalls returns the calls that currently wait for people, in order, and the number of calls
// queued behind them.
func (s *state) heldCalls() (calls []heldCall, behind int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// the run that carries out the plan reports what it waits for
	if s.isLeaving() || s.plan != nil && s.plan.by != nil {
		return nil, 0
	}
	for _, n := range slices.Sorted(maps.Keys(s.pending.by)) {
		c := &s.exec.Calls[n]
		calls = append(calls, heldCall{s.pending.by[n], c.Tool, c.Args})
	}
	if n := len(calls); n == s.pending.most {
		behind = s.table.outstanding - n
	}
	return calls, behind
}

// limitStray ends a guest that continues after its program has sent its last message. The guest of
// a session may continue: what it does then is part of its state.
func (s *state) limitStray() {
	if s.session != "" {
		return
	}
	stop := s.suspension.stopRun
	s.clock.limitStray(func() { stop(errEnded) })
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
	s.x.hideTexts(s.ctx, s.scope(), texts)
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
	s.wakeWatchers()
}

// setAnswer sets the answer of which countTokens counts the tokens.
func (s *state) setAnswer(answer *tool.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spared.answer = answer
}

// countTokens is spared.countTokens.
func (s *state) countTokens(count func(text string) (int, error)) (execution.Tokens, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spared.countTokens(count)
}

// result returns the result of the run, or nil if its end is not recorded yet.
func (s *state) result() *finished {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished
}

// keptBytes returns the size of the data that is kept of the run beside its result, in bytes.
func (s *state) keptBytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spared.bytes + s.output.kept
}

// notifyWatchers notifies the watchers.
func (s *state) notifyWatchers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeWatchers()
}

// wakeWatchers is notifyWatchers for callers that hold s.mu.
func (s *state) wakeWatchers() {
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// nextChange returns a channel that is closed when the run changes.
func (s *state) nextChange() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news
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
	e.Labels = s.taint.labels.All()
	if s.spared.tokens != nil {
		e.Tokens = *s.spared.tokens
	}
	if s.finished == nil {
		e.Console, e.Logged = s.output.lines, s.output.logged
		e.MS = s.x.cfg.Clock.Now().Sub(e.Started).Milliseconds()
	}
	e.Console = append([]execution.Line{}, e.Console...)
	e.Calls = append([]execution.Call{}, e.Calls...)
	return &e
}

// outOfTime ends the program when its own time is used up.
func (s *state) outOfTime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clock.hasExpired() {
		return
	}
	s.cancel(overtime("the program's own time of %s is over (CPU and timers; the time of tools doesn't count): wait "+
		"less, do less, or allow more (timeout_seconds, on the command line --timeout; at most %d s)",
		s.clock.limit, int(s.x.cfg.Limits.MaxTimeout.Seconds())))
}

// beginCall counts an outstanding call, and stops the program's own clock. It is called by shift.
func (s *state) beginCall() {
	s.table.outstanding++
	s.suspension.watchCalls()
	s.clock.pauseTiming()
}

// settleCall records that a call was answered. It is called by shift.
func (s *state) settleCall() {
	if s.table.endCall() && s.end == nil {
		s.clock.resumeTiming()
	}
}

// rewriteFrames rewrites stack frames in text, the program's output, to positions in the agent's
// source.
func (s *state) rewriteFrames(text string) string {
	if s.program == nil {
		return text
	}
	return s.program.Rewrite(text)
}

// hasSucceeded reports whether the program reported success.
func (s *state) hasSucceeded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end != nil && s.end.Done != nil
}

// setTimer sets the program's single wake-up timer to ms milliseconds, or stops it if ms is
// negative.
func (s *state) setTimer(ms float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.stopTimer()
	if ms >= 0 {
		wait := max(time.Duration(min(ms, maxTimer)*float64(time.Millisecond))-s.history.Behind(s.now()), 0)
		s.clock.setTimer(wait)
		if s.plan != nil {
			s.plan.timer(ms)
		}
	}
}

// maxTimer is the maximum delay of a program's timer, in milliseconds: no execution lasts longer.
const maxTimer = 1 << 31
