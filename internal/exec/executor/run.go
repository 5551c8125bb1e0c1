package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/stream"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

const (
	// lastCalls is how long calls may continue after the program has ended, so that their outcome
	// is known.
	lastCalls = 5 * time.Second
	// maxMessages is the maximum number of messages from a guest: far more than calls, files and
	// console lines need.
	maxMessages = 200_000
)

// A run is an execution under way, or a finished one that is kept.
type run struct {
	*env
	state    state
	calls    calls
	dialog   dialog
	machine  machine
	done     chan struct{} // closed when answered is set
	meter    meter
	results  results // what it leaves for later programs
	files    files
	place    place // in its session's queue
	history  history
	saved    time.Duration              // how long saving the session took
	ended    time.Time                  // set by runs
	admitted func(*execution.Execution) // called when it has ended; may be nil
	taint    taint
}

// A dialog is what the host and the guest say to each other. It hands calls to the calls, and file
// operations to the files.
type dialog struct {
	*env
	state   *state
	history *history
	results *results
	calls   *calls
	files   *files
	stream  *stream.Stream[about]
}

// assemble returns a run with its parts, which has not begun.
func assemble(v *env) *run {
	r := &run{env: v}
	r.history.env, r.history.voice = v, journal.NewVoice()
	r.state.env, r.state.history, r.state.taint = v, &r.history, &r.taint
	r.calls = calls{env: v, state: &r.state, history: &r.history, results: &r.results, taint: &r.taint, meter: &r.meter}
	r.dialog = dialog{env: v, state: &r.state, history: &r.history, results: &r.results, calls: &r.calls, files: &r.files}
	r.machine = machine{env: v, state: &r.state, history: &r.history, meter: &r.meter, dialog: &r.dialog}
	r.meter.env, r.taint.env = v, v
	r.results.env, r.results.taint = v, &r.taint
	r.files.env, r.files.taint, r.files.results = v, &r.taint, &r.results
	return r
}

func (x *Executor) newRun(ctx context.Context, principal tool.Principal, a arguments) *run {
	r := assemble(&env{x: x, id: newID("ex_"), principal: principal, session: a.session, digest: programDigest(a.Code)})
	r.began, r.state.clock = time.Now(), newClock(a.timeout)
	r.calls.over, r.done, r.state.pending = make(chan struct{}), make(chan struct{}), newPending(x.cfg.Limits.Concurrency)
	// The program outlives the request that started it, but not the Executor.
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.state.exec = execution.Execution{ID: r.id, State: execution.Queued, Principal: principal, Started: x.cfg.Now(), Session: a.session, Run: r}
	r.language = a.language
	r.state.output.limit = x.cfg.Limits.Console
	r.state.suspension.patience = x.cfg.Limits.Sessions.SuspendAfter
	r.state.table.turns, r.state.table.indexes = queue.NewTurns(x.cfg.Limits.Concurrency), map[int64]int{}
	return r
}

// snapshot returns a copy of the current execution.
func (s *state) snapshot() *execution.Execution {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.exec
	e.Labels = s.taint.labels.All()
	if s.isOpen() {
		e.Console, e.Logged = s.output.lines, s.output.logged
	}
	e.Console = append([]execution.Line{}, e.Console...)
	e.Calls = append([]execution.Call{}, e.Calls...)
	if s.isOpen() {
		e.MS = s.x.cfg.Now().Sub(e.Started).Milliseconds()
	}
	return &e
}

// isOpen reports whether the run has not ended. s.mu is held.
func (s *state) isOpen() bool {
	return s.exec.State == execution.Queued || s.exec.State == execution.Running || s.exec.State == execution.Waiting
}

// live runs the program from start to finish. It runs in its own goroutine.
func (r *run) live(a arguments) {
	stack.Grow()
	stop := context.AfterFunc(r.x.ctx, func() { r.cancel(r.history.closingError()) })
	defer stop()
	left := r.x.cfg.Limits.Total - time.Since(r.began)
	total := time.AfterFunc(left, func() {
		r.cancel(overtime("the execution took longer than %s in all, the most that one may: do the rest in another program", r.x.cfg.Limits.Total))
	})
	defer total.Stop()
	r.state.boundTotal(total, left)
	defer r.cancel(nil)
	defer r.place.releaseNext()
	r.finish(r.why(r.guard("an execution", func() error {
		if !r.isPlanning() {
			return r.prepareAndRun(a)
		}
		if r.plan.whole == nil { // otherwise the plan is already proposed
			if err := r.prepareAndRun(a); err != nil || !r.state.hasSucceeded() {
				return err
			}
		}
		return r.propose()
	})))
}

func (r *run) prepareAndRun(a arguments) (err error) {
	if a.session != "" {
		if err = r.enterSession(a.session); err != nil {
			return err
		}
		defer r.machine.hold.Release()
	}
	fs, skills, err := r.x.live.FS(r.ctx, r.principal, r.machine.hold)
	if err != nil {
		return err
	}
	r.files.setTree(fs, skills)
	r.files.setTier(a.tier)
	if err := r.files.attach(a.files, r.history.isReplayed()); err != nil {
		return err
	}
	r.meter.doWork(len(a.Code), func() { r.state.program, err = r.prepare(a) })
	if err := r.attempts(err); err != nil {
		return err
	}
	if err != nil && !r.history.isReplayed() {
		return err
	}
	if r.history.isReplayed() {
		r.state.program = asThen(r.history.story(), r.state.program)
	}
	if r.state.program.Runtime == "python" {
		r.language = "python" // the source specified it
	}
	caps, err := chooseSandbox(r, a)
	if err != nil {
		return err
	}
	if err := r.x.queue.Enter(r.ctx, r.principal.ID); err != nil {
		return err
	}
	r.machine.slot = true
	defer func() {
		if r.machine.slot {
			r.x.queue.Leave(r.principal.ID)
		}
	}()
	if err := errors.Join(r.history.checkState(guest.Build(caps, r.language), r.machine.hold), r.asPlanned()); err != nil {
		return err
	}
	if r.history.isStored() {
		r.state.clock.refillTime() // the program ended in time
	}
	if err := r.machine.openBox(); err != nil {
		return err
	}
	defer r.machine.closeBox()
	r.state.mu.Lock()
	r.state.exec.State = execution.Running
	r.state.exec.Missing, r.state.exec.Rebuilt = caps.Missing, r.machine.origin.Why
	r.state.suspension.able = r.x.cfg.Store != nil && r.x.cfg.Limits.Sessions.SuspendAfter > 0 && r.machine.isolation.guests.Restores(r.machine.box)
	r.state.mu.Unlock()
	r.history.recordInput(r.input(), r.language, caps)
	err = r.drive()
	if r.retries(err) {
		if err = r.again(); err == nil {
			err = r.drive()
		}
	}
	return r.settle(err)
}

// retries reports whether the program may be sent again: the sandbox process died before the
// program sent anything. A new guest is equivalent: it is either fresh, or restored from the
// session's stored state.
func (r *run) retries(err error) bool {
	var crash *sandbox.CrashError
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	return errors.As(err, &crash) && !r.history.isReplayed() && r.state.messages == 0 && r.ctx.Err() == nil
}

// again resets the run to its state before the program was sent.
func (r *run) again() error {
	r.machine.closeBox()
	r.machine.box = nil
	r.history.Again()
	r.meter.resetCPU()
	r.machine.ran, r.calls.over, r.state.suspension.set = nil, make(chan struct{}), false
	return r.machine.openBox()
}

// openBox gets a sandbox for the program: a fresh one, or its session's.
func (m *machine) openBox() (err error) {
	if m.hold == nil {
		m.box, err = m.isolation.guests.Fresh(m.ctx, m.principal.ID, m.language)
		return err
	}
	if m.history.isStored() {
		m.box, err = m.x.guestThen(m.ctx, m.history.story())
	} else {
		m.box, m.origin, err = m.hold.Guest(m.ctx, m.isolation.guests, m.language)
	}
	if err != nil {
		return err
	}
	if _, ok := m.box.(sandbox.Snapshotter); !ok {
		m.closeBox()
		return guest.ErrNoSnapshots
	}
	m.history.recordGuest(m.language)
	return nil
}

func (m *machine) closeBox() {
	if m.box == nil {
		return
	}
	if err := m.box.Close(); err != nil {
		m.x.cfg.Log.Warn("close a sandbox", "execution", m.id, "error", err)
	}
}

// drive runs the program. It returns an error if the program ended without a Done or Fail message
// of the guest.
func (r *run) drive() error {
	lim := r.x.cfg.Limits
	r.dialog.stream = stream.New(stream.Config[about]{Line: lim.Message + 4096, Message: r.dialog.readMessage, Sent: r.history.recordLine, TooLong: func() error {
		return r.refuse(tool.Over(execution.OutputLimit, "the program's value, or the arguments of a call, are over %s of JSON: return or send less", prose.Size(lim.Message)))
	}})
	if err := r.sendFirst(); err != nil {
		return err
	}
	r.state.mu.Lock()
	r.state.clock.startTiming(r.state.outOfTime, r.dialog.wakeGuest)
	r.state.suspension.active = time.Now()
	r.state.suspension.timer = time.AfterFunc(math.MaxInt64, r.dialog.maybeSuspend)
	r.state.mu.Unlock()
	exit, err := r.machine.runGuest()
	r.machine.ran = err
	r.state.mu.Lock()
	r.state.clock.stopTiming()
	r.state.suspension.timer.Stop()
	end := r.state.end
	r.state.mu.Unlock()
	if end == nil && r.ctx.Err() != nil {
		err = context.Cause(r.ctx) // read before lastCalls cancels the remaining calls
	}
	_ = r.dialog.stream.Close()
	close(r.calls.over)
	r.lastCalls(err == nil && end != nil)
	switch {
	case end != nil:
		return nil
	case err != nil:
		return err
	}
	return tool.Errorf(tool.Internal, "the guest ended with code %d and said nothing", exit)
}

// sendFirst sends the program, and late answers to earlier programs of the session.
func (r *run) sendFirst() error {
	if len(r.history.recordedLines()) > 0 {
		return r.dialog.sendRecorded()
	}
	run := &sandbox.Run{Code: r.state.program.Code, Name: r.state.program.Name, Line: r.state.program.Line, Namespaces: r.state.program.Namespaces,
		Aliases: r.state.program.Aliases, Whole: r.state.program.Whole, Seed: r.seed(), Session: r.machine.hold != nil}
	first, err := tool.Marshal(sandbox.HostMessage{Run: run, At: r.now()})
	if err != nil {
		return err
	}
	for _, line := range append([][]byte{first}, lateLines(sessionGuest(r.machine.hold, r.language), r.now)...) {
		if err := r.dialog.stream.Send(line, about{at: r.now()}, false); err != nil {
			return err
		}
	}
	return nil
}

// errEnded is the error of a call that is canceled because it outlasted the program by too much.
var errEnded = tool.Errorf(tool.Canceled, "canceled: the program had ended")

// lastCalls waits for the calls that are still under way: they were sent, so their outcome should
// be known.
func (r *run) lastCalls(well bool) {
	wait := lastCalls
	if !well && r.ctx.Err() != nil {
		wait = 0
	}
	timer := time.AfterFunc(wait, func() {
		r.cancel(errEnded)
	})
	r.state.table.running.Wait()
	timer.Stop()
}

// outOfTime ends the program when its own time is used up.
func (s *state) outOfTime() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clock.hasExpired() {
		return
	}
	s.cancel(overtime("the program's own time of %s is over (CPU and timers; the time of tools doesn't count): wait less, do less, or allow more (timeout_seconds, on the command line --timeout; at most %d s)",
		s.clock.limit, int(s.x.cfg.Limits.MaxTimeout.Seconds())))
}

// overtime returns the error of a program that exceeded a time limit.
func overtime(format string, a ...any) error {
	e := tool.Errorf(tool.Timeout, format, a...)
	e.Limit = execution.TimeLimit
	return e
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

// readMessage handles a line from the guest. An error ends the guest.
func (d *dialog) readMessage(line []byte) error {
	d.state.mu.Lock()
	d.state.messages++
	d.state.suspension.active = time.Now()
	many, over := d.state.messages > maxMessages, d.state.end != nil
	d.state.mu.Unlock()
	if over && d.session == "" {
		return nil // it already sent its last message
	}
	if many {
		return d.refuse(tool.Over(execution.OutputLimit, "the program sent more than %s messages: call and log less", prose.Group(maxMessages)))
	}
	var m sandbox.GuestMessage
	if err := json.Unmarshal(line, &m); err != nil {
		if strings.Contains(err.Error(), "max depth") { // encoding/json has no exported error for it
			return d.refuse(tool.Over(execution.OutputLimit, "the program's value, or the arguments of a call, are nested more than 10,000 levels deep: flatten them"))
		}
		return d.refuse(&tool.Error{Kind: tool.Internal, Msg: "the guest broke its protocol: the program was stopped", Err: err})
	}
	d.history.recordMessage(line, &m)
	d.state.mu.Lock()
	d.state.suspension.held = m.Hold
	d.state.mu.Unlock()
	if over {
		d.handleLate(&m)
		return nil
	}
	if err := d.guard("a message of the program", func() error { return d.handleMessage(&m) }); err != nil {
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

func (d *dialog) handleMessage(m *sandbox.GuestMessage) error {
	switch {
	case m.Call != nil:
		return d.startCall(m.Call)
	case m.File != nil:
		return d.answerFile(m.File)
	case m.Timer != nil:
		d.state.setTimer(m.Timer.MS)
		return nil
	case m.Console != nil:
		return d.state.addConsole(m.Console)
	case m.Emit != nil:
		d.emit(m.Emit.Handle)
		return nil
	case m.Hold:
		return nil
	case m.Done != nil, m.Fail != nil:
		if d.ctx.Err() != nil { // report why the program was stopped, not how it handled its canceled calls
			return context.Cause(d.ctx)
		}
		d.state.shift(func() {
			d.state.end = m
			d.history.setSpoken()
			d.state.limitStray()
		})
		d.stream.End()
		return nil
	}
	return tool.Errorf(tool.Internal, "the guest broke its protocol: the program was stopped")
}

// maxNotes is the maximum number of notes that a program can cause.
const maxNotes = 20

// emit adds a content block to the answer: a leftover, if h is its handle, or a file.
func (d *dialog) emit(h string) {
	block, err := d.emittedBlock(h)
	d.state.mu.Lock()
	defer d.state.mu.Unlock()
	switch {
	case len(d.state.exec.Notes) >= maxNotes:
	case err != nil:
		d.state.exec.Notes = append(d.state.exec.Notes, "emit: "+tool.AsError(err).Msg)
	case !d.state.output.addBlock(block):
		d.state.exec.Notes = append(d.state.exec.Notes, fmt.Sprintf("emit: %s left out: all in all over %s", prose.Cut(h, 80), prose.Size(maxEmitted)))
	}
}

// emittedBlock returns the content block that a program emits with h.
func (d *dialog) emittedBlock(h string) (json.RawMessage, error) {
	l, err := d.results.leftover(h)
	if err == nil && l.block != nil {
		return l.block, nil
	}
	if strings.HasPrefix(h, "res_") {
		return nil, tool.Errorf(tool.NotFound, "nothing to show is kept under the handle %q", prose.Cut(h, 80))
	}
	return d.files.embed(h)
}

// rewriteFrames rewrites stack frames in text, the program's output, to positions in the agent's
// source.
func (s *state) rewriteFrames(text string) string {
	if s.program == nil {
		return text
	}
	return s.program.Rewrite(text)
}
