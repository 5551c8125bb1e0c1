package child

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// partialMost bounds the incomplete and unanswered questions of one process, in bytes.
	partialMost = 2 * maxAsk
	// fatMemory is how much memory a process without sandboxes may hold, in bytes, before it is
	// replaced.
	fatMemory = 512 << 20
	// weighEvery is how many sandboxes a process creates between two checks of its memory.
	weighEvery = 64
)

// A peer is a child process as the system sees it.
type peer interface {
	io.ReadWriteCloser
	kill()
	wait() string  // waits for its end and describes it
	memory() int64 // resident memory in bytes; 0 if unknown
}

// A process is the parent's view of a child. The code that handles frames from the child never
// blocks.
type process struct {
	d        *Driver
	ready    chan struct{} // closed when hello has arrived, or never will
	hello    hello         // valid after ready is closed
	w        *writer       // the same
	listener *listener     // the same
	owner    string        // guarded by the driver's mu

	mu      sync.Mutex
	peer    peer
	boxes   map[uint32]*Sandbox // by ID; 0 is not a sandbox but the process itself
	last    uint32              // ID of the latest sandbox
	users   int                 // number of callers about to create a sandbox
	since   time.Time           // when the process became idle
	timer   *time.Timer         // ends the process after Config.Idle
	retired bool                // accepts no new sandboxes
	reason  string              // why it was killed
	failed  error               // why all operations fail
	partial int                 // bytes counted by countPartial
	known   map[string]bool     // specs of sandboxes that were created successfully
}

func newProcess(d *Driver) *process {
	p := &process{d: d, ready: make(chan struct{}), boxes: map[uint32]*Sandbox{}, known: map[string]bool{}}
	p.boxes[0] = &Sandbox{p: p}
	return p
}

// run starts the process, serves it until it ends, and cleans up.
func (p *process) run() {
	peer, err := p.d.start.start()
	if err != nil {
		p.fail(&tool.Error{Kind: tool.Unavailable, Msg: "can't start the engine's process: " + err.Error(), Err: err})
		close(p.ready)
		return
	}
	p.mu.Lock()
	p.peer = peer
	p.w = newWriter(peer)
	p.w.now = writesNow(peer)
	if p.reason != "" {
		peer.kill()
	}
	p.mu.Unlock()
	late := time.AfterFunc(readyTime, func() { p.kill("did not get ready in time") })
	p.listener = newListener(peer, false, p.handleFrame)
	p.hello, err = parseHello(p.listener.in.next())
	late.Stop()
	if err == nil {
		if err = p.checkHello(); err != nil {
			p.fail(err)
		}
	}
	if err == nil {
		close(p.ready)
		err = p.listener.run()
	}
	peer.kill()
	how := peer.wait()
	p.fail(p.crashError(how, err))
	_ = peer.Close()
	p.w.wait()
	select {
	case <-p.ready:
	default:
		close(p.ready)
	}
}

// checkHello returns an error if a process that sent hello may not be used.
func (p *process) checkHello() error {
	if p.hello.Error != "" {
		return tool.Errorf(tool.Unavailable, "the engine's process can't serve: %s", p.hello.Error)
	}
	return p.d.checkProtections(p.hello.Protections)
}

// crashError returns the error for a process that has ended, and logs it if the end was unexpected.
func (p *process) crashError(how string, err error) error {
	p.mu.Lock()
	reason, failed := p.reason, p.failed
	p.mu.Unlock()
	if failed != nil {
		return failed
	}
	if reason == "" {
		reason = how
		if _, ok := err.(*protocolError); ok {
			reason = "was ended because it " + err.Error()
		}
		p.d.log.Warn("engine process ended", "reason", reason)
	}
	crash := &sandbox.CrashError{Reason: reason}
	return &tool.Error{Kind: tool.Unavailable, Err: crash,
		Msg: "the engine's process ended, and the programs in it are lost; others are not affected. Run the program " +
			"again if its calls can be repeated safely"}
}

// awaitReady waits until the process is ready.
func (p *process) awaitReady(ctx context.Context) error {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return fmt.Errorf("make a sandbox: %w", context.Cause(ctx))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// handleFrame handles a frame from the child.
func (p *process) handleFrame(f frame) error {
	p.mu.Lock()
	box, known := p.boxes[f.box], f.box <= p.last
	p.mu.Unlock()
	switch {
	case box != nil:
		return box.handleFrame(f)
	case !known:
		return protocolErrorf("a frame of a sandbox that was never made")
	}
	return nil
}

// kill kills the process. reason completes the phrase "the engine's process". It is empty if the
// process no longer accepts frames: then its exit status shows the reason.
func (p *process) kill(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" {
		p.reason = reason
	}
	p.retired = true
	if p.peer != nil {
		p.peer.kill()
	}
}

// fail ends all operations with err, or with the first error passed to fail.
func (p *process) fail(err error) {
	p.mu.Lock()
	if p.failed == nil {
		p.failed = err
	}
	err = p.failed
	boxes := p.boxes
	p.boxes = nil
	p.retired = true
	if p.timer != nil {
		p.timer.Stop()
	}
	w := p.w
	p.mu.Unlock()
	if w != nil {
		w.fail(err)
	}
	for _, b := range boxes {
		b.fail(err)
	}
}

// usable reports whether new sandboxes can be created in the process.
func (p *process) usable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.retired
}

func (p *process) countServed() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return int(p.last)
}

// acquire keeps the process from being idle until release.
func (p *process) acquire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.users++
	if p.timer != nil {
		p.timer.Stop()
	}
}

func (p *process) release() {
	p.mu.Lock()
	p.users--
	p.checkIdle()
	p.mu.Unlock()
}

// checkIdle starts the idle timer of an idle process, or kills the process if it is retired or
// holds too much memory. The caller holds mu.
func (p *process) checkIdle() {
	if p.users > 0 || len(p.boxes) > 1 || p.failed != nil || p.peer == nil {
		return
	}
	switch {
	case p.retired:
		if p.reason == "" {
			p.reason = "was replaced"
		}
		p.peer.kill()
		return
	case p.last%weighEvery == weighEvery-1 && p.peer.memory() > fatMemory:
		p.retired, p.reason = true, "was replaced: it held much memory"
		p.peer.kill()
		return
	}
	p.since = time.Now()
	signal(p.d.idled)
	if p.timer == nil {
		p.timer = time.AfterFunc(p.d.cfg.Idle, func() { p.d.idle(p) })
		return
	}
	p.timer.Reset(p.d.cfg.Idle)
}

// retire makes the process end with its last sandbox.
func (p *process) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.retired = true
	p.checkIdle()
}

// idleSince reports whether the process is usable and idle, and since when.
func (p *process) idleSince() (time.Time, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since, p.users == 0 && len(p.boxes) == 1 && !p.retired && !p.since.IsZero()
}

// addSandbox registers the parent's side of a new sandbox.
func (p *process) addSandbox() (*Sandbox, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return nil, p.failed
	}
	p.last++
	s := &Sandbox{p: p, id: p.last}
	p.boxes[s.id] = s
	return s, nil
}

// removeSandbox removes a sandbox that the child has closed.
func (p *process) removeSandbox(s *Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boxes[s.id] == s {
		delete(p.boxes, s.id)
		p.checkIdle()
	}
}

// countPartial adds n to the bytes of questions that are incomplete or unanswered, and fails if
// there are too many.
func (p *process) countPartial(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.partial += n; p.partial > partialMost {
		return protocolErrorf("questions of more than %d MiB", partialMost>>20)
	}
	return nil
}

// mostKnown bounds known.
const mostKnown = 16

// createSandbox returns a fresh sandbox. If one of the same spec was created before, it doesn't
// wait for the child, which receives the request with the first Run. If that fails, the Run returns
// the error.
func (p *process) createSandbox(ctx context.Context, spec []byte) (*Sandbox, error) {
	p.mu.Lock()
	known := p.known[string(spec)]
	p.mu.Unlock()
	if !known {
		s, err := p.makeSandbox(ctx, kindCreate, spec, nil)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err == nil && len(p.known) < mostKnown {
			p.known[string(spec)] = true
		}
		return s, err
	}
	s, err := p.addSandbox()
	if err != nil {
		return nil, err
	}
	s.pendingCreate = &operation{kind: kindCreate, flow: newFlow(p.w, s.id, 1)}
	s.last = 1
	if err := p.w.queue(kindCreate, s.id, 1, spec); err != nil {
		p.retire() // it has ended, or is about to, and reports why itself
		return nil, p.crashError("accepts no more requests", err)
	}
	return s, nil
}

// makeSandbox creates a sandbox by an operation that may send data along.
func (p *process) makeSandbox(ctx context.Context, k kind, payload, data []byte) (*Sandbox, error) {
	s, err := p.addSandbox()
	if err != nil {
		return nil, err
	}
	if _, err = s.performOperation(ctx, k, payload, data); err != nil {
		_ = s.Close() // the child may have created it anyway
		return nil, err
	}
	return s, nil
}

// probeDriver returns the inner driver's capabilities: those in the child's hello, or if it has
// none the reply to a kindProbe.
func (p *process) probeDriver(ctx context.Context) (caps sandbox.Capabilities, err error) {
	if said := p.hello.Capabilities; said != nil {
		caps = clone(*said)
		return caps, p.d.explain(&caps, p.hello.Protections)
	}
	r, err := p.asTarget().performOperation(ctx, kindProbe, nil, nil)
	if err != nil {
		return caps, err
	}
	if err := json.Unmarshal(r.rest, &caps); err != nil {
		p.kill("was ended because it reported invalid capabilities")
		return caps, tool.Errorf(tool.Unavailable, "the engine process sent invalid capabilities: %w", err)
	}
	return caps, p.d.explain(&caps, p.hello.Protections)
}

// asTarget returns the process itself as a target of operations.
func (p *process) asTarget() *Sandbox {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.boxes[0]; s != nil {
		return s
	}
	return &Sandbox{p: p, ended: p.failed}
}

func appendSize(b []byte, n int) []byte { return binary.LittleEndian.AppendUint64(b, uint64(n)) }
