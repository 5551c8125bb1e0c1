package daemon

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// A startup is the first connection attempt of each upstream. It begins when an upstream is wanted.
type startup struct {
	wanted  chan struct{} // closed on first use, which starts the upstreams
	settled chan struct{} // closed when all attempts are over, or the time for them is

	mu       sync.Mutex
	attempts map[string]chan struct{} // by upstream, while it lasts; closed when it is over
}

func newStartup(sources []*source) *startup {
	s := &startup{wanted: make(chan struct{}), settled: make(chan struct{}), attempts: map[string]chan struct{}{}}
	for _, src := range sources {
		s.attempts[src.up.Name()] = make(chan struct{})
	}
	if len(sources) == 0 {
		close(s.settled)
	}
	return s
}

// StartUpstreams starts the upstreams if they have not been started yet. It implements
// signin.Upstreams.
func (s *startup) StartUpstreams() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wanted:
	default:
		close(s.wanted)
	}
}

// WaitReady waits until all upstreams are past their first connection attempt, or the time for that
// is over.
func (s *startup) WaitReady(ctx context.Context) {
	s.StartUpstreams()
	select {
	case <-s.settled:
	case <-ctx.Done():
	}
}

// awaitAttempt waits until an upstream is past its first connection attempt, or the time for that
// is over. It returns false if ctx is done first.
func (s *startup) awaitAttempt(ctx context.Context, name string) bool {
	s.StartUpstreams()
	s.mu.Lock()
	attempt := s.attempts[name]
	s.mu.Unlock()
	if attempt == nil {
		return true
	}
	select {
	case <-attempt:
		return true
	case <-ctx.Done():
		return false
	}
}

// isSettled reports whether all upstreams are past their first connection attempt, or the time for
// that is over.
func (s *startup) isSettled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attempts) == 0
}

// settleUpstream notes that an upstream is past its first connection attempt.
func (s *startup) settleUpstream(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endAttempt(name)
}

// settleAll notes that the wait for all upstreams is over.
func (s *startup) settleAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.attempts {
		s.endAttempt(name)
	}
}

// endAttempt ends an attempt, unless it is over. The caller holds s.mu.
func (s *startup) endAttempt(name string) {
	attempt := s.attempts[name]
	if attempt == nil {
		return
	}
	close(attempt)
	if delete(s.attempts, name); len(s.attempts) == 0 {
		close(s.settled)
	}
}

// listConnecting returns the upstreams that are still making their first connection, sorted; none
// if they have not been started.
func (s *startup) listConnecting() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.wanted:
		return slices.Sorted(maps.Keys(s.attempts))
	default:
		return nil
	}
}
