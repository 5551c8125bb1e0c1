package wasm

import (
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

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/stack"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// grace is how long a guest has to heed an interrupt before its memory is taken away: most do within a tenth of that, and the
	// builtins that nobody can interrupt would take seconds.
	grace = 2 * time.Millisecond
	// parting is how long a guest that isn't kept may work on when the host has hung up.
	parting = 50 * time.Millisecond
	// lastWords is how long the host has to read what a guest said before it was stopped.
	lastWords = time.Second
)

// A run is one Run of a sandbox: it pumps lines between the guest stream and the guest, and stops the guest. One
// goroutine, the caller's, enters the guest; where its stream is no sandbox.Prompt two more read and write, and end with it.
// A timer watches.
type run struct {
	d       *Driver
	g       *guest
	lang    language
	spec    sandbox.Spec
	cmd     *sandbox.Cmd
	prompt  sandbox.Prompt // cmd.Guest, if it is one
	listen  func(func() bool)
	in      *inbox
	out     *outbox
	left    int64     // bytes that the guest may still write; touched inside entries only
	turned  time.Time // when this entry got its turn
	yielded time.Time // when it last let other goroutines run

	ctx     context.Context // of what the guest asks; done when the run is stopped
	cancel  context.CancelFunc
	halted  chan struct{} // closed by stop
	halting atomic.Bool   // the same, for the guest's polls
	watch   *time.Timer   // when the watchdog looks next
	armed   atomic.Bool   // watch is running
	looking sync.Mutex    // held while the watchdog looks
	over    bool          // it looks no more; under looking, as is g

	mu      sync.Mutex
	cause   error // the first that stop was given
	clock   cpuClock
	ticking bool          // clock is that of an entry under way
	base    time.Duration // what clock showed when the entry began
	used    time.Duration // CPU time of the entries before
	turn    bool          // the entry under way has one of the driver's turns
	entry   uint64        // its number for the driver's relief
}

func newRun(s *Sandbox, cmd *sandbox.Cmd) *run {
	r := &run{d: s.d, lang: s.kind.lang, spec: s.spec, cmd: cmd, left: s.spec.Output,
		in: newInbox(int(s.spec.Memory)), out: newOutbox(cmd.Keep), halted: make(chan struct{})}
	if cmd.CPU > 0 {
		r.spec.CPU = min(cmd.CPU, s.spec.CPU)
	}
	r.prompt, _ = cmd.Guest.(sandbox.Prompt)
	r.listen = func(func() bool) {}
	if l, ok := cmd.Guest.(sandbox.Listener); ok {
		r.listen = l.Listen
	}
	r.watch = time.AfterFunc(math.MaxInt64, r.watchdog)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// enters says which guest it is.
func (r *run) enters(g *guest) {
	r.looking.Lock()
	defer r.looking.Unlock()
	r.g = g
}

// drop gives back what a run holds whose guest runs no more, or never ran.
func (r *run) drop() {
	r.watch.Stop()
	r.looking.Lock()
	r.over = true
	r.looking.Unlock()
	r.cancel()
}

// usage is what the run took, when it is over.
func (r *run) usage() sandbox.Usage {
	return sandbox.Usage{CPU: r.used, Memory: int64(len(r.g.region.memory()))}
}

// errHungUp ends a run whose host has gone. That is no error: the guest is to end then.
var errHungUp = errors.New("the host hung up")

// stop ends the run with err, unless something else did before. It returns at once.
func (r *run) stop(err error) {
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
		r.watch.Reset(grace)
	} else {
		r.watch.Reset(0)
	}
}

// stopped is why the run was stopped, or nil.
func (r *run) stopped() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cause
}

// do runs it all.
func (r *run) do() error {
	r.g.host = r
	quit := make(chan struct{})
	var stream sync.WaitGroup
	write := func() { stream.Go(func() { r.written(r.out.write(r.cmd.Guest, quit)) }) }
	if r.prompt != nil {
		r.in.took, r.out.begin = r.prompt.Took, write
		r.prompt.Push(r.in.put)
	} else {
		write()
	}
	if r.prompt == nil || !r.cmd.Keep {
		stream.Go(func() { r.parted(quit) })
	}
	stack.Grow() // otherwise it grows by half a dozen steps with the guest's frames on it
	err := r.explain(r.pump())
	r.flush()
	r.drop()
	close(quit)
	if c, ok := r.cmd.Guest.(io.Closer); ok {
		_ = c.Close() // the other side sees the end of the stream
		stream.Wait()
	}
	r.g.host = deafHost{}
	return err
}

// written hears how writing to the stream ended.
func (r *run) written(err error) {
	switch {
	case err == nil:
	case sandbox.HungUp(err) && r.cmd.Keep: // it goes on, for nobody, until the end of what it has to do
	case sandbox.HungUp(err):
		r.stop(errHungUp)
	default:
		r.stop(fmt.Errorf("write to the guest stream: %w", err))
	}
}

// parted reads, and stops a guest that isn't kept when the host has hung up: what it is doing then is for nobody.
func (r *run) parted(quit <-chan struct{}) {
	if !r.hungUp(quit) || r.cmd.Keep {
		return
	}
	select {
	case <-quit:
	case <-time.After(parting):
		r.stop(errHungUp)
	}
}

// hungUp reads what the host says until it hangs up, or until quit.
func (r *run) hungUp(quit <-chan struct{}) bool {
	if r.prompt == nil {
		return r.in.read(r.cmd.Guest, quit) == io.EOF
	}
	select {
	case <-r.in.over:
		return true
	case <-quit:
		return false
	}
}

// pump enters the guest for whatever comes, until the host hangs up.
func (r *run) pump() error {
	if err := r.g.enter(func() error { r.g.engine.limit(r.spec.Memory, r.spec.Stack); return nil }); err != nil {
		return err
	}
	there := func() bool { return r.in.any() || r.halting.Load() }
	for {
		if !there() {
			r.listen(there)
		}
		line, ok, end := r.in.take()
		switch {
		case r.halting.Load():
			return r.stopped()
		case ok:
			if err := r.enter(line); err != nil {
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

// enter makes one entry: it delivers a line and has the guest do what that leads to. It first waits until the host has
// read enough of what the guest wrote, then for a turn.
func (r *run) enter(line string) error {
	for r.out.waiting() > outboxFull {
		select {
		case <-r.out.less:
		case <-r.halted:
			return r.stopped()
		}
	}
	if r.prompt != nil {
		defer r.out.flush(r.prompt)
	}
	r.begin()
	defer r.finish()
	return r.g.enter(func() error {
		if r.halting.Load() { // the watchdog may have looked before there was anything to take away
			return errDead
		}
		if err := r.g.engine.deliver(line); err != nil {
			return err
		}
		return r.g.engine.work()
	})
}

// begin takes a turn and a thread, and starts the clock of an entry or the rest of one.
func (r *run) begin() {
	r.d.turns.take(false, r.halted)
	runtime.LockOSThread()
	r.entry = r.d.relief.begin()
	r.turned = time.Now()
	r.yielded = r.turned
	clock := threadClock()
	base := clock.read()
	r.mu.Lock()
	r.clock, r.base, r.ticking, r.turn = clock, base, true, true
	left := r.spec.CPU - r.used
	halted := r.cause != nil
	r.mu.Unlock()
	// A watch that is running goes off early enough: no more CPU time passes than time.
	if !halted && r.armed.CompareAndSwap(false, true) {
		r.watch.Reset(r.look(left))
	}
}

// look is when the watchdog looks at an entry that has so much CPU time left.
func (r *run) look(left time.Duration) time.Duration {
	if r.lang.polls {
		return left
	}
	return min(left, quantum) // to give its turn away, which it can't do itself
}

// finish adds the CPU time since begin to what was used, and gives back what begin took.
func (r *run) finish() {
	r.mu.Lock()
	r.used += r.clock.read() - r.base
	r.ticking = false
	turn := r.turn
	r.turn = false
	r.mu.Unlock()
	runtime.UnlockOSThread()
	r.d.relief.end(r.entry)
	if turn {
		r.d.turns.give()
	}
}

// watchdog stops the guest when its CPU time is over, and takes its memory away when it doesn't heed that.
func (r *run) watchdog() {
	r.looking.Lock()
	defer r.looking.Unlock()
	if r.over {
		return
	}
	if r.halting.Load() {
		// Where that fails, the interrupt is all that is left: it is asked by everything but a few builtins.
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
		r.d.turns.give()
	}
	switch {
	case left <= 0:
		r.stop(r.limit("cpu", "the program used its CPU time of %v: do less work, or in smaller programs", r.spec.CPU))
	case ticking:
		r.watch.Reset(left)
		if r.prompt != nil {
			r.out.nudge()
		}
	default:
		r.armed.Store(false)
		// An entry may have begun in between, seen the watch armed and left it.
		r.mu.Lock()
		again := r.ticking
		r.mu.Unlock()
		if again && r.armed.CompareAndSwap(false, true) {
			r.watch.Reset(r.look(left))
		}
	}
}

// flush gives the host a moment to read what the guest wrote, and as long as it likes where the guest lives on.
func (r *run) flush() {
	var moment <-chan time.Time
	halted := r.halted
	if !r.cmd.Keep {
		moment = time.After(lastWords)
	}
	for r.out.waiting() > 0 {
		select {
		case <-r.out.less:
		case <-moment:
			return
		case <-halted:
			if halted = nil; moment == nil {
				moment = time.After(lastWords)
			}
		}
	}
}

func (r *run) limit(name, format string, a ...any) error {
	return &sandbox.LimitError{Limit: name, Msg: fmt.Sprintf(format, a...)}
}

// explain makes the error of a run out of how its last entry ended.
func (r *run) explain(err error) error {
	switch cause := r.stopped(); cause {
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
		return r.limit("memory", "the program reached its memory limit of %s: hold less at a time", size(r.spec.Memory))
	case errors.Is(err, errStack), e != nil && strings.Contains(e.text, "Maximum call stack size exceeded"):
		return r.limit("stack", "the program reached its stack limit of %s: recurse less deeply", size(r.spec.Stack))
	case e != nil:
		return &tool.Error{Kind: tool.Internal, Msg: "the guest's runtime failed: " + e.text, Err: err}
	}
	return err
}

// size writes a number of bytes for people.
func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

// The methods below are the host of the guest: they run inside its entries.

// interrupted reports whether the guest is to stop. A guest that had its quantum steps back here while others wait:
// nothing but time passes for it.
func (r *run) interrupted() bool {
	if r.halting.Load() {
		return true
	}
	now := time.Now()
	if now.Sub(r.turned) > quantum {
		if r.d.turns.wanted() {
			r.d.turns.give()
			r.d.turns.take(true, r.halted)
			now = time.Now()
		}
		r.turned, r.yielded = now, now
	}
	if now.Sub(r.yielded) > courtesy {
		r.out.nudge()
		if !r.d.relief.given() { // otherwise there is a processor for them
			runtime.Gosched()
		}
		r.yielded = time.Now()
	}
	return r.halting.Load()
}

func (r *run) write(n int, text func() string) {
	r.spend(n)
	// What an entry says goes at its end, unless it takes long.
	r.out.put(text(), r.prompt != nil && time.Since(r.turned) < courtesy)
}

// spend counts what the guest says to the host.
func (r *run) spend(n int) {
	if r.left -= int64(n); r.left < 0 {
		err := r.limit("output", "the program wrote more than %s in all (value, console, arguments of calls, contents of files): write less, or in several programs", size(r.spec.Output))
		r.stop(err)
		panic(abort{err})
	}
}

// ask asks the host. Meanwhile the guest's clock stands and its turn is others'.
func (r *run) ask(n int, text func() string) (string, bool) {
	r.spend(n)
	if r.cmd.Ask == nil {
		return "", false
	}
	question := []byte(text())
	r.finish()
	if r.prompt != nil {
		r.out.flush(r.prompt)
	}
	answer := r.answer(question)
	r.begin()
	if r.halting.Load() {
		panic(abort{errDead}) // nothing of it matters any more
	}
	return string(answer), true
}

// answer is Cmd.Ask. A panic of it leaves the entry as begin would find it.
func (r *run) answer(question []byte) []byte {
	asked := false
	defer func() {
		if !asked {
			r.begin() // finish comes on the panic's way out
		}
	}()
	b := r.cmd.Ask(r.ctx, question)
	asked = true
	return b
}
