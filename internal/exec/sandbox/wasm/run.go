package wasm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// grace is how long a guest may take to heed an interrupt before its memory is revoked. Most
	// need less than a tenth of that, and builtins that can't be interrupted would take seconds.
	grace = 2 * time.Millisecond
	// hangUpGrace is how long a guest that isn't kept may continue after the host has closed the
	// stream.
	hangUpGrace = 50 * time.Millisecond
	// drainTime is how long the host may still read the output of a guest that was stopped.
	drainTime = time.Second
)

// A guestRun is one Run of a sandbox: it passes lines between the guest stream and the guest, and
// stops the guest. One goroutine, the caller's, enters the guest. If the stream isn't a
// sandbox.NonblockingStream, two more read and write, and end with the run. A timer acts as
// watchdog.
type guestRun struct {
	d           *Driver
	g           *guest
	lang        language
	spec        sandbox.Spec
	cmd         *sandbox.Cmd
	nonblocking sandbox.NonblockingStream // cmd.Guest, if it is one
	in          *inbox
	out         *outbox
	left        int64     // bytes that the guest may still write; used only inside entries
	turnBegan   time.Time // when this entry got its turn
	yielded     time.Time // when the entry last let other goroutines run

	ctx     context.Context // context of Cmd.Ask and Cmd.Next; done when the run is stopped
	cancel  context.CancelFunc
	halted  chan struct{} // closed by stop
	halting atomic.Bool   // set by stop, for the guest's polls
	watch   watch         // runs the watchdog

	mu      sync.Mutex
	cause   error // the first error passed to stop
	clock   cpuClock
	ticking bool          // clock belongs to the current entry
	base    time.Duration // reading of clock at the start of the entry
	used    time.Duration // CPU time of earlier entries
	turn    bool          // the current entry has one of the driver's turns
	entry   uint64        // number of the entry for the driver's relief
}

// A watch runs the watchdog of a run.
type watch struct {
	timer *time.Timer
	armed atomic.Bool // the timer is running

	mu   sync.Mutex // held while the watchdog runs; guards run.g, too
	over bool       // the watchdog is done
}

func newRun(s *Sandbox, cmd *sandbox.Cmd) *guestRun {
	r := &guestRun{d: s.d, lang: s.kind.lang, spec: s.spec, cmd: cmd, left: s.spec.Output,
		in: newInbox(int(s.spec.Memory)), out: newOutbox(cmd.Keep), halted: make(chan struct{})}
	if cmd.CPU > 0 {
		r.spec.CPU = min(cmd.CPU, s.spec.CPU)
	}
	r.nonblocking, _ = cmd.Guest.(sandbox.NonblockingStream)
	r.watch.timer = time.AfterFunc(math.MaxInt64, r.watchdog)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// setGuest sets the guest.
func (r *guestRun) setGuest(g *guest) {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	r.g = g
}

// drop releases a run whose guest no longer runs, or never ran.
func (r *guestRun) drop() {
	r.watch.timer.Stop()
	r.watch.mu.Lock()
	r.watch.over = true
	r.watch.mu.Unlock()
	r.cancel()
}

// usage returns the resources used by the run. It is called after the end.
func (r *guestRun) usage() sandbox.Usage {
	return sandbox.Usage{CPU: r.used, Memory: int64(len(r.g.region.memory()))}
}

// errHungUp ends a run whose host has closed the stream. That is not an error: the guest should end
// then.
var errHungUp = errors.New("the host hung up")

// stop ends the run with err, unless it was stopped before. It doesn't block.
func (r *guestRun) stop(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause != nil {
		return
	}
	r.cause = err
	r.halting.Store(true)
	close(r.halted)
	r.cancel()
	if r.lang.polls {
		r.watch.timer.Reset(grace)
	} else {
		r.watch.timer.Reset(0)
	}
}

// stopReason returns the reason why the run was stopped, or nil.
func (r *guestRun) stopReason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}

// perform performs the run.
func (r *guestRun) perform() error {
	r.g.host = r
	quit := make(chan struct{})
	var stream sync.WaitGroup
	write := func() { stream.Go(func() { r.handleWriteError(r.out.write(r.cmd.Guest, quit)) }) }
	if r.nonblocking != nil {
		r.in.from, r.out.begin = r.nonblocking, write
		r.nonblocking.Push(r.in)
	} else {
		write()
	}
	if r.nonblocking == nil || !r.cmd.Keep {
		stream.Go(func() { r.watchHost(quit) })
	}
	stack.Grow() // otherwise it grows in half a dozen steps with the guest's frames on it
	err := r.explainError(r.pump())
	r.awaitFlush()
	r.drop()
	close(quit)
	if c, ok := r.cmd.Guest.(io.Closer); ok {
		_ = c.Close() // the other side sees EOF
		stream.Wait()
	}
	r.g.host = silentHost{}
	return err
}

// handleWriteError handles the result of the goroutine that writes to the stream.
func (r *guestRun) handleWriteError(err error) {
	switch {
	case err == nil:
	case sandbox.HungUp(err) && r.cmd.Keep: // the guest continues without a reader until it is idle
	case sandbox.HungUp(err):
		r.stop(errHungUp)
	default:
		r.stop(fmt.Errorf("write to the guest stream: %w", err))
	}
}

// watchHost reads the stream. When the host has closed it, watchHost stops a guest that isn't
// kept after a while, because its results would be unused.
func (r *guestRun) watchHost(quit <-chan struct{}) {
	if !r.awaitHangUp(quit) || r.cmd.Keep {
		return
	}
	select {
	case <-quit:
	case <-time.After(hangUpGrace):
		r.stop(errHungUp)
	}
}

// awaitHangUp reads the host's lines until EOF or quit, and reports whether it was EOF.
func (r *guestRun) awaitHangUp(quit <-chan struct{}) bool {
	if r.nonblocking == nil {
		return r.in.read(r.cmd.Guest, quit) == io.EOF
	}
	select {
	case <-r.in.over:
		return true
	case <-quit:
		return false
	}
}

// pump enters the guest for each line until the host closes the stream.
func (r *guestRun) pump() error {
	if err := r.g.enter(func() error { r.g.engine.limit(r.spec.Memory, r.spec.Stack); return nil }); err != nil {
		return err
	}
	there := func() bool { return r.in.hasNext() || r.halting.Load() }
	for {
		if r.nonblocking != nil && !there() {
			r.nonblocking.Listen(there)
		}
		line, ok, end := r.in.take()
		switch {
		case r.halting.Load():
			return r.stopReason()
		case ok:
			if err := r.enter(line); err != nil || r.endsItself() {
				return err
			}
		case end == io.EOF:
			return nil
		case end == errLine:
			return r.limit("memory", "the host sent a line longer than the sandbox's memory of %s", size(r.spec.Memory))
		case end != nil:
			return fmt.Errorf("read the guest stream: %w", end)
		default:
			select {
			case <-r.in.more:
			case <-r.halted:
			}
		}
	}
}

// enter makes one entry: it delivers a line and runs the guest until it waits again. It first waits
// until the host has read enough of the guest's output, then for a turn.
func (r *guestRun) enter(line string) error {
	for r.out.waiting() > outboxFull {
		select {
		case <-r.out.less:
		case <-r.halted:
			return r.stopReason()
		}
	}
	if r.nonblocking != nil {
		defer func() { r.out.flush(r.nonblocking, r.endsItself()) }()
	}
	r.beginEntry()
	defer r.finishEntry()
	return r.g.enter(func() error {
		if r.halting.Load() { // the watchdog may have run before there was memory to revoke
			return errDead
		}
		if err := r.g.engine.deliver(line); err != nil {
			return err
		}
		return r.g.engine.work()
	})
}

// endsItself reports whether the guest's last message ends the run, and was sent.
func (r *guestRun) endsItself() bool { return r.cmd.Once && r.out.endsRun() }

// beginEntry acquires a turn and a thread, and starts the clock of an entry or of its continuation.
func (r *guestRun) beginEntry() {
	r.d.turns.take(false, r.halted)
	runtime.LockOSThread()
	r.entry = r.d.relief.begin()
	r.turnBegan = time.Now()
	r.yielded = r.turnBegan
	clock := threadClock()
	base := clock.read()
	r.mu.Lock()
	r.clock, r.base, r.ticking, r.turn = clock, base, true, true
	left := r.spec.CPU - r.used
	halted := r.cause != nil
	r.mu.Unlock()
	// A running watch fires early enough: CPU time passes no faster than time.
	if !halted && r.watch.armed.CompareAndSwap(false, true) {
		r.watch.timer.Reset(r.checkInterval(left))
	}
}

// checkInterval returns when the watchdog must check an entry that has this much CPU time left.
func (r *guestRun) checkInterval(left time.Duration) time.Duration {
	if r.lang.polls {
		return left
	}
	return min(left, quantum) // to release its turn, which such an entry can't do itself
}

// finishEntry adds the CPU time since begin to the total, and releases what begin took.
func (r *guestRun) finishEntry() {
	r.mu.Lock()
	r.used += r.clock.read() - r.base
	r.ticking = false
	turn := r.turn
	r.turn = false
	r.mu.Unlock()
	runtime.UnlockOSThread()
	r.d.relief.end(r.entry)
	if turn {
		r.d.turns.releaseTurn()
	}
}

// watchdog stops the guest when its CPU time is used up, and revokes its memory if it doesn't heed
// that.
func (r *guestRun) watchdog() {
	r.watch.mu.Lock()
	defer r.watch.mu.Unlock()
	if r.watch.over {
		return
	}
	if r.halting.Load() {
		// If this fails, only the interrupt is left: all but a few builtins poll it.
		if r.g != nil {
			_ = r.g.revoke()
		}
		return
	}
	r.mu.Lock()
	left, ticking := r.spec.CPU-r.used, r.ticking
	if ticking {
		left -= r.clock.read() - r.base
	}
	give := ticking && r.turn && !r.lang.polls && left > 0
	if give {
		r.turn = false
	}
	r.mu.Unlock()
	if give {
		r.d.turns.releaseTurn()
	}
	switch {
	case left <= 0:
		r.stop(r.limit("cpu",
			"the program used up its CPU time of %v: do less work, or split it into smaller programs", r.spec.CPU))
	case ticking:
		r.watch.timer.Reset(left)
		if r.nonblocking != nil {
			r.out.writeEarly()
		}
	default:
		r.watch.armed.Store(false)
		// Meanwhile an entry may have started, seen the watch armed and not reset it.
		r.mu.Lock()
		again := r.ticking
		r.mu.Unlock()
		if again && r.watch.armed.CompareAndSwap(false, true) {
			r.watch.timer.Reset(r.checkInterval(left))
		}
	}
}

// awaitFlush waits until the host has read the guest's output: at most drainTime, or without limit
// if the guest is kept, or if its last message has ended the run.
func (r *guestRun) awaitFlush() {
	var moment <-chan time.Time
	halted := r.halted
	if !r.cmd.Keep && !r.endsItself() {
		moment = time.After(drainTime)
	}
	for r.out.waiting() > 0 {
		select {
		case <-r.out.less:
		case <-moment:
			return
		case <-halted:
			if halted = nil; moment == nil {
				moment = time.After(drainTime)
			}
		}
	}
}

func (r *guestRun) limit(name, format string, a ...any) error {
	return &sandbox.LimitError{Limit: name, Msg: fmt.Sprintf(format, a...)}
}

// explainError returns the error of a run, from the error of its last entry.
func (r *guestRun) explainError(err error) error {
	switch cause := r.stopReason(); cause {
	case nil:
	case errHungUp:
		return nil
	default:
		return cause
	}
	var e *exception
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errMemory), errors.As(err, &e) && strings.Contains(e.text, "out of memory"):
		return r.limit("memory",
			"the program reached its memory limit of %s: keep less data in memory at a time", size(r.spec.Memory))
	case errors.Is(err, errStack), e != nil && strings.Contains(e.text, "Maximum call stack size exceeded"):
		return r.limit("stack", "the program reached its stack limit of %s: recurse less deeply", size(r.spec.Stack))
	case e != nil:
		return &tool.Error{Kind: tool.Internal, Msg: "the guest's runtime failed: " + e.text, Err: err}
	}
	return err
}

// size formats a number of bytes for users.
func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// The methods below implement host for the guest: they run inside its entries.

// interrupted reports whether the guest must stop. A guest that has used its quantum yields here
// while others wait; to the guest it looks as if only time had passed.
func (r *guestRun) interrupted() bool {
	if r.halting.Load() {
		return true
	}
	now := time.Now()
	if now.Sub(r.turnBegan) > quantum {
		if r.d.turns.hasWaiters() {
			r.d.turns.releaseTurn()
			r.d.turns.take(true, r.halted)
			now = time.Now()
		}
		r.turnBegan, r.yielded = now, now
	}
	if now.Sub(r.yielded) > yieldInterval {
		r.out.writeEarly()
		if !r.d.relief.given() { // otherwise there is a spare processor
			runtime.Gosched()
		}
		r.yielded = time.Now()
	}
	return r.halting.Load()
}

// write copies a line to the outbox. It makes the copy outside of the outbox's lock: the watchdog
// may revoke the guest's memory at any time.
func (r *guestRun) write(line []byte) {
	r.countOutput(len(line))
	// An entry's output is sent at its end, unless the entry is slow.
	r.out.writeOutput(string(line), r.nonblocking != nil && time.Since(r.turnBegan) < yieldInterval)
}

// countOutput counts n bytes of output to the host, and stops the guest at its limit.
func (r *guestRun) countOutput(n int) {
	if r.left -= int64(n); r.left < 0 {
		err := r.limit("output", "the program wrote more than %s in total (value, console, arguments of calls, "+
			"contents of files): write less, or use several programs", size(r.spec.Output))
		r.stop(err)
		panic(abort{err})
	}
}

// ask asks the host. Meanwhile the guest's clock stands still, and others may use its turn.
func (r *guestRun) ask(question []byte) (string, bool) {
	r.countOutput(len(question))
	if r.cmd.Ask == nil {
		return "", false
	}
	question = bytes.Clone(question)
	r.finishEntry()
	if r.nonblocking != nil {
		r.out.flush(r.nonblocking, false)
	}
	answer := r.answer(question)
	r.beginEntry()
	if r.halting.Load() {
		panic(abort{errDead}) // the answer no longer matters
	}
	return string(answer), true
}

// answer calls Cmd.Ask. If that panics, the entry's state is restored first.
func (r *guestRun) answer(question []byte) []byte {
	asked := false
	defer func() {
		if !asked {
			r.beginEntry() // finish runs while the panic unwinds
		}
	}()
	b := r.cmd.Ask(r.ctx, question)
	asked = true
	return b
}
