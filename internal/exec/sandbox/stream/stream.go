// Package stream implements the host's end of the guest stream for code that speaks the guest
// protocol: lines of bounded length in both directions, over as many Runs of a sandbox as a program
// needs.
package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// Config configures a Stream.
type Config[A any] struct {
	Line     int // longest line that the guest may send, in bytes
	Recorder Recorder[A]
}

// A Recorder records the lines for the guest. An A describes such a line.
type Recorder[A any] interface {
	// RecordLine is called with each line before the guest can read it, in order.
	RecordLine(line []byte, a A)
}

// A Stream is the host's end of the guest stream: it cuts the guest's output into lines, and the
// sandbox reads the host's lines from it.
type Stream[A any] struct {
	cfg    Config[A]
	part   []byte       // incomplete line; used only by CutLine
	mu     sync.Mutex   //
	ready  sync.Cond    // signals data to read, room to send, or the end
	out    bytes.Buffer // bytes that the guest has not read yet
	to     sandbox.Sink // receives the bytes instead of out while the sandbox has a push function set
	owed   int          // pushed bytes for which the sandbox has no room yet
	ended  bool         // no more is sent; the rest can still be read
	paused bool         // the guest should stop reading after the pending bytes
	closed bool         // the sandbox is closed
}

// A RunStream is the stream within one Run of a sandbox. With a Write method, it is a
// sandbox.Cmd.Guest. It ends with the Run, and the stream stays open.
type RunStream[A any] struct {
	*Stream[A]
	over bool // guarded by Stream.mu
}

// Open returns the stream for a Run.
func (s *Stream[A]) Open() *RunStream[A] { return &RunStream[A]{Stream: s} }

// Read reads the host's bytes. It returns io.EOF after End, and during a pause.
func (r *RunStream[A]) Read(p []byte) (int, error) { return r.read(p, &r.over) }

// Close marks the end of the Run.
func (r *RunStream[A]) Close() error {
	r.mu.Lock()
	if !r.over {
		r.over, r.to = true, nil
	}
	r.mu.Unlock()
	r.ready.Broadcast()
	return nil
}

// Push passes the host's bytes to a Sink, from now until the Run ends.
func (r *RunStream[A]) Push(to sandbox.Sink) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.over {
		to.AcceptPush(nil, io.EOF)
		return
	}
	r.to, r.owed = to, 0
	r.push()
	if r.ended || r.paused {
		r.hangUp()
	}
}

// AddCredit reports room for n more bytes.
func (r *RunStream[A]) AddCredit(n int) {
	r.mu.Lock()
	r.owed -= n
	r.mu.Unlock()
	r.ready.Broadcast()
}

// push pushes the pending bytes. The caller holds mu.
func (s *Stream[A]) push() {
	if s.to == nil || s.out.Len() == 0 {
		return
	}
	n := s.out.Len()
	s.owed += n - s.to.AcceptPush(s.out.Bytes(), nil)
	if s.out.Reset(); s.out.Cap() > maxKept {
		s.out = bytes.Buffer{}
	}
}

// hangUp pushes EOF. Later bytes are for the next Run. The caller holds mu.
func (s *Stream[A]) hangUp() {
	if s.to != nil {
		s.to.AcceptPush(nil, io.EOF)
		s.to = nil
	}
}

// unreadBytes returns how many bytes the guest has not read yet. The caller holds mu.
func (s *Stream[A]) unreadBytes() int { return s.out.Len() + s.owed }

// maxKept is the largest buffer that is kept for the next line, in bytes.
const maxKept = 64 << 10

// MaxUnread is how many bytes may be unread before Send waits.
const MaxUnread = 16 << 20

// MaxBuffered is the number of unread bytes above which Full reports true: the host should then
// produce no more. Results of parallel file reads arrive all at once, and their producer can't
// wait.
const MaxBuffered = 40 << 20

// ErrGone is returned for a line to a guest that no longer reads.
var ErrGone = errors.New("the guest is gone")

// ErrLong is returned for a line of the guest that is longer than Config.Line.
var ErrLong = errors.New("the guest's line is too long")

// New returns a Stream.
func New[A any](cfg Config[A]) *Stream[A] {
	s := &Stream[A]{cfg: cfg}
	s.ready.L = &s.mu
	return s
}

// CutLine returns the first line of p, the next bytes of the guest, and what follows it. If the
// line is incomplete, it keeps p for the next call, and returns no line and no rest.
func (s *Stream[A]) CutLine(p []byte) (line, rest []byte, err error) {
	i := bytes.IndexByte(p, '\n')
	if len(s.part)+max(i, 0) > s.cfg.Line || i < 0 && len(s.part)+len(p) > s.cfg.Line {
		s.part = nil
		return nil, nil, ErrLong
	}
	if i < 0 {
		s.part = append(s.part, p...)
		return nil, nil, nil
	}
	if line = p[:i]; len(s.part) > 0 {
		line = append(s.part, line...)
		s.part = nil
	}
	return line, p[i+1:], nil
}

// read reads the host's bytes, unless over is set.
func (s *Stream[A]) read(p []byte, over *bool) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.out.Len() == 0 && !s.ended && !s.closed && !s.paused && !*over {
		s.ready.Wait()
	}
	if s.closed || *over || s.out.Len() == 0 {
		return 0, io.EOF
	}
	n, err := s.out.Read(p)
	s.ready.Broadcast()
	return n, err
}

// Send sends a line, which must not contain '\n'. If wait is set, it blocks while the guest has
// more than MaxUnread bytes to read.
func (s *Stream[A]) Send(line []byte, a A, wait bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for wait && s.unreadBytes() > MaxUnread && !s.ended && !s.closed {
		s.ready.Wait()
	}
	if s.ended || s.closed {
		return ErrGone
	}
	s.cfg.Recorder.RecordLine(line, a)
	s.out.Write(line)
	s.out.WriteByte('\n')
	s.push()
	s.ready.Broadcast()
	return nil
}

// Pause ends the current Run once the guest is idle, and reports whether it will. It does nothing
// if bytes are unread.
func (s *Stream[A]) Pause() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreadBytes() > 0 || s.ended || s.closed {
		return false
	}
	s.paused = true
	s.hangUp()
	s.ready.Broadcast()
	return true
}

// Resume ends a pause, and reports whether there was one.
func (s *Stream[A]) Resume() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.paused && !s.ended
	s.paused = false
	return was
}

// Unread reports whether the guest has bytes to read.
func (s *Stream[A]) Unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreadBytes() > 0
}

// Wait waits until there is something to read, the stream ends, or ctx is done.
func (s *Stream[A]) Wait(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock() // a goroutine that checks ctx has either seen its end, or is waiting
		defer s.mu.Unlock()
		s.ready.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.out.Len() == 0 && !s.ended && !s.closed && ctx.Err() == nil {
		s.ready.Wait()
	}
}

// Next waits like Wait and returns the next line, for a guest that blocks for it during a pause. It
// returns nil if no line comes.
func (s *Stream[A]) Next(ctx context.Context) []byte {
	s.Wait(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := s.out.ReadBytes('\n')
	if err != nil { // only complete lines are written
		return nil
	}
	s.ready.Broadcast()
	return line[:len(line)-1]
}

// Full reports whether so much is unread that the host should produce nothing more.
func (s *Stream[A]) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unreadBytes() > MaxBuffered
}

// End marks the end of the host's lines.
func (s *Stream[A]) End() {
	s.mu.Lock()
	if !s.ended && !s.paused {
		s.hangUp()
	}
	s.ended = true
	s.mu.Unlock()
	s.ready.Broadcast()
}

// Close is called when the sandbox is gone: pending reads end, and unread bytes are dropped.
func (s *Stream[A]) Close() error {
	s.mu.Lock()
	s.closed, s.to = true, nil
	s.out = bytes.Buffer{}
	s.mu.Unlock()
	s.ready.Broadcast()
	return nil
}
