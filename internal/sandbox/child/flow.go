package child

import (
	"context"
	"encoding/binary"
	"io"
	"slices"
	"sync"
)

// A flow is the data of one operation in both directions: the bytes that came and nobody has taken, and how many may be
// sent. A window on each side bounds both, so that a reader who is slow holds up its own sandbox and no other.
type flow struct {
	w       *writer
	box, op uint32
	more    chan struct{} // has a token when bytes or their end came
	space   chan struct{} // has a token when more may be sent
	over    chan struct{} // closed when the operation is over: nothing is sent any more
	once    sync.Once

	mu     sync.Mutex
	buf    []byte
	spare  []byte
	open   int  // how many bytes the other side may still send
	taken  int  // bytes taken since the last credit
	want   int  // bytes that must have come before whoever takes them hears of it; less when they end
	ended  bool // no more will come
	credit int  // bytes that may be sent
	deaf   bool // the other side reads no more

	sink func(p []byte, end error) int // takes what comes, in place of take; called by whoever reads the socket
}

func newFlow(w *writer, box, op uint32) *flow {
	return &flow{w: w, box: box, op: op, open: window, credit: window,
		more: make(chan struct{}, 1), space: make(chan struct{}, 1), over: make(chan struct{})}
}

// put takes over bytes that came.
func (f *flow) put(b []byte) error {
	f.mu.Lock()
	switch {
	case len(b) > f.open:
		f.mu.Unlock()
		return breached("more data than it may send")
	case f.ended:
		f.mu.Unlock()
		return breached("data after its end")
	}
	f.open -= len(b)
	credit := 0
	if f.sink != nil {
		credit = f.due(f.sink(b, nil))
	} else {
		f.buf = append(f.buf, b...)
		if len(f.buf) >= f.want {
			signal(f.more)
		}
	}
	f.mu.Unlock()
	return f.tell(credit)
}

// expect says that n bytes are to come, of which nobody need hear before they are all there, or as many as fill half a window.
func (f *flow) expect(n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	most := int(min(n, window))
	f.buf = slices.Grow(f.buf, max(most-len(f.buf), 0))
	if f.want = most; n > window {
		f.want = window / 2
	}
	f.want = min(f.want, len(f.buf)+f.open) // it can't send more without credit
	if len(f.buf) >= f.want {
		signal(f.more)
	}
}

// gather gives the n bytes that were expected, in one piece. It ends with ctx.
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
			break // the other side needs no credit any more
		}
		f.expect(n - uint64(len(all)))
		if err := f.took(len(b)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// push has sink take what came and what comes. It holds mu while it does, so that all comes in its order.
func (f *flow) push(sink func(p []byte, end error) int) {
	f.mu.Lock()
	f.sink = sink
	credit := 0
	if len(f.buf) > 0 {
		credit = f.due(sink(f.buf, nil))
		f.buf, f.spare = nil, nil
	}
	if f.ended {
		sink(nil, io.EOF)
	}
	f.mu.Unlock()
	_ = f.tell(credit) // where it fails, the reader sees it
}

// end says that no more bytes come.
func (f *flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	f.ended = true
	if f.sink != nil {
		f.sink(nil, io.EOF)
	}
	signal(f.more)
}

// take gives all bytes that came, good until the next take, and whether that was the end.
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

// took lets the other side send n bytes more. It tells it so now and then.
func (f *flow) took(n int) error {
	f.mu.Lock()
	n = f.due(n)
	f.mu.Unlock()
	return f.tell(n)
}

// due counts n bytes taken, and gives the credit that the other side is to be told of now. The caller holds mu.
func (f *flow) due(n int) (credit int) {
	if f.taken += n; f.taken < window/4 {
		return 0
	}
	credit, f.taken = f.taken, 0
	f.open += credit
	return credit
}

// tell tells the other side of credit.
func (f *flow) tell(credit int) error {
	if credit == 0 {
		return nil
	}
	return f.w.send(kindCredit, f.box, f.op, binary.LittleEndian.AppendUint32(nil, uint32(credit)), nil)
}

// grant takes credit of the other side.
func (f *flow) grant(payload []byte) error {
	if len(payload) != 4 {
		return breached("credit of %d bytes", len(payload))
	}
	n := binary.LittleEndian.Uint32(payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	if n > window || f.credit+int(n) > window {
		return breached("more credit than was used")
	}
	f.credit += int(n)
	signal(f.space)
	return nil
}

// send sends b as data, as the other side takes it. It gives io.ErrClosedPipe when the operation is over or nobody reads.
func (f *flow) send(b []byte) error {
	err := f.queue(b)
	if e := f.w.push(); err == nil {
		err = e
	}
	return err
}

// queue is send, but for the last parts: they go in one write, with what else is queued, when that is pushed.
func (f *flow) queue(b []byte) error {
	for len(b) > 0 {
		f.mu.Lock()
		n := min(len(b), f.credit, partSize)
		f.credit -= n
		deaf := f.deaf
		f.mu.Unlock()
		if deaf {
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

// sendNow sends as much of b as it may without waiting, as data.
func (f *flow) sendNow(b []byte) (n int, err error) {
	for len(b) > 0 {
		f.mu.Lock()
		part := min(len(b), f.credit, partSize)
		f.credit -= part
		deaf := f.deaf
		f.mu.Unlock()
		select {
		case <-f.over:
			deaf = true
		default:
		}
		if deaf {
			return n, io.ErrClosedPipe
		}
		if part == 0 {
			return n, nil
		}
		sent, err := f.w.sendNow(kindData, f.box, f.op, b[:part])
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

// deafen makes sends fail: nobody reads.
func (f *flow) deafen() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = true
	signal(f.space)
}

// finish ends the operation: no send waits or begins any more.
func (f *flow) finish() { f.once.Do(func() { close(f.over) }) }

// signal leaves a token in c, which has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
