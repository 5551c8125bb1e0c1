package process

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	maxOutputLine = 16 << 10 // bytes of a console line
	maxTail       = 8 << 10  // bytes of output that are kept to explain a crash
)

// An output is the standard output and standard error of an agent and its processes: a pipe that
// the driver reads. While a Run is in progress, its lines become console messages of the guest.
// The agent can't read it itself: it would block when the pipe is full. A nil *output is valid.
type output struct {
	box  *box
	pipe *os.File
	raw  syscall.RawConn

	mu    sync.Mutex
	rest  []byte    // an incomplete line
	tail  []byte    // the last output
	guest io.Writer // of the Run in progress; nil: there is none
	left  int64     // bytes that the Run may still write
	full  bool      // the limit is reached
}

// newOutput returns the output of a box that is read from a pipe, and starts to read it.
func newOutput(b *box, pipe *os.File) *output {
	o := &output{box: b, pipe: pipe}
	raw, err := pipe.SyscallConn()
	if err != nil { // impossible: the pipe is open
		close(b.saidAll)
		return o
	}
	o.raw = raw
	go func() { // it ends with the last process of the sandbox, which closes the pipe
		defer close(b.saidAll)
		defer pipe.Close()
		_ = raw.Read(func(fd uintptr) bool { return o.readAll(int(fd)) })
	}()
	return o
}

// readAll reads what is in the pipe. It reports whether the pipe has ended.
func (o *output) readAll(fd int) (ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := make([]byte, 32<<10)
	for {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return false
		case err != nil || n == 0:
			return true
		default:
			o.addBytes(b[:n])
		}
	}
}

// addBytes adds output. o.mu is held.
func (o *output) addBytes(b []byte) {
	_, _ = o.box.said.Write(b) // it never fails
	if o.tail = append(o.tail, b...); len(o.tail) > maxTail {
		o.tail = bytes.Clone(o.tail[len(o.tail)-maxTail:])
	}
	if o.rest = append(o.rest, b...); o.guest == nil {
		o.rest = o.rest[max(0, len(o.rest)-maxOutputLine):] // for the next Run
		return
	}
	for {
		n := bytes.IndexByte(o.rest, '\n')
		switch {
		case n >= 0 && n <= maxOutputLine:
			o.sendLine(o.rest[:n])
			o.rest = o.rest[n+1:]
		case len(o.rest) > maxOutputLine:
			o.sendLine(o.rest[:maxOutputLine])
			o.rest = o.rest[maxOutputLine:]
		default:
			return
		}
	}
}

// sendLine sends a console message. o.mu is held.
func (o *output) sendLine(line []byte) {
	text := strings.ToValidUTF8(strings.TrimSuffix(string(line), "\r"), "\uFFFD")
	m, err := tool.Marshal(sandbox.GuestMessage{Console: &sandbox.Console{Level: "log", Text: text}})
	if o.left -= int64(len(m)) + 1; o.left < 0 {
		if !o.full {
			o.full = true
			o.box.stopRun(outputLimit(o.box.spec.Output))
		}
		return
	}
	if err == nil {
		_, err = o.guest.Write(append(m, '\n'))
	}
	if err != nil {
		o.guest = nil // the Run ends
	}
}

// attachGuest passes the output to the guest stream of a Run.
func (o *output) attachGuest(guest io.Writer) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guest, o.left, o.full = guest, o.box.spec.Output, false
	o.addBytes(nil) // what background processes wrote meanwhile
}

// detachGuest ends what attachGuest began.
func (o *output) detachGuest() {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.guest = nil
}

// flushLines passes on everything that was written so far, also an incomplete last line.
func (o *output) flushLines() {
	if o == nil || o.raw == nil {
		return
	}
	_ = o.raw.Control(func(fd uintptr) { o.readAll(int(fd)) }) // the pipe may be closed
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.rest) > 0 && o.guest != nil {
		o.sendLine(o.rest)
		o.rest = nil
	}
}

// writeGuest writes a line of the agent to the guest stream, between lines of the output.
func (o *output) writeGuest(guest io.Writer, line []byte) error {
	if o != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
	}
	_, err := guest.Write(line)
	return err
}

// reportsFullHeap reports whether the interpreter ended because its heap was full, as its last
// words say.
func (o *output) reportsFullHeap() bool {
	if o == nil {
		return false
	}
	o.flushLines()
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Contains(o.tail, []byte("JavaScript heap out of memory")) ||
		bytes.Contains(o.tail, []byte("FATAL ERROR: ")) && bytes.Contains(o.tail, []byte("out of memory"))
}
