package executor

import (
	"context"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/stream"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"

	"github.com/biplane-dev/biplane/internal/base/tracing"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

const (
	// lastCallsTimeout is how long calls may continue after the program has ended, so that their
	// outcome is known.
	lastCallsTimeout = 5 * time.Second
	// maxMessages is the maximum number of messages from a guest: far more than calls, files and
	// console lines need.
	maxMessages = 200_000
)

// A run is an execution under way, or a finished one that is kept.
type run struct {
	*env
	state        state
	calls        calls
	dialog       dialog
	machine      machine
	proposal     proposal
	meter        meter
	results      results // what it leaves for later programs
	files        files
	place        place // in its session's queue
	history      history
	saveTime     time.Duration              // how long saving the session took
	onEnd        func(*execution.Execution) // called when it has ended; may be nil
	span         trace.Span
	taint        taint
	clock        clock
	pauses       suspension
	spared       savings
	watchers     watchers
	peopleSignal signal           // sent when the program waits only for people
	program      *program.Program // nil: not prepared yet, or dropped
}

// assemble returns a run with its parts, which has not begun.
func assemble(v *env) *run {
	r := &run{env: v}
	r.history.env, r.history.output = v, journal.NewOutputDigest()
	r.state = state{env: v, history: &r.history, taint: &r.taint, clock: &r.clock, suspension: &r.pauses,
		spared: &r.spared, watchers: &r.watchers}
	r.calls = calls{env: v, state: &r.state, history: &r.history, results: &r.results, taint: &r.taint, meter: &r.meter,
		spared: &r.spared}
	r.dialog = dialog{env: v, state: &r.state, history: &r.history, results: &r.results, calls: &r.calls,
		files: &r.files, clock: &r.clock, pauses: &r.pauses}
	r.machine = machine{env: v, state: &r.state, history: &r.history, meter: &r.meter, dialog: &r.dialog,
		pauses: &r.pauses}
	r.proposal = proposal{env: v, state: &r.state, history: &r.history, calls: &r.calls, taint: &r.taint,
		machine: &r.machine}
	r.meter.env, r.taint.env = v, v
	r.results.env, r.results.taint, r.results.meter = v, &r.taint, &r.meter
	r.files.env, r.files.taint, r.files.results = v, &r.taint, &r.results
	return r
}

func (x *Executor) newRun(ctx context.Context, principal tool.Principal, a arguments) *run {
	started := x.cfg.Clock.Now()
	r := assemble(&env{x: x, id: newExecutionID(started), principal: principal, session: a.session,
		digest: programDigest(a.Code)})
	r.began, r.started, r.clock = time.Now(), started, newClock(a.timeout)
	r.calls.over, r.done = make(chan struct{}), make(chan struct{})
	// The program outlives the request that started it, but not the Executor.
	ctx, r.span = tracing.StartSpan(context.WithoutCancel(ctx), "execution", trace.SpanKindInternal,
		attribute.String("biplane.execution.id", r.id), attribute.String("biplane.execution.language", a.language))
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	r.language = a.language
	lim := x.cfg.Limits
	r.pauses.patience = lim.Sessions.SuspendAfter
	r.calls.turns = queue.NewTurns(lim.Concurrency)
	s := &r.state
	s.exec = execution.Execution{State: execution.Queued, Session: a.session, Run: r}
	s.identify(0)
	s.output.limit, s.pending, s.table.indexes = lim.Console, newPending(lim.Concurrency), map[int64]int{}
	r.peopleSignal = s.pending.signal
	return r
}

// runToEnd runs the program from start to finish. It runs in its own goroutine.
func (r *run) runToEnd(a arguments) {
	stack.Grow()
	r.taint.network = newNetwork(&r.calls)
	stop := context.AfterFunc(r.x.ctx, func() { r.cancel(r.history.closingError()) })
	defer stop()
	left := r.x.cfg.Limits.Total - time.Since(r.began)
	total := time.AfterFunc(left, func() {
		r.cancel(timeoutErrorf("the execution took longer than %s in all, the most that one may: do the rest in "+
			"another program", r.x.cfg.Limits.Total))
	})
	defer total.Stop()
	r.state.boundTotal(total, left)
	defer r.cancel(nil)
	defer r.place.releaseNext()
	r.finish(r.causeOf(r.guard("an execution", func() error {
		if !r.isPlanning() {
			return r.runProgram(a)
		}
		if r.plan.proposal() == nil { // otherwise the plan is already proposed
			if err := r.runProgram(a); err != nil || !r.hasSucceeded() {
				return err
			}
		}
		return r.proposal.proposeWrites()
	})))
}

// runProgram prepares the program and runs it, in its turn and in its session if it has one.
func (r *run) runProgram(a arguments) error {
	if a.session != "" {
		if err := r.enterSession(a.session); err != nil {
			return err
		}
		defer r.machine.hold.Release()
	}
	if err := r.prepareProgram(a); err != nil {
		return err
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
	return r.runInSandbox(caps)
}

// prepareProgram opens the program's files and compiles the program. If the run is replayed, it
// sets the recorded program.
func (r *run) prepareProgram(a arguments) (err error) {
	if err := r.openFiles(); err != nil {
		return err
	}
	r.files.setTier(a.tier)
	if err := r.files.attach(a.files, r.history.isReplayed()); err != nil {
		return err
	}
	if r.function != nil {
		r.program = r.function.Program
	} else {
		r.meter.doWork(len(a.Code), func() { r.program, err = r.compileProgram(a) })
	}
	r.state.setProgram(r.program)
	if err := r.recordAttempts(err); err != nil {
		return err
	}
	if err != nil && !r.history.isReplayed() {
		return err
	}
	if r.history.isReplayed() {
		r.program = recordedProgram(r.history.story(), r.program)
		r.state.setProgram(r.program)
	} else if err := admitProgram(r, a); err != nil {
		return err
	}
	r.files.setFindings(r.program.Findings)
	if runtime := r.program.Runtime; runtime != "" && runtime != guest.Runtime("typescript") {
		r.language = runtime // the source specified it
	}
	return nil
}

// admitProgram returns an error if the agent's program may not run because of its findings.
func admitProgram(r *run, a arguments) error {
	if len(r.program.Findings) == 0 || r.function != nil {
		return nil
	}
	return r.x.cfg.Supervisor.AdmitProgram(r.originalCall(a), r.id, r.program.Findings)
}

// runInSandbox opens a sandbox of the chosen kind, runs the prepared program in it, and closes it.
func (r *run) runInSandbox(caps sandbox.Capabilities) error {
	if err := errors.Join(r.history.checkState(guest.Build(caps, r.language), r.machine.hold),
		r.proposal.checkState()); err != nil {
		return err
	}
	if r.history.isStored() {
		r.clock.refillTime() // the program ended in time
	}
	if err := r.machine.openBox(); err != nil {
		return err
	}
	defer r.machine.closeBox()
	r.state.startRunning(caps.Missing, r.machine.origin)
	r.pauses.setAble(r.x.cfg.Store != nil && r.x.cfg.Limits.Sessions.SuspendAfter > 0 &&
		r.machine.isolation.guests.Restores(r.machine.box))
	r.history.recordInput(r.input(), r.language, caps)
	err := r.runOnce()
	if r.isRetryable(err) {
		if err = r.replaceBox(); err == nil {
			err = r.runOnce()
		}
	}
	return r.settle(err)
}

// isRetryable reports whether the program may be sent again: the sandbox process died before the
// program sent anything. A new guest is equivalent: it is either fresh, or restored from the
// session's stored state.
func (r *run) isRetryable(err error) bool {
	var crash *sandbox.CrashError
	_, sent := r.state.lastMessage()
	return errors.As(err, &crash) && !r.history.isReplayed() && sent == 0 && r.ctx.Err() == nil
}

// replaceBox opens a new sandbox, and resets the run to its state before the program was sent.
func (r *run) replaceBox() error {
	r.machine.closeBox()
	r.machine.box = nil
	r.history.Again()
	r.meter.resetCPU()
	r.machine.ran, r.calls.over = nil, make(chan struct{})
	return r.machine.openBox()
}

// runOnce sends the program to its guest and runs the guest until the program and its calls have
// ended. It returns an error if the program ended without a Done or Fail message of the guest.
func (r *run) runOnce() error {
	r.dialog.stream = stream.New(stream.Config[about]{Line: r.x.cfg.Limits.Message + 4096,
		Recorder: r.dialog.history})
	if err := r.sendFirst(); err != nil {
		return err
	}
	r.clock.startTiming(r.outOfTime, r.dialog.wakeGuest)
	r.pauses.start(r.dialog.maybeSuspend)
	exit, err := r.machine.runGuest()
	r.machine.ran = err
	r.clock.stopTiming()
	r.pauses.stop()
	end, _ := r.state.lastMessage()
	if end == nil && r.ctx.Err() != nil {
		err = context.Cause(r.ctx) // read before waitForLastCalls cancels the remaining calls
	}
	_ = r.dialog.stream.Close()
	close(r.calls.over)
	r.waitForLastCalls(err == nil && end != nil)
	switch {
	case end != nil:
		return nil
	case err != nil:
		return err
	}
	return tool.Errorf(tool.Internal, "the guest exited with code %d and no message", exit)
}

// sendFirst sends the program, and late answers to earlier programs of the session.
func (r *run) sendFirst() error {
	if len(r.history.recordedLines()) > 0 {
		return r.dialog.sendRecorded()
	}
	run := &sandbox.Run{Code: r.program.Code, Name: r.program.Name, Line: r.program.Line,
		Namespaces: r.program.Namespaces,
		Aliases:    r.program.Aliases, Whole: r.program.Whole, Files: r.program.Files, Seed: r.seed(),
		Session: r.machine.hold != nil}
	first, err := tool.Marshal(sandbox.HostMessage{Run: run, At: r.now()})
	if err != nil {
		return err
	}
	lines := [][]byte{first}
	if !r.machine.moves { // otherwise the guest didn't make the calls
		lines = append(lines, lateLines(sessionGuest(r.machine.hold, r.language), r.now)...)
	}
	for _, line := range lines {
		if err := r.dialog.stream.Send(line, about{at: r.now()}, false); err != nil {
			return err
		}
	}
	return nil
}

// errEnded is the error of a call that is canceled because it outlasted the program by too much.
var errEnded = &tool.Error{Kind: tool.Canceled, Msg: "canceled: the program had ended"}

// waitForLastCalls waits for the calls that are still under way: they were sent, so their outcome
// should be known. If the run was canceled and the program did not report its end, it cancels them
// at once.
func (r *run) waitForLastCalls(reported bool) {
	wait := lastCallsTimeout
	if !reported && r.ctx.Err() != nil {
		wait = 0
	}
	timer := time.AfterFunc(wait, func() {
		r.cancel(errEnded)
	})
	r.calls.running.Wait()
	timer.Stop()
}

// hasSucceeded reports whether the program reported success.
func (r *run) hasSucceeded() bool {
	end, _ := r.state.lastMessage()
	return end != nil && end.Done != nil
}

// outOfTime ends the program when its own time is used up.
func (r *run) outOfTime() {
	if !r.clock.hasExpired() {
		return
	}
	r.cancel(timeoutErrorf("the program's own time of %s is over (CPU and timers; the time of tools doesn't count): "+
		"wait less, do less, or allow more (timeout_seconds, on the command line --timeout; at most %d s)",
		r.clock.limit, int(r.x.cfg.Limits.MaxTimeout.Seconds())))
}

// timeoutErrorf returns the error of a program that exceeded a time limit.
func timeoutErrorf(format string, a ...any) error {
	e := tool.Errorf(tool.Timeout, format, a...)
	e.Limit = execution.TimeLimit
	return e
}

// maxNotes is the maximum number of notes that a program can cause.
const maxNotes = 20

// enterSession waits for the program's turn in its session.
func (r *run) enterSession(name string) (err error) {
	wait, err := r.place.joinQueue(r.ctx, func() (turn, error) { return r.x.live.Join(r.principal.ID, name) })
	if err != nil {
		return err
	}
	if r.machine.hold, err = wait(r.ctx); err != nil {
		return err
	}
	r.taint.setSession(r.machine.hold)
	if err = r.taint.carry(tool.JoinLabels(r.taint.labels.All(), r.machine.hold.Labels())); err == nil &&
		r.place.wait == nil {
		err = r.machine.hold.Room(r.ctx) // before its calls are made; it is checked again on saving
	}
	if err != nil {
		r.machine.hold.Release()
		return err
	}
	return nil
}
