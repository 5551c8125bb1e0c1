package child

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/resident"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// mostBoxes bounds the sandboxes that a child holds.
const mostBoxes = 1 << 16

// A server is the child's side: it carries out the parent's requests on a driver. One goroutine
// reads, and each operation has its own.
type server struct {
	driver   sandbox.Driver
	w        *writer
	listener *listener
	work     sync.WaitGroup
	ctx      context.Context        // done when the parent has disconnected
	idle     *resident.IdleNotifier // notes each frame; may be nil

	mu    sync.Mutex
	boxes map[uint32]*box
	last  uint32 // the largest sandbox ID so far
}

// A box is the child's side of a sandbox.
type box struct {
	s  *server
	id uint32

	mu      sync.Mutex
	sandbox sandbox.Sandbox // nil until it is created
	last    uint32          // number of the latest operation
	task    *task           // the running operation, or nil
	closed  bool
}

// A task is a running operation.
type task struct {
	kind kind
	*flow
	ctx      context.Context
	cancel   context.CancelFunc
	ended    chan struct{} // closed when the operation ends
	answers  chan []byte   // receives the complete answer to a question
	listener *listener

	mu     sync.Mutex
	count  uint32 // number of questions so far
	asking bool   // the latest question has no answer yet
	answer []byte // partially received answer
}

// serve carries out the requests of the parent at the other end of conn, with sandboxes of d. It
// returns when conn ends, or when the parent breaks the protocol, which is the error then. It
// closes all sandboxes before it returns. If gone is not nil, it is called when nothing more can be
// read.
func serve(conn io.Reader, w *writer, d sandbox.Driver, idle *resident.IdleNotifier, gone func()) error {
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{driver: d, w: w, ctx: ctx, idle: idle, boxes: map[uint32]*box{0: {}}}
	s.boxes[0].s = s
	s.listener = newListener(conn, true, s.handleFrame)
	err := s.listener.run()
	if _, ok := err.(*protocolError); !ok && gone != nil {
		gone()
	}
	cancel()
	w.fail(io.ErrClosedPipe)
	s.mu.Lock()
	boxes := slices.Collect(maps.Values(s.boxes))
	s.mu.Unlock()
	for _, b := range boxes {
		b.abandon()
	}
	s.work.Wait()
	w.wait()
	if err == io.EOF {
		return nil
	}
	return err
}

// abandon ends the running operation and the sandbox after the parent has disconnected.
func (b *box) abandon() {
	b.mu.Lock()
	t := b.task
	b.mu.Unlock()
	if t != nil {
		t.cancel()
		t.finish()
		<-t.ended
	}
	b.mu.Lock()
	made := b.sandbox
	b.closed = true
	b.mu.Unlock()
	if made != nil {
		_ = made.Close() // no one is left to receive the error
	}
}

// handleFrame handles a frame from the parent.
func (s *server) handleFrame(f frame) error {
	s.idle.NoteActivity()
	s.mu.Lock()
	b := s.boxes[f.box]
	made := f.box <= s.last
	if f.kind == kindCreate || f.kind == kindRestore {
		var err error
		if b, err = s.add(f.box); err != nil {
			s.mu.Unlock()
			return err
		}
	}
	s.mu.Unlock()
	switch {
	case b == nil && made:
		return nil // it was closed before this frame was read
	case b == nil:
		return protocolErrorf("a frame of a sandbox that was never made")
	}
	switch f.kind {
	case kindProbe, kindCreate, kindRestore, kindRun, kindSnapshot, kindFork, kindClose:
		return b.begin(f)
	}
	return b.handleFrame(f)
}

// begin starts an operation.
func (b *box) begin(f frame) error {
	do, err := b.prepare(f)
	if err != nil {
		return err
	}
	b.mu.Lock()
	running := b.task
	switch {
	case b.closed: // it was closed while this frame was on its way, and the parent knows
		b.mu.Unlock()
		return nil
	case f.op <= b.last:
		err = protocolErrorf("operation %d after %d", f.op, b.last)
	case running != nil && running.kind != kindCreate && f.kind != kindClose:
		err = protocolErrorf("an operation of kind %d while another one is under way", f.kind)
	case (f.kind == kindProbe) != (b.id == 0):
		err = protocolErrorf("an operation of kind %d on sandbox %d", f.kind, b.id)
	}
	if err != nil {
		b.mu.Unlock()
		return err
	}
	b.last = f.op
	t := &task{kind: f.kind, flow: newFlow(b.s.w, b.id, f.op), ended: make(chan struct{}),
		answers: make(chan []byte, 1), listener: b.s.listener}
	t.ctx, t.cancel = context.WithCancel(b.s.ctx)
	if f.kind == kindRestore {
		t.expect(binary.LittleEndian.Uint64(f.payload)) // prepare checked the length
	}
	if f.kind == kindClose {
		b.closed = true
	} else {
		b.task = t
	}
	b.mu.Unlock()
	b.s.listener.beginTask(f.kind)
	b.s.work.Go(func() {
		defer b.s.listener.endTask(t.kind)
		if running != nil && running.kind == kindCreate {
			<-running.ended // the parent did not wait for it
		}
		r := do(t)
		t.cancel()
		t.finish()
		b.endTask(t, r)
	})
	return nil
}

// endTask ends an operation and sends its result. The result of a create goes with the next frame
// if another operation follows already: that one sends a frame soon, and the parent doesn't wait.
func (b *box) endTask(t *task, r result) {
	b.mu.Lock()
	if b.task == t {
		b.task = nil
	}
	followed := b.last != t.op
	b.mu.Unlock()
	// If sending fails, the reader notices.
	if t.kind == kindCreate && r.err == nil && followed {
		_ = b.s.w.queue(kindResult, b.id, t.op, r.append(nil))
		close(t.ended)
		return
	}
	close(t.ended)
	_ = b.s.w.send(kindResult, b.id, t.op, r.append(nil), nil)
}

// prepare parses the request in a frame and returns the function that carries it out.
func (b *box) prepare(f frame) (func(*task) result, error) {
	switch f.kind {
	case kindCreate:
		spec, err := parseSpec(f.payload)
		return func(t *task) result { return b.storeSandbox(b.s.driver.Create(t.ctx, spec)) }, err
	case kindRestore:
		if len(f.payload) < 8 {
			return nil, protocolErrorf("a restore of %d bytes", len(f.payload))
		}
		size := binary.LittleEndian.Uint64(f.payload)
		spec, err := parseSpec(f.payload[8:])
		return func(t *task) result { return b.restore(t, spec, size) }, err
	case kindRun:
		c, err := parseCommand(f.payload)
		return func(t *task) result { return b.run(t, c) }, err
	case kindFork:
		if len(f.payload) != 4 {
			return nil, protocolErrorf("a fork of %d bytes", len(f.payload))
		}
		copied, err := b.s.reserve(binary.LittleEndian.Uint32(f.payload))
		return func(t *task) result { return b.fork(t, copied) }, err
	case kindSnapshot:
		return b.snapshot, nil
	case kindClose:
		return b.close, nil
	}
	return b.s.probe, nil
}

// handleFrame handles a frame of a running operation.
func (b *box) handleFrame(f frame) error {
	b.mu.Lock()
	t, last := b.task, b.last
	b.mu.Unlock()
	if f.op > last {
		return protocolErrorf("a frame of an operation that was never begun")
	}
	if t == nil || t.op != f.op {
		return nil // the operation ended before this frame was read
	}
	switch f.kind {
	case kindCredit:
		return t.grant(f.payload)
	case kindData:
		if t.kind == kindRun || t.kind == kindRestore {
			return t.addBytes(f.payload)
		}
	case kindEnd:
		t.end()
		return nil
	case kindUnread:
		t.markUnread()
		return nil
	case kindCancel:
		t.cancel() // output sent by the guest before can still be delivered
		return nil
	case kindAnswer:
		return t.handleAnswer(f.payload)
	}
	return protocolErrorf("a frame of kind %d in an operation of kind %d", f.kind, t.kind)
}

// storeSandbox stores a sandbox that a driver created. If the box was closed meanwhile, it closes
// the sandbox.
func (b *box) storeSandbox(made sandbox.Sandbox, err error) result {
	if err != nil {
		return result{err: err}
	}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.sandbox = made
	}
	b.mu.Unlock()
	if closed {
		return result{err: made.Close()}
	}
	return result{}
}

// inner returns the sandbox, or an error if there is none.
func (b *box) inner() (sandbox.Sandbox, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sandbox == nil {
		return nil, tool.Errorf(tool.Conflict, "the sandbox was not made")
	}
	return b.sandbox, nil
}

func (b *box) restore(t *task, spec sandbox.Spec, size uint64) result {
	r, ok := b.s.driver.(sandbox.Restorer)
	if !ok {
		return result{err: tool.Errorf(tool.Unavailable, "sandboxes of this kind can't be restored")}
	}
	all, err := t.gather(t.ctx, size)
	if err != nil {
		return result{err: err}
	}
	return b.storeSandbox(r.Restore(t.ctx, spec, all))
}

func (b *box) snapshot(t *task) result {
	made, err := b.inner()
	if err != nil {
		return result{err: err}
	}
	k, ok := made.(sandbox.Snapshotter)
	if !ok {
		return result{err: tool.Errorf(tool.Unavailable, "sandboxes of this kind can't be kept")}
	}
	all, err := k.Snapshot(t.ctx)
	if err == nil {
		err = t.send(all)
	}
	return result{err: err}
}

// reserve reserves the ID of a sandbox before it is created.
func (s *server) reserve(id uint32) (*box, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(id)
}

// add registers a box. IDs may arrive out of order. The caller holds mu.
func (s *server) add(id uint32) (*box, error) {
	if s.boxes[id] != nil || len(s.boxes) > mostBoxes {
		return nil, protocolErrorf("a sandbox of number %d", id)
	}
	b := &box{s: s, id: id}
	s.boxes[id], s.last = b, max(s.last, id)
	return b, nil
}

func (b *box) fork(t *task, copied *box) result {
	made, err := b.inner()
	if err != nil {
		return result{err: err}
	}
	f, ok := made.(sandbox.Forker)
	if !ok {
		return result{err: tool.Errorf(tool.Unavailable, "sandboxes of this kind can't be copied")}
	}
	return copied.storeSandbox(f.Fork(t.ctx))
}

// close destroys the sandbox and stops its running operation.
func (b *box) close(*task) result {
	b.mu.Lock()
	made, t := b.sandbox, b.task
	b.mu.Unlock()
	if t != nil && t.kind != kindRun { // the sandbox stops a Run itself, and reports that
		t.cancel()
		t.finish()
		<-t.ended
	}
	b.s.mu.Lock()
	delete(b.s.boxes, b.id)
	b.s.mu.Unlock()
	if made == nil {
		return result{} // or it is closed as soon as it is created
	}
	return result{err: made.Close()}
}

// probe returns the driver's capabilities.
func (s *server) probe(t *task) result {
	caps, err := s.driver.Probe(t.ctx)
	if err != nil {
		return result{err: tool.Errorf(tool.Unavailable, "%w", err)}
	}
	b, err := json.Marshal(caps)
	return result{rest: b, err: err}
}
