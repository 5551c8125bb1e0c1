package child

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
)

// A kind says what a frame is.
type kind uint8

// The kinds of frames. Those of the upper group go from the parent to the child, those of the lower one back, data and
// credit both ways. Each belongs to one operation of one sandbox, but for hello and probe, which belong to none.
const (
	kindProbe    kind = 1 + iota // say what the driver can do
	kindCreate                   // make a sandbox: a spec
	kindRestore                  // make a sandbox: the snapshot's size, a spec; the snapshot follows as data
	kindRun                      // run: a cmd; the guest stream follows as data
	kindEnd                      // the guest stream has ended
	kindDeaf                     // nobody reads the guest stream any more
	kindCancel                   // stop the run
	kindAnswer                   // of an ask: its number, whether more follows, bytes
	kindSnapshot                 // give the guest as bytes: as data, then a result
	kindFork                     // copy the sandbox: the copy's id
	kindClose                    // destroy the sandbox

	kindData   // bytes of the guest stream or of a snapshot
	kindCredit // so many more bytes may be sent as data

	kindHello  // the first frame: what is armed
	kindResult // of an operation
	kindAsk    // a question of the guest: its number, whether more follows, bytes
	kinds      // how many there are
)

const (
	// headerSize is the size of a frame without its payload: length (4 bytes, little endian, of the payload), sandbox (4),
	// operation (4), kind (1).
	headerSize = 13
	// maxPayload bounds the payload of a frame, in bytes. What is longer goes in parts, so that it holds up nobody long.
	maxPayload = 64 << 10
	// window is how many bytes of data one side may send before the other has taken any, for each operation: what a
	// sandbox whose stream nobody reads can keep in this process's memory.
	window = 256 << 10
	// partSize is how much of a long data goes in one frame.
	partSize = 32 << 10
)

// wakes reports whether somebody who waits for the other side goes on when a frame of the kind comes, and will soon wait for
// the next one.
func (k kind) wakes() bool {
	return k == kindRun || k == kindAnswer || k == kindData || k == kindResult
}

// A frame is one message between parent and child. Its payload is good until the next one is read.
type frame struct {
	kind    kind
	box     uint32 // the sandbox; 0 is none
	op      uint32 // the operation
	payload []byte
}

// A breach says that the other side broke the protocol.
type breach struct{ what string }

// Error says what it did.
func (b *breach) Error() string { return "broke the protocol: " + b.what }

func breached(format string, a ...any) error { return &breach{fmt.Sprintf(format, a...)} }

// A reader reads frames.
type reader struct {
	r    *bufio.Reader
	last int // bytes of the frame read last
}

func newReader(r io.Reader) *reader {
	return &reader{r: bufio.NewReaderSize(r, 2*(headerSize+maxPayload))}
}

// next gives the next frame, or io.EOF between two.
func (r *reader) next() (frame, error) {
	_, _ = r.r.Discard(r.last) // it is in the buffer
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
		return frame{}, breached("a frame of %d bytes", n)
	case f.kind == 0 || f.kind >= kinds:
		return frame{}, breached("a frame of kind %d", f.kind)
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

// whole reports whether a frame has come whole that next has not given.
func (r *reader) whole() bool {
	n := r.r.Buffered() - r.last
	if n < headerSize {
		return false
	}
	b, _ := r.r.Peek(r.last + headerSize) // it is in the buffer
	return n-headerSize >= int(binary.LittleEndian.Uint32(b[r.last:]))
}

const (
	// pendingFull is how many bytes may wait to be written before those who send data wait too.
	pendingFull = 1 << 20
	// rounds is how often a sender writes what others have sent meanwhile before somebody else must.
	rounds = 4
)

// A writer writes frames. Whoever sends while nobody writes does the writing, for itself and for those who send
// meanwhile: so a single frame costs one system call and no change of goroutine, and many at once few calls.
type writer struct {
	w     io.Writer
	now   func(p []byte) (int, error) // writes as much as there is room for; nil: who may not wait for others may wait for the other side
	extra sync.WaitGroup              // a goroutine that writes what senders have left

	mu    sync.Mutex
	room  sync.Cond
	buf   []byte // to be written
	spare []byte
	busy  bool // somebody writes
	err   error
}

func newWriter(w io.Writer) *writer {
	x := &writer{w: w}
	x.room.L = &x.mu
	return x
}

// send sends a frame whose payload is a and b, together at most maxPayload bytes. Frames are sent in the order of the calls.
func (w *writer) send(k kind, box, op uint32, a, b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.put(k, box, op, a, b); err != nil {
		return err
	}
	return w.flush()
}

// sendNow sends a frame unless its sender would have to wait for others' frames, and says whether it did. A frame without a
// payload is always sent.
func (w *writer) sendNow(k kind, box, op uint32, a []byte) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(a) > 0 && len(w.buf) > pendingFull && w.err == nil {
		return false, nil
	}
	if err := w.put(k, box, op, a, nil); err != nil {
		return false, err
	}
	return true, w.flushNow()
}

// queue leaves a frame to go with the next that is sent, or by push.
func (w *writer) queue(k kind, box, op uint32, a []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.put(k, box, op, a, nil)
}

// put appends a frame to what is to be written. The caller holds mu.
func (w *writer) put(k kind, box, op uint32, a, b []byte) error {
	if k == kindData || k == kindAsk || k == kindAnswer { // the others are few and short, and some of their senders may not wait
		for len(w.buf) > pendingFull && w.err == nil {
			if w.busy {
				w.room.Wait()
			} else {
				_ = w.flush() // all of it was queued
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

// push sends what is queued.
func (w *writer) push() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

// flush writes what there is, unless somebody does. The caller holds mu, which is not held while it writes.
func (w *writer) flush() error {
	if !w.busy && len(w.buf) > 0 {
		w.busy = true
		w.write(rounds)
	}
	return w.err
}

// writesNow gives how w is written to without waiting: where it can't be, not at all, and somebody else waits.
func writesNow(w io.Writer) func(p []byte) (int, error) {
	if x, ok := w.(interface{ writeNow([]byte) (int, error) }); ok {
		return x.writeNow
	}
	return func([]byte) (int, error) { return 0, nil }
}

// flushNow is flush for who may not wait, as long as there is now. The caller holds mu, also while it writes: so fail is the end
// of that, and the connection can be closed then.
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

// writeAll writes until there is nothing left.
func (w *writer) writeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(-1)
}

// write writes what there is, n times at most: then a goroutine goes on. It holds mu except while it writes.
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

// fail makes all sends fail, those that wait too.
func (w *writer) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.room.Broadcast()
}

// wait waits for the goroutine that may still write. The other side must be closed, or read.
func (w *writer) wait() { w.extra.Wait() }
