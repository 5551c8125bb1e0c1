package mcpserver

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// lastAnswers is how long calls that were ended may take to be answered.
const lastAnswers = time.Second

// What a caller hears while the server stops.
const (
	notTaken = "biplane is stopping, and takes no more requests: send this one again when it is back"
	cutShort = "biplane is stopping: the call was ended before its answer came, and whether it took effect is not known"
)

// Drain prepares for Close: from now on calls of tools are refused, with HTTP status 503 or an
// error that says why, and those under way may end, until ctx is done. Those that have not ended
// when last, which is called then, returns are ended, and answered with an error that says why, for
// which there is another second. Drain returns as soon as all calls are answered. It may be called
// twice.
func (s *Server) Drain(ctx context.Context, last func()) {
	s.mu.Lock()
	s.draining = true
	idle := s.idle
	if s.under == 0 {
		s.idleLocked()
	}
	s.mu.Unlock()
	select {
	case <-idle:
		return
	case <-ctx.Done():
	}
	last()
	s.cut()
	timer := time.NewTimer(lastAnswers)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
}

// enter notes that a call, or the message that asks for one, is under way; false when no more are
// taken. After true, leave follows, once the answer is written.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.under++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under--; s.under == 0 && s.draining {
		s.idleLocked()
	}
}

// idleLocked closes idle, once.
func (s *Server) idleLocked() {
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

func (s *Server) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// ended is the error of a call that Drain cut short, whatever the tool made of that; else err.
func (s *Server) ended(err error) error {
	if err != nil && s.cutting.Err() != nil {
		return &tool.Error{Kind: tool.Unavailable, Msg: cutShort, Err: err}
	}
	return err
}
