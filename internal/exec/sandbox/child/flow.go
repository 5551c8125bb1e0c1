package child

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A flow is the data of one operation in both directions: received bytes that have not been
// consumed, and how many bytes may be sent. A window on each side bounds both, so that a slow
// reader delays only its own sandbox.
type flow struct {
	w       *writer
	box, op uint32
	more    chan struct{} // receives a token when bytes or their end arrive
	space   chan struct{} // receives a token when more may be sent
	over    chan struct{} // closed when the operation has ended: nothing more is sent
	once    sync.Once

	mu       sync.Mutex
	buf      []byte
	spare    []byte
	open     int  // bytes that the other side may still send
	consumed int  // bytes consumed since the last credit
	wakeAt   int  // bytes that must be buffered before more is signaled; fewer at the end
	ended    bool // no more bytes will arrive
	credit   int  // bytes that may be sent
	unread   bool // the other side no longer reads

	// consumes incoming bytes instead of flow.take; called by the goroutine that reads the socket
	sink sandbox.Sink
}

func newFlow(w *writer, box, op uint32) *flow {
	return &flow{w: w, box: box, op: op, open: window, credit: window,
		more: make(chan struct{}, 1), space: make(chan struct{}, 1), over: make(chan struct{})}
}

// addBytes adds received bytes.
func (f *flow) addBytes(b []byte) error {
	f.mu.Lock()
	switch {
	case len(b) > f.open:
		f.mu.Unlock()
		return protocolErrorf("more data than it may send")
	case f.ended:
		f.mu.Unlock()
		return protocolErrorf("data after its end")
	}
	f.open -= len(b)
	credit := 0
	if f.sink != nil {
		credit = f.countBytes(f.sink.AcceptPush(b, nil))
	} else {
		f.buf = append(f.buf, b...)
		if len(f.buf) >= f.wakeAt {
			signal(f.more)
		}
	}
	f.mu.Unlock()
	return f.sendCredit(credit)
}

// expect announces that n bytes will arrive. The reader is not woken before all of them, or half a
// window, have arrived.
func (f *flow) expect(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := int(min(n, window))
	f.buf = slices.Grow(f.buf, max(most-len(f.buf), 0))
	if f.wakeAt = most; n > window {
		f.wakeAt = window / 2
	}
	f.wakeAt = min(f.wakeAt, len(f.buf)+f.open) // it can't send more without credit
	if len(f.buf) >= f.wakeAt {
		signal(f.more)
	}
}

// gather returns the n expected bytes as one slice. It fails when ctx is done.
func (f *flow) gather(ctx context.Context, n uint64) (all []byte, err error) {
	for uint64(len(all)) < n {
		select {
		case <-f.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		f.mu.Lock()
		b := f.buf
		f.buf = nil
		f.mu.Unlock()
		if all == nil {
			all = b
		} else {
			all = append(all, b...)
		}
		if uint64(len(all)) >= n {
			break // the other side needs no more credit
		}
		f.expect(n - uint64(len(all)))
		if err := f.returnCredit(len(b)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Push passes the buffered bytes, and all later ones, to sink, on the goroutine that reads the
// socket: this saves waking another goroutine. It holds mu during the call, so that the bytes stay
// in order.
func (f *flow) Push(sink sandbox.Sink) {
	f.mu.Lock()
	f.sink = sink
	credit := 0
	if len(f.buf) > 0 {
		credit = f.countBytes(sink.AcceptPush(f.buf, nil))
		f.buf, f.spare = nil, nil
	}
	if f.ended {
		sink.AcceptPush(nil, io.EOF)
	}
	f.mu.Unlock()
	_ = f.sendCredit(credit) // if this fails, the reader notices
}

// end marks the end of the received bytes.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.ended = true
	if f.sink != nil {
		f.sink.AcceptPush(nil, io.EOF)
	}
	signal(f.more)
}

// take returns all received bytes, valid until the next take, and whether the stream has ended.
func (f *flow) take() (b []byte, ended bool) {
	f.mu.Lock()
	b, f.buf = f.buf, f.spare[:0]
	if f.spare = b; cap(b) > window/2 {
		f.spare = nil
	}
	ended = f.ended
	f.mu.Unlock()
	return b, ended
}

// returnCredit allows the other side to send n more bytes. The credit is sent only once enough has
// accumulated.
func (f *flow) returnCredit(n int) error {
	f.mu.Lock()
	n = f.countBytes(n)
	f.mu.Unlock()
	return f.sendCredit(n)
}

// AddCredit is like returnCredit. If it fails, the reader of the socket notices.
func (f *flow) AddCredit(n int) { _ = f.returnCredit(n) }

// countBytes counts n consumed bytes, and returns the credit to send now. The caller holds mu.
func (f *flow) countBytes(n int) (credit int) {
	if f.consumed += n; f.consumed < window/4 {
		return 0
	}
	credit, f.consumed = f.consumed, 0
	f.open += credit
	return credit
}

// sendCredit sends credit to the other side.
func (f *flow) sendCredit(credit int) error {
	if credit == 0 {
		return nil
	}
	return f.w.send(kindCredit, f.box, f.op, binary.LittleEndian.AppendUint32(nil, uint32(credit)), nil)
}

// grant adds credit received from the other side.
func (f *flow) grant(payload []byte) error {
	if len(payload) != 4 {
		return protocolErrorf("credit of %d bytes", len(payload))
	}
	n := binary.LittleEndian.Uint32(payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > window || f.credit+int(n) > window {
		return protocolErrorf("more credit than was used")
	}
	f.credit += int(n)
	signal(f.space)
	return nil
}

// send sends b as data, as fast as the other side consumes it. It returns io.ErrClosedPipe if the
// operation has ended or the other side no longer reads.
func (f *flow) send(b []byte) error {
	err := f.queue(b)
	if e := f.w.push(); err == nil {
		err = e
	}
	return err
}

// queue is like send, but leaves the last parts queued: they are written together with other queued
// frames when those are pushed.
func (f *flow) queue(b []byte) error {
	for len(b) > 0 {
		f.mu.Lock()
		n := min(len(b), f.credit, partSize)
		f.credit -= n
		unread := f.unread
		f.mu.Unlock()
		if unread {
			return io.ErrClosedPipe
		}
		if n == 0 {
			if err := f.w.push(); err != nil {
				return err
			}
			select {
			case <-f.space:
				continue
			case <-f.over:
				return io.ErrClosedPipe
			}
		}
		select {
		case <-f.over:
			return io.ErrClosedPipe
		default:
		}
		if err := f.w.queue(kindData, f.box, f.op, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// WriteNow sends as much of b as possible without waiting, as far as the other side has given
// credit. If last is set, it leaves the bytes queued until the result of the operation is sent.
func (f *flow) WriteNow(b []byte, last bool) (n int, err error) {
	for len(b) > 0 {
		f.mu.Lock()
		part := min(len(b), f.credit, partSize)
		f.credit -= part
		unread := f.unread
		f.mu.Unlock()
		select {
		case <-f.over:
			unread = true
		default:
		}
		if unread {
			return n, io.ErrClosedPipe
		}
		if part == 0 {
			return n, nil
		}
		sent, err := f.w.sendNow(kindData, f.box, f.op, b[:part], last)
		if err != nil {
			return n, err
		}
		if !sent {
			f.mu.Lock()
			f.credit += part
			f.mu.Unlock()
			return n, nil
		}
		n += part
		b = b[part:]
	}
	return n, nil
}

// markUnread makes sends fail: the other side no longer reads.
func (f *flow) markUnread() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unread = true
	signal(f.space)
}

// finish ends the operation: pending and later sends fail.
func (f *flow) finish() { f.once.Do(func() { close(f.over) }) }

// signal puts a token into c unless it holds one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
