package hosted

import "github.com/biplane-dev/biplane/internal/exec/owned"

// CurrentState returns the state of the server.
func (s *Server) CurrentState() owned.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.over:
		return owned.Stopped
	case s.shrunk:
		return owned.Reclaimed
	case s.frozen:
		return owned.Frozen
	case s.users > 0:
		return owned.Running
	}
	return owned.Idle
}
