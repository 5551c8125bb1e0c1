package hosted

import (
	"context"
	"io"
)

// A pipe carries one of the standard streams of a server.
type pipe struct {
	from *io.PipeReader
	to   *io.PipeWriter
}

func newPipe() pipe {
	r, w := io.Pipe()
	return pipe{r, w}
}

// closePipe closes both ends.
func (p pipe) closePipe() { _, _ = p.to.Close(), p.from.Close() } // they never fail

// streams are the standard streams of a server.
type streams struct {
	in, out, errs pipe
	notes         chan string
	done          chan struct{} // closed by closeAll
}

// maxNotes is the number of notes that wait to be passed on; further ones are dropped.
const maxNotes = 64

func newStreams() streams {
	return streams{in: newPipe(), out: newPipe(), errs: newPipe(), notes: make(chan string, maxNotes),
		done: make(chan struct{})}
}

// AcceptOutput implements service.Output.
func (s *streams) AcceptOutput(_ context.Context, errs bool, p []byte) error {
	to := s.out.to
	if errs {
		to = s.errs.to
	}
	_, err := to.Write(p)
	return err
}

// addNote adds a line to the server's standard error, unless too many are waiting.
func (s *streams) addNote(text string) {
	select {
	case s.notes <- "biplane: " + text + "\n":
	default:
	}
}

// passNotes passes notes on until closeAll is called.
func (s *streams) passNotes() {
	for {
		select {
		case text := <-s.notes:
			if _, err := io.WriteString(s.errs.to, text); err != nil {
				return
			}
		case <-s.done:
			return
		}
	}
}

// closeAll closes the streams. Output that was accepted has been read.
func (s *streams) closeAll() {
	close(s.done)
	_, _ = s.out.to.Close(), s.errs.to.Close() // the readers see the end
	s.in.closePipe()
}

// OpenStreams returns the other ends of the server's standard streams.
func (s *Server) OpenStreams() (stdin io.WriteCloser, stdout, stderr io.ReadCloser) {
	return s.streams.in.to, s.streams.out.from, s.streams.errs.from
}
