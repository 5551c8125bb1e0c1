package executor

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
)

// A stream is the host's end of the guest stream, as the Guest of a sandbox.Cmd: the sandbox writes what the guest
// says and reads what the host says. It holds lines of bounded length in both directions.
type stream struct {
	line    int                        // longest line of the guest, in bytes
	message func(line []byte) error    // takes each line of the guest; an error ends the guest
	sent    func(line []byte, a about) // told of each line for the guest, in their order; may be nil
	tooLong func() error               // makes the error of a line that is too long
	part    []byte                     // of a line that is not complete; touched by Write only
	mu      sync.Mutex                 //
	ready   sync.Cond                  // something to read, room to send, or the end
	out     bytes.Buffer               // what the guest has yet to read
	put     func([]byte, error) int    // takes it instead, while the sandbox has it pushed
	owed    int                        // bytes of that for which there is no room yet
	ended   bool                       // no more is sent; what is left is still read
	paused  bool                       // the guest is to stop reading when it has read what there is
	closed  bool                       // the sandbox is gone
}

// An about says what a line for the guest is.
type about struct {
	call     int64 // it is the outcome of this call of the guest's; 0: of none
	at       int64 // HostMessage.At
	recorded bool  // its journal has it already
}

// A reach is the stream as one Run of a sandbox has it: the end of the Run ends it, and leaves the stream.
type reach struct {
	*stream
	over bool // guarded by stream.mu
}

// open gives the stream to a Run.
func (s *stream) open() *reach { return &reach{stream: s} }

// Read gives bytes of the host; io.EOF after end, and in a pause.
func (r *reach) Read(p []byte) (int, error) { return r.read(p, &r.over) }

// Close says that the Run is over.
func (r *reach) Close() error {
	r.mu.Lock()
	if !r.over {
		r.over, r.put = true, nil
	}
	r.mu.Unlock()
	r.ready.Broadcast()
	return nil
}

// Push has put take what the host says, from now on until the Run is over.
func (r *reach) Push(put func(p []byte, end error) int) {
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
func (r *reach) Took(n int) {
	r.mu.Lock()
	r.owed -= n
	r.mu.Unlock()
	r.ready.Broadcast()
}

// push pushes what there is. The caller holds mu.
func (s *stream) push() {
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
func (s *stream) hangUp() {
	if s.put != nil {
		s.put(nil, io.EOF)
		s.put = nil
	}
}

// behind is how many bytes the guest has yet to read. The caller holds mu.
func (s *stream) behind() int { return s.out.Len() + s.owed }

// maxKept is how many bytes a buffer may have that is kept for the next line.
const maxKept = 64 << 10

// maxUnread is how many bytes the guest may have yet to read before send waits.
const maxUnread = 16 << 20

var errGone = errors.New("the guest is gone")

func newStream(line int, message func([]byte) error, sent func([]byte, about), tooLong func() error) *stream {
	s := &stream{line: line, message: message, sent: sent, tooLong: tooLong}
	s.ready.L = &s.mu
	return s
}

// Write takes bytes of the guest.
func (s *stream) Write(p []byte) (int, error) {
	n := len(p)
	for {
		i := bytes.IndexByte(p, '\n')
		if len(s.part)+max(i, 0) > s.line || i < 0 && len(s.part)+len(p) > s.line {
			s.part = nil
			return 0, s.tooLong()
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
		if err := s.message(line); err != nil {
			return 0, err
		}
	}
}

// read gives bytes of the host, unless over.
func (s *stream) read(p []byte, over *bool) (int, error) {
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

// send sends a line, which holds no '\n'. With wait it holds the caller up while the guest has much to read already.
func (s *stream) send(line []byte, a about, wait bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for wait && s.behind() > maxUnread && !s.ended && !s.closed {
		s.ready.Wait()
	}
	if s.ended || s.closed {
		return errGone
	}
	if s.sent != nil {
		s.sent(line, a)
	}
	s.out.Write(line)
	s.out.WriteByte('\n')
	s.push()
	s.ready.Broadcast()
	return nil
}

// pause has the Run end that is under way, once the guest has nothing to do; not when there is something to read.
func (s *stream) pause() bool {
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

// resume ends a pause, and reports whether there was one.
func (s *stream) resume() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.paused && !s.ended
	s.paused = false
	return was
}

// unread reports whether there is something to read.
func (s *stream) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind() > 0
}

// wait waits until there is something to read, or the end of the stream or of ctx.
func (s *stream) wait(ctx context.Context) {
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

// full reports whether the guest has so much to read already that nothing more should be made for it.
func (s *stream) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.behind() > maxUnread
}

// end says that nothing more will be sent.
func (s *stream) end() {
	s.mu.Lock()
	if !s.ended && !s.paused {
		s.hangUp()
	}
	s.ended = true
	s.mu.Unlock()
	s.ready.Broadcast()
}

// Close is for the sandbox: nobody reads or writes any more.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed, s.put = true, nil
	s.out = bytes.Buffer{}
	s.mu.Unlock()
	s.ready.Broadcast()
	return nil
}
