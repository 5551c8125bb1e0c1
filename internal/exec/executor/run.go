package executor

import (
	"context"
	"errors"
	"math"
	"time"

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
	meter    meter
	results  results // what it leaves for later programs
	files    files
	place    place // in its session's queue
	history  history
	saved    time.Duration              // how long saving the session took
	admitted func(*execution.Execution) // called when it has ended; may be nil
	taint    taint
}

// assemble returns a run with its parts, which has not begun.
func assemble(v *env) *run {
	r := &run{env: v}
	r.history.env, r.history.voice = v, journal.NewVoice()
	r.state.env, r.state.history, r.state.taint = v, &r.history, &r.taint
	r.calls = calls{env: v, state: &r.state, history: &r.history, results: &r.results, taint: &r.taint, meter: &r.meter}
	r.dialog = dialog{env: v, state: &r.state, history: &r.history, results: &r.results, calls: &r.calls,
		files: &r.files}
	r.machine = machine{env: v, state: &r.state, history: &r.history, meter: &r.meter, dialog: &r.dialog}
	r.meter.env, r.taint.env = v, v
	r.results.env, r.results.taint = v, &r.taint
	r.files.env, r.files.taint, r.files.results = v, &r.taint, &r.results
	return r
}

func (x *Executor) newRun(ctx context.Context, principal tool.Principal, a arguments) *run {
	r := assemble(&env{x: x, id: newID("ex_"), principal: principal, session: a.session, digest: programDigest(a.Code)})
	r.began, r.state.clock = time.Now(), newClock(a.timeout)
	r.calls.over, r.done, r.state.pending = make(chan struct{}), make(chan struct{}),
		newPending(x.cfg.Limits.Concurrency)
	// The program outlives the request that started it, but not the Executor.
	r.ctx, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	r.state.exec = execution.Execution{ID: r.id, State: execution.Queued, Principal: principal,
		Started: x.cfg.Clock.Now(),
		Session: a.session, Run: r}
	r.language = a.language
	r.state.output.limit = x.cfg.Limits.Console
	r.state.suspension.patience = x.cfg.Limits.Sessions.SuspendAfter
	r.state.table.turns, r.state.table.indexes = queue.NewTurns(x.cfg.Limits.Concurrency), map[int64]int{}
	return r
}

// live runs the program from start to finish. It runs in its own goroutine.
func (r *run) live(a arguments) {
	stack.Grow()
	stop := context.AfterFunc(r.x.ctx, func() { r.cancel(r.history.closingError()) })
	defer stop()
	left := r.x.cfg.Limits.Total - time.Since(r.began)
	total := time.AfterFunc(left, func() {
		r.cancel(overtime("the execution took longer than %s in all, the most that one may: do the rest in another "+
			"program", r.x.cfg.Limits.Total))
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
	if err := errors.Join(r.history.checkState(guest.Build(caps, r.language), r.machine.hold),
		r.asPlanned()); err != nil {
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
	r.state.suspension.able = r.x.cfg.Store != nil && r.x.cfg.Limits.Sessions.SuspendAfter > 0 &&
		r.machine.isolation.guests.Restores(r.machine.box)
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

// drive runs the program. It returns an error if the program ended without a Done or Fail message
// of the guest.
func (r *run) drive() error {
	lim := r.x.cfg.Limits
	r.dialog.stream = stream.New(stream.Config[about]{Line: lim.Message + 4096, Handler: &r.dialog})
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
	run := &sandbox.Run{Code: r.state.program.Code, Name: r.state.program.Name, Line: r.state.program.Line,
		Namespaces: r.state.program.Namespaces,
		Aliases:    r.state.program.Aliases, Whole: r.state.program.Whole, Seed: r.seed(),
		Session: r.machine.hold != nil}
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

// overtime returns the error of a program that exceeded a time limit.
func overtime(format string, a ...any) error {
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
	if err = r.taint.carry(tool.Joined(r.taint.labels.All(), r.machine.hold.Labels())); err == nil &&
		r.place.wait == nil {
		err = r.machine.hold.Room(r.ctx) // before its calls are made; it is checked again on saving
	}
	if err != nil {
		r.machine.hold.Release()
		return err
	}
	return nil
}
