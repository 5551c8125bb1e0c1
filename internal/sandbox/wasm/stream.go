package wasm

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// An inbox reads the lines of the host as they come, so that the host is not held up while the guest runs. It holds at
// most inboxFull bytes and a line; then it reads no more until the guest has caught up.
type inbox struct {
	max   int           // longest line, in bytes
	more  chan struct{} // has a token when something is new
	space chan struct{} // has a token when something was taken

	mu    sync.Mutex
	lines []string
	size  int
	end   error // why no more lines come: io.EOF, errLine or what reading gave
}

// inboxFull is how many bytes wait for the guest before the host does: what the host holds for a guest counts towards
// no limit of the guest's.
const inboxFull = 16 << 20

var errLine = errors.New("a line of the host is longer than the sandbox has memory")

func newInbox(max int) *inbox {
	return &inbox{max: max, more: make(chan struct{}, 1), space: make(chan struct{}, 1)}
}

// read reads until r or quit ends, and says how r did.
func (i *inbox) read(r io.Reader, quit <-chan struct{}) error {
	b := bufio.NewReaderSize(r, 8<<10)
	for {
		line, err := readLine(b, i.max)
		i.mu.Lock()
		if err != nil {
			i.end = err
		} else {
			i.lines, i.size = append(i.lines, line), i.size+len(line)
		}
		full := i.size > inboxFull
		i.mu.Unlock()
		signal(i.more)
		for full && err == nil {
			select {
			case <-i.space:
			case <-quit:
				return nil
			}
			i.mu.Lock()
			full = i.size > inboxFull
			i.mu.Unlock()
		}
		select {
		case <-quit:
			return nil
		default:
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line of at most max bytes, without its '\n'. A last line without one counts.
func readLine(b *bufio.Reader, max int) (string, error) {
	var long []byte
	for {
		part, err := b.ReadSlice('\n')
		if len(long)+len(part) > max {
			return "", errLine
		}
		switch {
		case err == nil && long == nil:
			return string(part[:len(part)-1]), nil
		case err == nil:
			return string(append(long, part[:len(part)-1]...)), nil
		case err == io.EOF && len(long)+len(part) > 0:
			return string(append(long, part...)), nil
		case err != bufio.ErrBufferFull:
			return "", err
		}
		long = append(long, part...)
	}
}

// take takes the next line, or says why there is none: nil means not yet.
func (i *inbox) take() (line string, ok bool, end error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.lines) == 0 {
		return "", false, i.end
	}
	line = i.lines[0]
	i.lines[0] = ""
	if i.lines = i.lines[1:]; len(i.lines) == 0 {
		i.lines = nil
	}
	i.size -= len(line)
	signal(i.space)
	return line, true, nil
}

// An outbox writes what the guest says while the guest goes on.
type outbox struct {
	more chan struct{} // has a token when something is new
	less chan struct{} // has a token when something was written

	drains bool // goes on when the other side has gone

	mu   sync.Mutex
	buf  []byte
	busy int  // bytes that are being written
	deaf bool // the other side has gone
}

// outboxFull is how many bytes may wait before the guest does, in bytes.
const outboxFull = 1 << 20

// newOutbox makes an outbox; one that drains drops what nobody reads any more.
func newOutbox(drains bool) *outbox {
	return &outbox{drains: drains, more: make(chan struct{}, 1), less: make(chan struct{}, 1)}
}

func (o *outbox) put(s string) {
	o.mu.Lock()
	if !o.deaf {
		o.buf = append(o.buf, s...)
	}
	o.mu.Unlock()
	signal(o.more)
}

// waiting is how many bytes are not written yet.
func (o *outbox) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.buf) + o.busy
}

// write writes until quit ends or w fails.
func (o *outbox) write(w io.Writer, quit <-chan struct{}) error {
	var b []byte
	for {
		select {
		case <-o.more:
		case <-quit:
			return nil
		}
		o.mu.Lock()
		b, o.buf = o.buf, b[:0]
		o.busy = len(b)
		o.mu.Unlock()
		if len(b) == 0 {
			continue
		}
		if _, err := w.Write(b); err != nil {
			if o.drains && gone(err) {
				o.drop()
			}
			return err
		}
		if cap(b) > outboxFull {
			b = nil
		}
		o.mu.Lock()
		o.busy = 0
		o.mu.Unlock()
		signal(o.less)
	}
}

// drop drops what there is and what comes.
func (o *outbox) drop() {
	o.mu.Lock()
	o.buf, o.busy, o.deaf = nil, 0, true
	o.mu.Unlock()
	signal(o.less)
}

// signal leaves a token in c, which has room for one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
