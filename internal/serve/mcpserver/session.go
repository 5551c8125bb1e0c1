package mcpserver

import (
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// sessions tracks the open HTTP sessions, their owners and when they were last used. The SDK holds
// the sessions themselves; this type limits them.
type sessions struct {
	room  *queue.Shares
	idle  time.Duration
	close func(id string) // closes a session of the SDK; may take long

	mu      sync.Mutex
	open    map[string]*session
	stopped bool // no new sessions

	wg sync.WaitGroup // closes under way
}

type session struct {
	owner  string // Principal.ID of its creator
	rights string // of its creator then, with which the SDK makes all its calls: see rightsOf
	active int    // requests under way
	used   time.Time
	timer  *time.Timer // expires when the session has been idle for too long; stopped while active
	gone   func()      // cancels its calls
}

// graceIdle is how long a session must have been idle before it may be closed to make room for
// another session of its owner.
const graceIdle = time.Minute

func newSessions(limit int, idle time.Duration, closeOne func(id string)) *sessions {
	return &sessions{room: queue.NewShares("sessions", "open", int64(limit)), idle: idle, close: closeOne,
		open: map[string]*session{}}
}

// reserveRoom makes room for a session that a principal is about to open. If the principal's share
// or the total is used up, it closes the session that has been idle the longest, of the principal
// with the most sessions. After a nil error, the caller must call opened or release.
func (t *sessions) reserveRoom(p tool.Principal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return tool.Errorf(tool.Unavailable, "biplane is stopping")
	}
	for {
		err := t.room.Acquire(p.ID, 1)
		if err == nil {
			return nil
		}
		victim := t.chooseVictim(p.ID)
		if victim == "" {
			return err
		}
		t.dropSession(victim)
	}
}

// chooseVictim returns the session to close to make room for one of a principal. It belongs to the
// principal with the most sessions that has an idle one. The result is empty if none may be closed.
func (t *sessions) chooseVictim(principal string) (oldest string) {
	for _, owner := range t.room.More(principal) {
		for id, s := range t.open {
			if s.owner == owner && s.active == 0 && (owner != principal || time.Since(s.used) >= graceIdle) &&
				(oldest == "" || s.used.Before(t.open[oldest].used)) {
				oldest = id
			}
		}
		if oldest != "" {
			break
		}
	}
	return oldest
}

// releaseRoom undoes reserve if no session was opened.
func (t *sessions) releaseRoom(p tool.Principal) { t.room.Release(p.ID, 1) }

// addSession turns a reservation into an open session, whose first request is under way. gone is
// called when the session ends.
func (t *sessions) addSession(id string, p tool.Principal, gone func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &session{owner: p.ID, rights: rightsOf(p), active: 1, used: time.Now(), gone: gone}
	s.timer = time.AfterFunc(t.idle, func() { t.expireSession(id) })
	s.timer.Stop()
	t.open[id] = s
	if t.stopped {
		t.dropSession(id)
	}
}

// rightsOf returns what policies and the catalog know about a principal: its profile, groups, roles
// and so on.
func rightsOf(p tool.Principal) string {
	p.Groups = slices.Sorted(slices.Values(p.Groups)) // issuers list them in any order
	return string(p.AppendKey(nil))
}

// beginUse marks a session as in use. It returns false if the session is unknown, or belongs to
// another principal, profile or agent. It also does if the principal's groups, roles or scopes have
// changed: a new session then has the new ones.
func (t *sessions) beginUse(id string, p tool.Principal) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.open[id]
	if s == nil || s.owner != p.ID || s.rights != rightsOf(p) {
		return false
	}
	s.active++
	s.timer.Stop()
	return true
}

// endUse undoes begin, or the initial use by opened.
func (t *sessions) endUse(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.open[id]; s != nil {
		s.active--
		s.used = time.Now()
		if s.active == 0 {
			s.timer.Reset(t.idle)
		}
	}
}

// removeSession removes a session that its client closes, and cancels its calls.
func (t *sessions) removeSession(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.open[id]; s != nil {
		t.forgetSession(id, s)
	}
}

func (t *sessions) forgetSession(id string, s *session) {
	s.timer.Stop()
	s.gone()
	delete(t.open, id)
	t.room.Release(s.owner, 1)
}

func (t *sessions) expireSession(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.open[id]; s != nil && s.active == 0 && time.Since(s.used) >= t.idle {
		t.dropSession(id)
	}
}

// dropSession closes a session in the background.
func (t *sessions) dropSession(id string) {
	t.forgetSession(id, t.open[id])
	t.wg.Go(func() { t.close(id) })
}

// closeSession closes a session, if it is still open.
func (t *sessions) closeSession(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[id] != nil {
		t.dropSession(id)
	}
}

// closeAllOf closes the sessions of a principal.
func (t *sessions) closeAllOf(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, s := range t.open {
		if s.owner == owner {
			t.dropSession(id)
		}
	}
}

// closeAll closes all sessions, accepts no new ones, and waits for the closes.
func (t *sessions) closeAll() {
	t.mu.Lock()
	t.stopped = true
	for id := range t.open {
		t.dropSession(id)
	}
	t.mu.Unlock()
	t.wg.Wait()
}
