package live

import (
	"context"
	"time"
)

// CountIdle returns the number of sessions of all owners that were last used before a time and
// are not in use.
func (s *Sessions) CountIdle(ctx context.Context, before time.Time) (int64, error) {
	keys, err := s.findIdle(ctx, before)
	return int64(len(keys)), err
}

// EndIdle ends at most most of these sessions, with their data, and returns their number. It
// skips sessions that can't be read, with a warning in the log.
func (s *Sessions) EndIdle(ctx context.Context, before time.Time, most int) (n int64, err error) {
	keys, err := s.findIdle(ctx, before)
	if err != nil {
		return 0, err
	}
	for _, k := range keys[:min(len(keys), most)] {
		ended, err := s.endBefore(ctx, k, before)
		switch {
		case ctx.Err() != nil:
			return n, ctx.Err()
		case err != nil:
			s.cfg.Log.Warn("old session not ended", "session", k.name, "owner", k.owner, "error", err)
		case ended:
			n++
		}
	}
	return n, nil
}

func (s *Sessions) findIdle(ctx context.Context, before time.Time) (keys []key, err error) {
	if err := s.requireStore(); err != nil {
		return nil, err
	}
	all, err := s.cfg.Store.List(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		k := key{r.Owner, r.Name}
		if users, _, _ := s.look(k); users == 0 && r.Used.Before(before) {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// endBefore ends a session, unless it was used since a time. It reports whether it did.
func (s *Sessions) endBefore(ctx context.Context, k key, before time.Time) (bool, error) {
	h, err := s.enter(ctx, k)
	if err != nil {
		return false, err
	}
	defer h.Release()
	if err := s.load(ctx, h.liveSession); err != nil {
		return false, err
	}
	if h.rec == nil || !h.rec.Used.Before(before) {
		return false, nil
	}
	return true, s.end(ctx, h.liveSession)
}
