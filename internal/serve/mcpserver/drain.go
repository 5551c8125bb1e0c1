package mcpserver

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// lastAnswers is how long canceled calls may take to be answered.
const lastAnswers = time.Second

// Messages that callers receive while the server stops.
const (
	notTaken = "biplane is stopping and accepts no more requests: send this one again when it has restarted"
	cutShort = "biplane is stopping: the call was canceled before its answer arrived, and it is unknown whether it " +
		"took effect"
)

// Drain prepares for Close. From now on calls of tools are refused, with HTTP status 503 or an
// explanatory error, and calls under way may finish until ctx is done. Then Drain calls last. When
// that returns, it cancels the remaining calls, which are answered with an explanatory error, and
// waits up to another second for these answers. Drain returns as soon as all calls are answered. It
// may be called twice.
func (s *Server) Drain(ctx context.Context, last func()) {
	s.mu.Lock()
	s.draining = true
	idle := s.idle
	if s.under == 0 {
		s.closeIdle()
	}
	s.mu.Unlock()
	s.talks.cancelTalks("", true)
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

// enterCall counts a call, or the message that requests it. It returns false if no more are
// accepted. If it returns true, the caller must call leaveCall after the answer is written.
func (s *Server) enterCall() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return false
	}
	s.under++
	return true
}

func (s *Server) leaveCall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.under--; s.under == 0 && s.draining {
		s.closeIdle()
	}
}

// closeIdle closes idle unless it is closed.
func (s *Server) closeIdle() {
	select {
	case <-s.idle:
	default:
		close(s.idle)
	}
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// drainError returns the error of a call that Drain canceled, whatever error the tool returned;
// otherwise err.
func (s *Server) drainError(err error) error {
	if err != nil && s.cutting.Err() != nil {
		return &tool.Error{Kind: tool.Unavailable, Msg: cutShort, Err: err}
	}
	return err
}
