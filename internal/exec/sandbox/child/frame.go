package child

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A kind is the type of a frame.
type kind uint8

// The kinds of frames. The first group goes from the parent to the child, the last from the child
// to the parent, and data and credit go both ways. Each frame belongs to one operation of one
// sandbox, except hello and probe.
const (
	kindProbe    kind = 1 + iota // request the driver's capabilities
	kindCreate                   // create a sandbox: a spec
	kindRestore                  // restore a sandbox: the snapshot's size, a spec; the snapshot follows as data
	kindRun                      // run a guest: a command; the guest stream follows as data
	kindEnd                      // the guest stream has ended
	kindUnread                   // the guest stream is no longer read
	kindCancel                   // stop the run
	kindAnswer                   // answer to a kindAsk: its number, whether more follows, bytes
	kindSnapshot                 // take a snapshot: returned as data, then a result
	kindFork                     // copy the sandbox: the copy's ID
	kindClose                    // destroy the sandbox

	kindData   // bytes of the guest stream or of a snapshot
	kindCredit // number of additional bytes that may be sent as data

	kindHello  // the first frame: the armed protections
	kindResult // result of an operation
	kindAsk    // a question from the guest: its number, whether more follows, bytes
	kinds      // number of kinds
)

const (
	// headerSize is the size of a frame's header, in bytes: payload length (4 bytes, little
	// endian), sandbox (4), operation (4), kind (1).
	headerSize = 13
	// maxPayload is the maximum payload of a frame, in bytes. Longer data is split, so that one
	// sender doesn't delay the others for long.
	maxPayload = 64 << 10
	// window is how many bytes of data one side may send per operation before the other has
	// consumed any. It bounds the memory that an unread stream can occupy in this process.
	window = 256 << 10
	// partSize is the maximum data in one frame, in bytes.
	partSize = 32 << 10
)

// wakes reports whether a frame of this kind usually wakes a waiting goroutine that will soon wait
// for the next frame.
func (k kind) wakes() bool {
	return k == kindRun || k == kindAnswer || k == kindData || k == kindResult
}

// A frame is one message between parent and child. Its payload is valid until the next frame is
// read.
type frame struct {
	kind    kind
	box     uint32 // the sandbox; 0 means none
	op      uint32 // the operation
	payload []byte
}

// A protocolError is an error that reports a violation of the protocol by the other side.
type protocolError struct{ what string }

// Error returns a message that describes the violation.
func (b *protocolError) Error() string { return "broke the protocol: " + b.what }

func protocolErrorf(format string, a ...any) error { return &protocolError{fmt.Sprintf(format, a...)} }

// A reader reads frames.
type reader struct {
	r    *bufio.Reader
	last int // size of the last frame read, in bytes
}

func newReader(r io.Reader) *reader {
	return &reader{r: bufio.NewReaderSize(r, 2*(headerSize+maxPayload))}
}

// next returns the next frame, or io.EOF if the stream ends between two frames.
func (r *reader) next() (frame, error) {
	_, _ = r.r.Discard(r.last) // already buffered
	r.last = 0
	h, err := r.r.Peek(headerSize)
	if err != nil {
		if err == io.EOF && len(h) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f := frame{box: binary.LittleEndian.Uint32(h[4:]), op: binary.LittleEndian.Uint32(h[8:]), kind: kind(h[12])}
	n := binary.LittleEndian.Uint32(h)
	switch {
	case n > maxPayload:
		return frame{}, protocolErrorf("a frame of %d bytes", n)
	case f.kind == 0 || f.kind >= kinds:
		return frame{}, protocolErrorf("a frame of kind %d", f.kind)
	}
	b, err := r.r.Peek(headerSize + int(n))
	if err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return frame{}, err
	}
	f.payload, r.last = b[headerSize:], len(b)
	return f, nil
}

// whole reports whether a complete unread frame is buffered.
func (r *reader) whole() bool {
	n := r.r.Buffered() - r.last
	if n < headerSize {
		return false
	}
	b, _ := r.r.Peek(r.last + headerSize) // already buffered
	return n-headerSize >= int(binary.LittleEndian.Uint32(b[r.last:]))
}

const (
	// pendingFull is how many bytes may be pending before senders of data must wait.
	pendingFull = 1 << 20
	// rounds is how often a sender writes others' frames before it hands the work to another
	// goroutine.
	rounds = 4
)

// A writer writes frames. A sender that finds the writer idle writes its own frame, and frames that
// other senders add meanwhile. So a single frame costs one system call and no goroutine switch, and
// many frames need few calls.
type writer struct {
	w     io.Writer
	now   func(p []byte) (int, error) // writes as much as fits without blocking; nil: flushNow may block
	extra sync.WaitGroup              // the goroutine that writes what senders left

	mu    sync.Mutex
	room  sync.Cond
	buf   []byte // pending bytes
	spare []byte
	busy  bool // a goroutine is writing
	err   error
}

func newWriter(w io.Writer) *writer {
	x := &writer{w: w}
	x.room.L = &x.mu
	return x
}

// send sends a frame whose payload is a and b, together at most maxPayload bytes. Frames are sent
// in the order of the calls.
func (w *writer) send(k kind, box, op uint32, a, b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.appendFrame(k, box, op, a, b); err != nil {
		return err
	}
	return w.flush()
}

// sendNow sends a frame unless that would have to wait for other frames, and reports whether it
// did. A frame without a payload is always sent. If later is set, the frame is sent with the next
// one, or by push.
func (w *writer) sendNow(k kind, box, op uint32, a []byte, later bool) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(a) > 0 && len(w.buf) > pendingFull && w.err == nil {
		return false, nil
	}
	if err := w.appendFrame(k, box, op, a, nil); err != nil {
		return false, err
	}
	if later {
		return true, nil
	}
	return true, w.flushNow()
}

// queue appends a frame that is sent with the next one, or by push.
func (w *writer) queue(k kind, box, op uint32, a []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.appendFrame(k, box, op, a, nil)
}

// appendFrame appends a frame to the pending bytes. The caller holds mu.
func (w *writer) appendFrame(k kind, box, op uint32, a, b []byte) error {
	// other frames are few and short, and some of their senders must not block
	if k == kindData || k == kindAsk || k == kindAnswer {
		for len(w.buf) > pendingFull && w.err == nil {
			if w.busy {
				w.room.Wait()
			} else {
				_ = w.flush() // everything pending was only queued
			}
		}
	}
	if w.err != nil {
		return w.err
	}
	w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(len(a)+len(b)))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, box)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, op)
	w.buf = append(w.buf, byte(k))
	w.buf = append(append(w.buf, a...), b...)
	return nil
}

// push sends the queued frames.
func (w *writer) push() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// flush writes the pending bytes unless another goroutine is writing. The caller holds mu, which is
// released during the write.
func (w *writer) flush() error {
	if !w.busy && len(w.buf) > 0 {
		w.busy = true
		w.write(rounds)
	}
	return w.err
}

// writesNow returns a function that writes to w without blocking. If w doesn't support that, the
// function writes nothing, and another goroutine does the write.
func writesNow(w io.Writer) func(p []byte) (int, error) {
	if x, ok := w.(interface{ writeNow([]byte) (int, error) }); ok {
		return x.writeNow
	}
	return func([]byte) (int, error) { return 0, nil }
}

// flushNow is flush for callers that must not block, if now is set. The caller holds mu, and it is
// held during the write too: after fail no write is in progress, and the connection can be closed.
func (w *writer) flushNow() error {
	if w.now == nil {
		return w.flush()
	}
	if w.busy || len(w.buf) == 0 || w.err != nil {
		return w.err
	}
	n, err := w.now(w.buf)
	w.buf, w.err = w.buf[:copy(w.buf, w.buf[n:])], err
	if len(w.buf) > 0 && err == nil {
		w.busy = true
		w.extra.Go(w.writeAll)
	}
	return err
}

// writeAll writes until nothing is pending.
func (w *writer) writeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(-1)
}

// write writes the pending bytes, in at most n writes; then a new goroutine continues. The caller
// holds mu, which is released during each write.
func (w *writer) write(n int) {
	for ; len(w.buf) > 0 && w.err == nil; n-- {
		if n == 0 {
			w.extra.Go(w.writeAll)
			return
		}
		b := w.buf
		w.buf = w.spare[:0]
		w.mu.Unlock()
		_, err := w.w.Write(b)
		w.mu.Lock()
		if w.spare = b; cap(b) > pendingFull {
			w.spare = nil
		}
		w.err = err
		w.room.Broadcast()
	}
	w.busy = false
}

// fail makes all sends fail, including waiting ones.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.room.Broadcast()
}

// wait waits for the goroutine that may still be writing. The other side must be closed, or keep
// reading.
func (w *writer) wait() { w.extra.Wait() }
