package hosted

import (
	"context"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// UseServer wakes the server if it sleeps. It stays awake until the caller calls release.
func (s *Server) UseServer(context.Context) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, tool.Errorf(tool.Unavailable, "the server has ended")
	}
	if s.frozen {
		if err := s.machine.ThawGuest(); err != nil {
			s.cancel() // nothing else can be done with it
			return nil, err
		}
		s.frozen = false
	}
	s.users++
	var once sync.Once
	return func() { once.Do(s.endUse) }, nil
}

// endUse ends a use of the server.
func (s *Server) endUse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	standby := s.host.cfg.Limits.Standby
	switch {
	case s.users > 0 || s.over || standby < 0:
	case s.sleep == nil:
		s.sleep = time.AfterFunc(standby, s.FreezeIdle)
	default:
		s.sleep.Reset(standby)
	}
}

// FreezeIdle freezes the server unless it is in use, and makes the system take back its memory.
func (s *Server) FreezeIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users > 0 || s.over || s.frozen {
		return
	}
	if err := s.machine.FreezeGuest(); err != nil {
		s.host.cfg.Log.Warn("server in a sandbox not frozen", "upstream", s.host.cfg.Name, "error", err)
		return
	}
	s.frozen = true
}

// IsFrozen reports whether the server sleeps.
func (s *Server) IsFrozen() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.frozen
}
