package live

import (
	"context"
	"time"
)

// expireEvery is the interval between checks for expired sessions.
const expireEvery = time.Hour

// Tidy suspends sessions that have been idle for too long. It also ends expired ones when a check
// is due. It returns the delay until the next call.
func (s *Sessions) Tidy(ctx context.Context) (next time.Duration) {
	s.mu.Lock()
	due := s.expired.IsZero() || s.cfg.Clock.Now().Sub(s.expired) >= expireEvery
	if due {
		s.expired = s.cfg.Clock.Now()
	}
	s.mu.Unlock()
	if due {
		s.expire(ctx)
	}
	next, err := s.closeIdle()
	if err != nil {
		s.cfg.Log.Warn("session not suspended", "error", err)
	}
	return next
}

// expire ends the sessions that have expired and are not in use.
func (s *Sessions) expire(ctx context.Context) {
	all, err := s.cfg.Store.List(ctx, "")
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Log.Warn("old sessions not listed", "error", err)
		}
		return
	}
	for _, r := range all {
		if s.cfg.Clock.Now().Before(s.cfg.Limits.expires(&r)) {
			continue
		}
		if err := s.endIfUnused(ctx, key{r.Owner, r.Name}); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("old session not ended", "session", r.Name, "owner", r.Owner, "error", err)
		}
	}
}

func (s *Sessions) endIfUnused(ctx context.Context, key key) error {
	if users, _, _ := s.look(key); users > 0 {
		return nil
	}
	h, err := s.enter(ctx, key)
	if err != nil {
		return err
	}
	defer h.Release()
	return s.load(ctx, h.liveSession) // load ends it if it has expired
}
