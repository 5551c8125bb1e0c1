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
		s.frozen, s.shrunk = false, false
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

// FreezeIdle freezes the server unless it is in use.
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
	s.frozen, s.since = true, time.Now()
	s.host.cfg.Memory.noteFrozen()
}

// shrinkIdle makes the system take back the memory of the server if it is frozen.
func (s *Server) shrinkIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.frozen || s.shrunk || s.over {
		return
	}
	s.shrunk = true
	if freed, err := s.machine.ReclaimMemory(); err != nil {
		s.host.cfg.Log.Debug("not all memory of a server taken back", "upstream", s.host.cfg.Name, "freed", freed,
			"error", err)
	}
}

// restIdle ends the server if it is frozen. The next use starts another one.
func (s *Server) restIdle(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.frozen && !s.over {
		s.over, s.rests, s.why = true, true, why
		s.cancel()
	}
}
