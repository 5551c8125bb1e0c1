package executor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/stream"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A dialog handles the messages between host and guest. It passes calls to the calls, and file
// operations to the files.
type dialog struct {
	*env
	state   *state
	history *history
	results *results
	calls   *calls
	files   *files
	clock   *clock
	pauses  *suspension
	stream  *stream.Stream[about]
}

// An about describes a line for the guest.
type about struct {
	call     int64 // the guest's id of the call whose outcome the line is; 0: none
	at       int64 // HostMessage.At
	recorded bool  // the journal already has the line
}

// answerQuestion answers a question on which the guest blocks (sandbox.Cmd.Ask). The program's own
// time continues to run, except while a call is outstanding.
func (d *dialog) answerQuestion(ctx context.Context, question []byte) []byte {
	if h := d.history.Answer(); h != nil {
		return d.repeatAnswer(question, h)
	}
	many, over := d.state.countMessage()
	d.pauses.beginQuestion()
	defer d.pauses.endQuestion()
	var m sandbox.GuestMessage
	var a *sandbox.Answer
	made := false
	err := d.guard("a question of the program", func() error {
		switch {
		case many:
			return d.refuse(tool.Over(execution.OutputLimit,
				"the program sent more than %s messages: call and log less", text.Group(maxMessages)))
		case over:
			return errEnded
		}
		if err := json.Unmarshal(question, &m); err != nil {
			return d.refuse(&tool.Error{Kind: tool.Internal,
				Msg: "the guest broke its protocol: the program was stopped", Err: err})
		}
		d.history.recordQuestion(question, &m)
		a, made = d.findAnswer(ctx, &m)
		return nil
	})
	if err != nil {
		a = &sandbox.Answer{Error: guestError(err)}
	}
	at := d.now()
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a, At: at})
	if err != nil {
		d.x.cfg.Log.Error("question not answered", "execution", d.id, "error", err)
		return nil
	}
	call := int64(0)
	if made {
		call = a.ID
	}
	d.history.recordAnswer(line, call, at)
	return line
}

// findAnswer returns the answer to a question, and reports whether it is the outcome of a call.
func (d *dialog) findAnswer(ctx context.Context, m *sandbox.GuestMessage) (_ *sandbox.Answer, made bool) {
	switch {
	case m.Call != nil:
		return d.callAndWait(ctx, m.Call)
	case m.File != nil:
		a := &sandbox.Answer{ID: m.File.ID}
		v, err := d.files.perform(m.File)
		if err != nil {
			a.Error = fileError(err)
			return a, false
		}
		a.Value = v
		return a, false
	case m.Sleep != nil:
		t := time.NewTimer(time.Duration(min(max(m.Sleep.MS, 0), maxTimer) * float64(time.Millisecond)))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		case <-d.ctx.Done():
		}
		if d.plan != nil {
			d.plan.setTimer(m.Sleep.MS)
			d.plan.passTimer()
		}
		return &sandbox.Answer{}, false
	}
	return &sandbox.Answer{Error: guestError(tool.Errorf(tool.Internal, "this can't be asked"))}, false
}

// callAndWait makes a call and waits until it ends or ctx is done. It reports whether the answer is
// the outcome of the call.
func (d *dialog) callAndWait(ctx context.Context, c *sandbox.GuestCall) (_ *sandbox.Answer, made bool) {
	a := &sandbox.Answer{ID: c.ID}
	p, err := d.calls.registerCall(c)
	switch {
	case err != nil:
		a.Error = guestError(d.refuse(err))
		return a, false
	case p.local:
		v, err := d.calls.answerLocally(p)
		if err != nil {
			a.Error = ownError(err)
			return a, false
		}
		a.Value = v
		return a, false
	case p.recorded != nil:
		a.Value, a.Error = p.recorded.Value, p.recorded.Failure
		d.state.releaseCall(0)
		return a, true
	}
	done, turn := make(chan struct{}), d.calls.turns.Join()
	d.calls.running.Go(func() {
		defer close(done)
		a.Value, a.Error = d.calls.makeCall(p, turn)
		d.state.releaseCall(len(a.Value))
	})
	select {
	case <-done:
		return a, true
	case <-ctx.Done():
		return &sandbox.Answer{ID: c.ID, Error: guestError(tool.AsError(context.Cause(ctx)))}, false
	}
}

// answerFile answers a file request of the guest. Files are those of the vfs, never the host's.
func (d *dialog) answerFile(f *sandbox.File) error {
	if d.history.IsAnswered(f.ID) { // it receives its previous answer; the operation itself is repeated
		d.files.repeat(f, d.history.Line(f.ID))
		return nil
	}
	if d.stream.Full() { // the goroutine that reads the guest's messages can't wait for the guest to read
		return d.sendAnswer(&sandbox.Answer{ID: f.ID, Error: ownError(errUnread)}, false)
	}
	v, err := d.files.perform(f)
	if err != nil {
		return d.sendAnswer(&sandbox.Answer{ID: f.ID, Error: fileError(err)}, false)
	}
	return d.sendAnswer(&sandbox.Answer{ID: f.ID, Value: v}, false)
}

// maybeSuspend pauses the program if it only waits, and has done so for long enough.
func (d *dialog) maybeSuspend() { d.state.suspendIfIdle(d.stream.Pause) }

// sendRecorded resends the lines that the guest received before.
func (d *dialog) sendRecorded() error {
	for _, h := range d.history.recordedLines() {
		if err := d.stream.Send(h.Text, about{at: h.At, recorded: true}, false); err != nil {
			return err
		}
	}
	return nil
}

// repeatAnswer returns the recorded answer to a question.
func (d *dialog) repeatAnswer(question []byte, h *journal.Input) []byte {
	var m sandbox.GuestMessage
	err := d.guard("a question of the program", func() error {
		if err := json.Unmarshal(question, &m); err != nil {
			return &tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped",
				Err: err}
		}
		d.history.recordQuestion(question, &m)
		d.state.countMessage()
		switch {
		case m.Call != nil:
			return d.repeatCall(m.Call)
		case m.File != nil:
			d.files.repeat(m.File, h.Text)
		}
		return nil
	})
	if err != nil {
		_ = d.refuse(err)
		return nil
	}
	d.history.recordAgain(h.Text)
	return h.Text
}

func (d *dialog) repeatCall(c *sandbox.GuestCall) error {
	p, err := d.calls.registerCall(c)
	if err != nil || p.local {
		return err
	}
	if p.recorded == nil {
		return errDiverged
	}
	d.state.releaseCall(0)
	return nil
}

// A guestStream is the guest's stream during one Run: a sandbox.Cmd.Guest.
type guestStream struct {
	*stream.RunStream[about]
	dialog *dialog
}

// Write handles the lines of the guest. An error ends the guest.
func (g guestStream) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		var line []byte
		var err error
		if line, rest, err = g.CutLine(rest); err != nil {
			return 0, g.dialog.refuse(tool.Over(execution.OutputLimit,
				"the program's value, or the arguments of a call, are over %s of JSON: return or send less",
				text.Size(g.dialog.x.cfg.Limits.Message)))
		}
		if line == nil {
			break
		}
		if err := g.dialog.handleLine(line); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// handleLine handles a line from the guest. An error ends the guest.
func (d *dialog) handleLine(line []byte) error {
	many, over := d.state.countMessage()
	d.pauses.markActive()
	if over && d.session == "" {
		return nil // it already sent its last message
	}
	if many {
		return d.refuse(tool.Over(execution.OutputLimit, "the program sent more than %s messages: call and log less",
			text.Group(maxMessages)))
	}
	var m sandbox.GuestMessage
	if err := json.Unmarshal(line, &m); err != nil {
		if strings.Contains(err.Error(), "max depth") { // encoding/json has no exported error for it
			return d.refuse(tool.Over(execution.OutputLimit, "the program's value, or the arguments of a call, are "+
				"nested more than 10,000 levels deep: flatten them"))
		}
		return d.refuse(&tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped",
			Err: err})
	}
	d.history.recordMessage(line, &m)
	d.pauses.setHeld(m.Hold)
	if over {
		d.handleLate(&m)
		return nil
	}
	if err := d.handleMessage(&m); err != nil {
		if errors.Is(err, stream.ErrGone) {
			return err
		}
		return d.refuse(err)
	}
	return nil
}

// handleLate handles messages that a session's guest sends after its program has ended. The next
// program receives the answers.
func (d *dialog) handleLate(m *sandbox.GuestMessage) {
	switch {
	case m.Call != nil:
		d.history.keepLate(&sandbox.Answer{ID: m.Call.ID, Error: guestError(errNotMade)})
	case m.File != nil:
		d.history.keepLate(&sandbox.Answer{ID: m.File.ID, Error: guestError(errNotMade)})
	}
}

func (d *dialog) handleMessage(m *sandbox.GuestMessage) (err error) {
	defer d.recoverPanic("a message of the program", &err)
	switch {
	case m.Call != nil:
		return d.startCall(m.Call)
	case m.File != nil:
		return d.answerFile(m.File)
	case m.Timer != nil:
		d.setTimer(m.Timer.MS)
		return nil
	case m.Console != nil:
		return d.state.addConsole(m.Console)
	case m.Emit != nil:
		d.state.addNote(d.emit(m.Emit.Handle))
		return nil
	case m.Hold:
		return nil
	case m.Done != nil, m.Fail != nil:
		if d.ctx.Err() != nil { // report why the program was stopped, not how it handled its canceled calls
			return context.Cause(d.ctx)
		}
		d.state.endProgram(m)
		d.limitStray()
		d.stream.End()
		return nil
	}
	return tool.Errorf(tool.Internal, "the guest broke its protocol: the program was stopped")
}

// emit adds a content block to the answer: a leftover, if h is its handle, or a file. It returns a
// note if it can't.
func (d *dialog) emit(h string) (note string) {
	block, err := d.emittedBlock(h)
	return d.state.addBlock(h, block, err)
}

// emittedBlock returns the content block that a program emits with h.
func (d *dialog) emittedBlock(h string) (json.RawMessage, error) {
	l, err := d.results.leftover(h)
	if err == nil && l.block != nil {
		return l.block, nil
	}
	if strings.HasPrefix(h, "res_") {
		return nil, tool.Errorf(tool.NotFound, "nothing to show is kept under the handle %q", text.Cut(h, 80))
	}
	return d.files.embed(h)
}

// wakeGuest tells the program that its timer has expired.
func (d *dialog) wakeGuest() {
	d.clock.forgetTimer()
	d.pauses.markActive()
	if d.plan != nil {
		d.plan.passTimer()
	}
	line, err := tool.Marshal(sandbox.HostMessage{Wake: &sandbox.Wake{}, At: d.now()})
	if err == nil {
		err = d.stream.Send(line, about{at: d.now()}, false)
	}
	if err != nil {
		d.x.cfg.Log.Debug("guest not woken", "execution", d.id, "error", err)
	}
}

// setTimer sets the program's single wake-up timer to ms milliseconds, or stops it if ms is
// negative.
func (d *dialog) setTimer(ms float64) {
	d.clock.stopTimer()
	if ms < 0 {
		return
	}
	d.clock.setTimer(max(time.Duration(min(ms, maxTimer)*float64(time.Millisecond))-d.history.Behind(d.now()), 0))
	if d.plan != nil {
		d.plan.setTimer(ms)
	}
}

// maxTimer is the maximum delay of a program's timer, in milliseconds: no execution lasts longer.
const maxTimer = 1 << 31

// limitStray ends a guest that continues after its program has sent its last message. The guest of
// a session may continue: what it does then is part of its state.
func (d *dialog) limitStray() {
	if d.session == "" {
		stop := d.pauses.currentRun()
		d.clock.limitStray(func() { stop(errEnded) })
	}
}
