package executor

import (
	"bytes"
	"errors"
	"io"
	"sync"
)

// A stream is the host's end of the guest stream, as the Guest of a sandbox.Cmd: the sandbox writes what the guest
// says and reads what the host says. It holds lines of bounded length in both directions.
type stream struct {
	line    int                     // longest line of the guest, in bytes
	message func(line []byte) error // takes each line of the guest; an error ends the guest
	tooLong func() error            // makes the error of a line that is too long
	part    []byte                  // of a line that is not complete; touched by Write only
	mu      sync.Mutex              //
	ready   sync.Cond               // something to read, room to send, or the end
	out     bytes.Buffer            // what the guest has yet to read
	ended   bool                    // no more is sent; what is left is still read
	closed  bool                    // the sandbox is gone
}

// maxUnread is how many bytes the guest may have yet to read before send waits.
const maxUnread = 16 << 20

var errGone = errors.New("the guest is gone")

func newStream(line int, message func([]byte) error, tooLong func() error) *stream {
	s := &stream{line: line, message: message, tooLong: tooLong}
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

// Read gives bytes of the host; io.EOF after end.
func (s *stream) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.out.Len() == 0 && !s.ended && !s.closed {
		s.ready.Wait()
	}
	if s.closed || s.out.Len() == 0 {
		return 0, io.EOF
	}
	n, err := s.out.Read(p)
	s.ready.Broadcast()
	return n, err
}

// send sends a line, which holds no '\n'. With wait it holds the caller up while the guest has much to read already.
func (s *stream) send(line []byte, wait bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for wait && s.out.Len() > maxUnread && !s.ended && !s.closed {
		s.ready.Wait()
	}
	if s.ended || s.closed {
		return errGone
	}
	s.out.Write(line)
	s.out.WriteByte('\n')
	s.ready.Broadcast()
	return nil
}

// full reports whether the guest has so much to read already that nothing more should be made for it.
func (s *stream) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Len() > maxUnread
}

// end says that nothing more will be sent.
func (s *stream) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.ready.Broadcast()
}

// Close is for the sandbox: nobody reads or writes any more.
func (s *stream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.ready.Broadcast()
	return nil
}
