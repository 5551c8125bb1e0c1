package live

import (
	"context"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// maxReasons is the number of ended guests of which the reason is remembered.
const maxReasons = 1000

// frozenGuests are the guests of sessions without users that are processes (sandbox.Freezer). They
// are bounded in number and memory. Sessions.mu guards them.
type frozenGuests struct {
	all  *queue.Cache[guestKey, *frozenGuest]
	lost *queue.Cache[guestKey, string] // why guests were ended
}

// A guestKey identifies a guest of a session.
type guestKey struct {
	key
	language string
}

// A frozenGuest is a frozen guest of a session.
type frozenGuest struct {
	of       *liveSession
	language string
	since    time.Time
}

func newFrozenGuests(l Limits) frozenGuests {
	return frozenGuests{queue.NewCache[guestKey, *frozenGuest](l.Frozen, l.FrozenBytes),
		queue.NewCache[guestKey, string](maxReasons, 0)}
}

// removeGuests removes the guests of a session that is used again.
func (f *frozenGuests) removeGuests(l *liveSession) {
	for language := range l.hot {
		f.all.Remove(guestKey{l.key, language})
	}
}

// untilOldest returns how long the oldest guest may still stay.
func (f *frozenGuests) untilOldest(now time.Time, most time.Duration) time.Duration {
	if _, oldest, ok := f.all.Oldest(); ok {
		return oldest.since.Add(most).Sub(now)
	}
	return most
}

// freezeGuests freezes the guests of the session that are processes, and returns their sizes. It
// returns nil if there are none. Guests that can't be frozen are ended.
func (h *Hold) freezeGuests() map[string]int64 {
	select {
	case <-h.turn:
	default:
		return nil // it was only waiting
	}
	var sizes map[string]int64
	for language, box := range h.hot {
		f, ok := box.(sandbox.Freezer)
		if !ok {
			continue
		}
		if err := f.FreezeGuest(); err != nil { // its processes would go on, and nothing counts their time
			h.RecordLoss(language, "its sandbox could not be frozen: "+tool.AsError(err).Msg)
			delete(h.hot, language)
			if err := box.Close(); err != nil {
				h.all.cfg.Log.Warn("sandbox not closed", "session", h.key.name, "error", err)
			}
			continue
		}
		if sizes == nil {
			sizes = map[string]int64{}
		}
		sizes[language] = f.UsedMemory()
	}
	return sizes
}

// parkGuests adds the frozen guests of an idle session. It returns the guests that exceed a limit,
// for the caller to close. s.mu is held.
func (s *Sessions) parkGuests(l *liveSession, sizes map[string]int64) (out []*liveSession) {
	lim := s.cfg.Limits
	for language, size := range sizes {
		g := &frozenGuest{l, language, l.since}
		for _, victim := range s.frozen.all.Put(l.key.owner, guestKey{l.key, language}, g, size) {
			out = append(out, s.detachGuest(victim, fmt.Sprintf(
				"other sessions needed its place or its memory (at most %s, %s)",
				text.Count(lim.Frozen, "idle sandbox"), text.Size(lim.FrozenBytes))))
		}
	}
	for _, victim := range s.frozen.all.EvictOwner(l.key.owner, lim.FrozenEach) {
		out = append(out, s.detachGuest(victim, fmt.Sprintf("other sessions of yours needed its place (at most %d "+
			"idle sandboxes each)", lim.FrozenEach)))
	}
	return out
}

// evictFrozen removes the guests that have been frozen for too long, or all when s is closed. The
// caller must close them. s.mu is held.
func (s *Sessions) evictFrozen() (out []*liveSession) {
	most := s.cfg.Limits.FrozenIdle
	for {
		key, g, ok := s.frozen.all.Oldest()
		if !ok || !s.closed && g.since.After(s.cfg.Clock.Now().Add(-most)) {
			return out
		}
		s.frozen.all.Remove(key)
		out = append(out, s.detachGuest(g, fmt.Sprintf("it was not used for %s", text.Setting(most))))
	}
}

// isFrozen reports whether a guest of a session is frozen.
func (s *Sessions) isFrozen(key key, languages []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, language := range languages {
		if _, ok := s.frozen.all.Get(guestKey{key, language}); ok {
			return true
		}
	}
	return false
}

// detachGuest separates a guest from its session, and returns a session with this guest alone, for
// the caller to close. s.mu is held, and the session has no users.
func (s *Sessions) detachGuest(g *frozenGuest, why string) *liveSession {
	l := g.of
	alone := &liveSession{key: l.key, hot: map[string]sandbox.Sandbox{g.language: l.hot[g.language]}}
	delete(l.hot, g.language)
	if len(l.hot) == 0 {
		l.idle = false
		delete(s.by, l.key)
	}
	s.frozen.lost.Put(l.key.owner, guestKey{l.key, g.language}, why, 0)
	return alone
}

// RecordLoss records why the guest of a language is not kept for the next program.
func (h *Hold) RecordLoss(language, why string) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.all.frozen.lost.Put(h.key.owner, guestKey{h.key, language}, why, 0)
}

// thawGuest returns a guest that is a process, or nil if it has ended.
func (h *Hold) thawGuest(language string, box sandbox.Sandbox) (sandbox.Sandbox, Origin) {
	f, ok := box.(sandbox.Freezer)
	if !ok {
		return box, Origin{From: "memory"}
	}
	began := time.Now()
	err := f.ThawGuest()
	if err == nil {
		return box, Origin{From: "frozen", Took: time.Since(began)}
	}
	h.RecordLoss(language, "its sandbox ended: "+tool.AsError(err).Msg)
	if err := box.Close(); err != nil {
		h.all.cfg.Log.Warn("sandbox not closed", "session", h.key.name, "error", err)
	}
	return nil, Origin{}
}

// replaceLost creates a new guest in place of one that was a process and has ended.
func (h *Hold) replaceLost(ctx context.Context, src *guest.Source, language string) (sandbox.Sandbox, Origin, error) {
	began := time.Now()
	build, err := src.BuildOf(ctx, language)
	if err != nil {
		return nil, Origin{}, err
	}
	h.all.mu.Lock()
	why, known := h.all.frozen.lost.Remove(guestKey{h.key, language})
	h.all.mu.Unlock()
	switch {
	case h.state.Guest(language).Build != build:
		why = "biplane was restarted"
	case !known:
		why = "its sandbox was ended"
	}
	box, err := src.Fresh(ctx, h.key.owner, language)
	if err != nil {
		return nil, Origin{}, err
	}
	h.forgetVariables()
	return box, Origin{From: "restarted", Why: why, Language: language, Took: time.Since(began)}, nil
}

// forgetVariables removes the data of guests that were processes and have ended from the state: the
// names of their variables, and the answers for them.
func (l *liveSession) forgetVariables() {
	state := l.state.Clone()
	for i := range state.Guests {
		if g := &state.Guests[i]; g.Blob == "" && l.hot[g.Language] == nil {
			g.Declared, g.Late = nil, nil
		}
	}
	l.state = state
}
