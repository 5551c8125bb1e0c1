package wasm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// An inbox reads the host's lines as they arrive, so that the host doesn't wait while the guest
// runs. It holds at most inboxFull bytes and one line. Then it stops reading until the guest has
// caught up.
type inbox struct {
	max   int           // longest line, in bytes
	more  chan struct{} // receives a token when something is new
	space chan struct{} // receives a token when something was taken

	mu    sync.Mutex
	lines []string
	size  int   // size of lines, in bytes
	end   error // why no more lines arrive: io.EOF, errLine or the read error

	part []byte        // partial line of a stream that pushes
	owed int           // consumed bytes not yet reported to the stream
	from creditor      // they are reported to it
	over chan struct{} // closed when the stream has ended
}

// inboxFull is how many bytes may wait for the guest before the host waits. These bytes don't count
// towards any limit of the guest.
const inboxFull = 16 << 20

var errLine = errors.New("a line of the host is longer than the sandbox has memory")

func newInbox(max int) *inbox {
	return &inbox{max: max, more: make(chan struct{}, 1), space: make(chan struct{}, 1), over: make(chan struct{})}
}

// read reads until r or quit ends, and returns the error of r.
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

// AcceptPush accepts pushed bytes, and returns how many of them it has room for.
func (i *inbox) AcceptPush(p []byte, end error) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(p)
	for i.end == nil && len(p) > 0 {
		k := bytes.IndexByte(p, '\n')
		if size := len(i.part) + k + 1; size > i.max || k < 0 && len(i.part)+len(p) > i.max {
			i.part, i.end = nil, errLine
			break
		}
		if k < 0 {
			i.part = append(i.part, p...) // it doesn't count: the guest can't consume it, so room would never be freed
			break
		}
		i.lines = append(i.lines, string(i.part)+string(p[:k]))
		i.size += len(i.part) + k
		if i.part, p = i.part[:0], p[k+1:]; cap(i.part) > 64<<10 {
			i.part = nil
		}
	}
	if end != nil && i.end == nil {
		if len(i.part) > 0 && end == io.EOF { // a last line without '\n' counts
			i.lines, i.size, i.part = append(i.lines, string(i.part)), i.size+len(i.part), nil
		}
		i.end = end
		close(i.over)
	}
	signal(i.more)
	if i.size > inboxFull {
		i.owed += n
		return 0
	}
	return n
}

// takeCredit returns the number of bytes to report to the stream now. The caller holds mu.
func (i *inbox) takeCredit() (owed int) {
	if i.size <= inboxFull {
		owed, i.owed = i.owed, 0
	}
	return owed
}

// readLine reads a line of at most max bytes, without its '\n'. A last line without '\n' counts.
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

// hasNext reports whether take would return a line or an error.
func (i *inbox) hasNext() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.lines) > 0 || i.end != nil
}

// take returns the next line, or the reason why there is none: nil means not yet.
func (i *inbox) take() (line string, ok bool, end error) {
	owed := 0
	defer func() {
		if owed > 0 {
			i.from.AddCredit(owed)
		}
	}()
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
	owed = i.takeCredit()
	signal(i.space)
	return line, true, nil
}

// A creditor is a stream that is notified of consumed bytes (see sandbox.Pusher).
type creditor interface{ AddCredit(n int) }

// An outbox writes the guest's output while the guest continues.
type outbox struct {
	more chan struct{} // receives a token when something is new
	less chan struct{} // receives a token when something was written

	drains bool // continue after the other side has closed the stream

	mu     sync.Mutex
	begin  func() // starts writing, when that first has to block; nil once done
	buf    []byte
	spare  []byte
	busy   int  // number of bytes being written
	unread bool // the other side has closed the stream
	ended  bool // the guest has sent Done or Fail
}

// outboxFull is how many bytes may be pending before the guest waits.
const outboxFull = 1 << 20

// newOutbox returns an outbox. With drains it discards output that is no longer read.
func newOutbox(drains bool) *outbox {
	return &outbox{drains: drains, more: make(chan struct{}, 1), less: make(chan struct{}, 1)}
}

// writeOutput accepts output of the guest. If later is set, the caller calls flush soon; otherwise
// it is written immediately.
func (o *outbox) writeOutput(s string, later bool) {
	o.mu.Lock()
	o.ended = o.ended || strings.HasPrefix(s, `{"done"`) || strings.HasPrefix(s, `{"fail"`)
	if !o.unread {
		o.buf = append(o.buf, s...)
	}
	later = later && len(o.buf) < flushAt
	o.mu.Unlock()
	if !later {
		o.wakeWriter()
	}
}

// endsRun reports whether the guest has sent its last message, which ends the run of a program.
func (o *outbox) endsRun() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ended
}

// wakeWriter starts or wakes the goroutine that writes and may block.
func (o *outbox) wakeWriter() {
	o.mu.Lock()
	begin := o.begin
	o.begin = nil
	o.mu.Unlock()
	if begin != nil {
		begin()
	}
	signal(o.more)
}

// writeEarly has the buffered output written before flush, because the entry is slow.
func (o *outbox) writeEarly() {
	if o.waiting() > 0 {
		o.wakeWriter()
	}
}

// flushAt is the amount of output that is always written immediately, in bytes.
const flushAt = 32 << 10

// flush writes the pending output to w on this goroutine, without blocking. The rest, and errors,
// are left to write. If last is set, the result of the run follows.
func (o *outbox) flush(w sandbox.NonblockingStream, last bool) {
	o.mu.Lock()
	if len(o.buf) == 0 || o.busy > 0 || o.unread {
		left := len(o.buf) > 0
		o.mu.Unlock()
		if left {
			o.wakeWriter()
		}
		return
	}
	b := o.buf
	o.buf, o.busy = o.spare[:0], len(b)
	o.mu.Unlock()
	n, err := w.WriteNow(b, last)
	o.mu.Lock()
	o.busy = 0
	if n < len(b) || err != nil {
		o.buf = append(b[n:], o.buf...)
	} else if o.spare = b; cap(b) > outboxFull {
		o.spare = nil
	}
	left := len(o.buf) > 0
	o.mu.Unlock()
	if left {
		o.wakeWriter()
	}
	signal(o.less)
}

// waiting returns how many bytes are not written yet.
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
		if o.busy > 0 { // flush is writing, and signals if something is left
			o.mu.Unlock()
			continue
		}
		b, o.buf = o.buf, b[:0]
		o.busy = len(b)
		o.mu.Unlock()
		if len(b) == 0 {
			continue
		}
		if _, err := w.Write(b); err != nil {
			if o.drains && sandbox.HungUp(err) {
				o.discard()
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

// discard discards pending and future output.
func (o *outbox) discard() {
	o.mu.Lock()
	o.buf, o.busy, o.unread = nil, 0, true
	o.mu.Unlock()
	signal(o.less)
}

// signal puts a token into c unless it holds one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
