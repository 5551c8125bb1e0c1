// Package stream is the host's end of the guest stream, as whoever speaks the guest protocol has it: lines of bounded length in both
// directions, over as many Runs of a sandbox as a program takes.
package stream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// Config makes a Stream. An A says of a line for the guest what it is.
type Config[A any] struct {
	Line    int                     // longest line of the guest, in bytes
	Message func(line []byte) error // takes each line of the guest; an error ends the guest
	Sent    func(line []byte, a A)  // told of each line for the guest, in their order; may be nil
	TooLong func() error            // makes the error of a line that is too long
}

// A Stream is the host's end of the guest stream: the sandbox writes what the guest says and reads what the host says.
type Stream[A any] struct {
	cfg    Config[A]
	part   []byte                  // of a line that is not complete; touched by Write only
	mu     sync.Mutex              //
	ready  sync.Cond               // something to read, room to send, or the end
	out    bytes.Buffer            // what the guest has yet to read
	put    func([]byte, error) int // takes it instead, while the sandbox has it pushed
	owed   int                     // bytes of that for which there is no room yet
	ended  bool                    // no more is sent; what is left is still read
	paused bool                    // the guest is to stop reading when it has read what there is
	closed bool                    // the sandbox is gone
}

// A Reach is the stream as one Run of a sandbox has it (sandbox.Cmd.Guest): the end of the Run ends it, and leaves the stream.
type Reach[A any] struct {
	*Stream[A]
	over bool // guarded by Stream.mu
}

// Open gives the stream to a Run.
func (s *Stream[A]) Open() *Reach[A] { return &Reach[A]{Stream: s} }

// Read gives bytes of the host; io.EOF after End, and in a pause.
func (r *Reach[A]) Read(p []byte) (int, error) { return r.read(p, &r.over) }

// Close says that the Run is over.
func (r *Reach[A]) Close() error {
	r.mu.Lock()
	if !r.over {
		r.over, r.put = true, nil
	}
	r.mu.Unlock()
	r.ready.Broadcast()
	return nil
}

// Push has put take what the host says, from now on until the Run is over.
func (r *Reach[A]) Push(put func(p []byte, end error) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.over {
		put(nil, io.EOF)
		return
	}
	r.put, r.owed = put, 0
	r.push()
	if r.ended || r.paused {
		r.hangUp()
	}
}

// Took says that there is room for n bytes more.
func (r *Reach[A]) Took(n int) {
	r.mu.Lock()
	r.owed -= n
	r.mu.Unlock()
	r.ready.Broadcast()
}

// push pushes what there is. The caller holds mu.
func (s *Stream[A]) push() {
	if s.put == nil || s.out.Len() == 0 {
		return
	}
	n := s.out.Len()
	s.owed += n - s.put(s.out.Bytes(), nil)
	if s.out.Reset(); s.out.Cap() > maxKept {
		s.out = bytes.Buffer{}
	}
}

// hangUp pushes the end: what is said after it is for the next Run. The caller holds mu.
func (s *Stream[A]) hangUp() {
	if s.put != nil {
		s.put(nil, io.EOF)
		s.put = nil
	}
}

// behind is how many bytes the guest has yet to read. The caller holds mu.
func (s *Stream[A]) behind() int { return s.out.Len() + s.owed }

// maxKept is how many bytes a buffer may have that is kept for the next line.
const maxKept = 64 << 10

// MaxUnread is how many bytes the guest may have yet to read before Send waits.
const MaxUnread = 16 << 20

// MaxMade is how many bytes the guest may have yet to read before nothing more is made for it at once (Full): what is read of files in parallel comes all together,
// and whoever makes it can't wait.
const MaxMade = 40 << 20

// ErrGone is the error of a line for a guest that hears no more.
var ErrGone = errors.New("the guest is gone")

// New makes a Stream.
func New[A any](cfg Config[A]) *Stream[A] {
	s := &Stream[A]{cfg: cfg}
	s.ready.L = &s.mu
	return s
}

// Write takes bytes of the guest.
func (s *Stream[A]) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if len(s.part)+max(i, 0) > s.cfg.Line || i < 0 && len(s.part)+len(p) > s.cfg.Line {
			s.part = nil
			return 0, s.cfg.TooLong()
		}
		if i < 0 {
			s.part = append(s.part, p...)
			return n, nil
		}
		line := p[:i]
		if len(s.part) > 0 {
			line = append(s.part, line...)
			s.part = nil
		}
		p = p[i+1:]
		if err := s.cfg.Message(line); err != nil {
			return 0, err
		}
	}
}

// read gives bytes of the host, unless over.
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

// Send sends a line, which holds no '\n'. With wait it holds the caller up while the guest has much to read already.
func (s *Stream[A]) Send(line []byte, a A, wait bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for wait && s.behind() > MaxUnread && !s.ended && !s.closed {
		s.ready.Wait()
	}
	if s.ended || s.closed {
		return ErrGone
	}
	if s.cfg.Sent != nil {
		s.cfg.Sent(line, a)
	}
	s.out.Write(line)
	s.out.WriteByte('\n')
	s.push()
	s.ready.Broadcast()
	return nil
}

// Pause has the Run end that is under way, once the guest has nothing to do; not when there is something to read.
func (s *Stream[A]) Pause() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind() > 0 || s.ended || s.closed {
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

// Unread reports whether there is something to read.
func (s *Stream[A]) Unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind() > 0
}

// Wait waits until there is something to read, or the end of the stream or of ctx.
func (s *Stream[A]) Wait(ctx context.Context) {
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock() // whoever looks at ctx has either seen its end, or waits
		defer s.mu.Unlock()
		s.ready.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.out.Len() == 0 && !s.ended && !s.closed && ctx.Err() == nil {
		s.ready.Wait()
	}
}

// Next waits as Wait does and takes the line that came, for a guest that stands still for it in a pause; nil when none comes.
func (s *Stream[A]) Next(ctx context.Context) []byte {
	s.Wait(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	line, err := s.out.ReadBytes('\n')
	if err != nil { // lines are written whole
		return nil
	}
	s.ready.Broadcast()
	return line[:len(line)-1]
}

// Full reports whether the guest has so much to read already that nothing more should be made for it.
func (s *Stream[A]) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind() > MaxMade
}

// End says that nothing more will be sent.
func (s *Stream[A]) End() {
	s.mu.Lock()
	if !s.ended && !s.paused {
		s.hangUp()
	}
	s.ended = true
	s.mu.Unlock()
	s.ready.Broadcast()
}

// Close is for the sandbox: nobody reads or writes any more.
func (s *Stream[A]) Close() error {
	s.mu.Lock()
	s.closed, s.put = true, nil
	s.out = bytes.Buffer{}
	s.mu.Unlock()
	s.ready.Broadcast()
	return nil
}
