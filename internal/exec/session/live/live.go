// Package live keeps sessions in memory: the turns of programs to use a session, and the guests
// that its last program left. It restores guests that are no longer in memory. Sessions that are
// not in memory exist only in the store (package session).
//
// A program uses a session while it has a Hold, and saves its changes by Commit. Users list, end,
// copy, export and import sessions, and use their files.
package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// Limits are bounds on sessions. A zero field means its default.
type Limits struct {
	Idle      time.Duration // an unused session is suspended after this time; default 10 min
	Unused    time.Duration // an unused session is ended after this time; default 30 days
	MaxAge    time.Duration // a session is ended this long after its creation, even if it is used; default 365 days
	Size      int64         // maximum bytes of a session's guests, compressed; default 64 MiB
	Workspace int64         // maximum bytes of a session's files; default 256 MiB
	Files     int           // maximum files and directories of a session; default 10,000
	Count     int           // maximum sessions of a principal; default 1,000
	Hot       int           // maximum unused sessions kept in memory; default 256
	HotBytes  int64         // maximum bytes of their guests, compressed, and of their files; default 256 MiB
	Waiting   int           // maximum programs waiting for one session; default 100
	Journal   int           // maximum bytes of a session's journal, from which it can be rebuilt; default 16 MiB
	// Frozen guests are processes, which can't be stored: they end when they exceed a limit.
	FrozenIdle  time.Duration // a frozen guest is ended after this time; default 30 min
	Frozen      int           // maximum frozen guests; default 16
	FrozenEach  int           // maximum frozen guests of a principal; default 4
	FrozenBytes int64         // maximum memory of frozen guests; default 1 GiB
	// SuspendAfter is the time after which a program is suspended if all its calls are pending;
	// default 2 s, negative: never.
	SuspendAfter time.Duration
}

// Complete returns the limits with defaults for zero fields.
func (l Limits) Complete() Limits {
	const day = 24 * time.Hour
	def(&l.Idle, 10*time.Minute)
	def(&l.Unused, 30*day)
	def(&l.MaxAge, 365*day)
	def(&l.Size, 64<<20)
	def(&l.Workspace, 256<<20)
	def(&l.Files, 10_000)
	def(&l.Count, 1000)
	def(&l.Hot, 256)
	def(&l.HotBytes, 256<<20)
	def(&l.FrozenIdle, 30*time.Minute)
	def(&l.Frozen, 16)
	def(&l.FrozenEach, 4)
	def(&l.FrozenBytes, 1<<30)
	def(&l.Waiting, 100)
	def(&l.Journal, 16<<20)
	if l.SuspendAfter == 0 {
		l.SuspendAfter = 2 * time.Second
	}
	return l
}

// expires returns when a session is ended unless it is used.
func (l Limits) expires(r *session.Record) time.Time {
	unused, old := r.Used.Add(l.Unused), r.Created.Add(l.MaxAge)
	if old.Before(unused) {
		return old
	}
	return unused
}

// A key identifies a session: names are per principal.
type key struct{ owner, name string }

// A liveSession is a session in memory, because it is in use or was recently.
type liveSession struct {
	key   key
	turns *queue.Turns // one at a time, in the order of arrival

	users   int       // number of holders and waiters; guarded by Sessions.mu, as are the next three
	running bool      // a program has the turn
	idle    bool      // it is in Sessions.idle or its guests in Sessions.frozen: it has no users
	since   time.Time // start of the idle time

	// The following fields belong to the holder of the turn.
	loaded bool
	rec    *session.Record // nil: the store has no such session yet
	state  *session.State
	files  *Files
	// labels of the data that its programs have read, sorted; a run that has the turn changes them
	// under its labelling lock
	labels []string
	hot    map[string]sandbox.Sandbox // guests by language; each matches state
}

// ToolFiles are the read-only files of principals (vfs.Config.Tools).
type ToolFiles interface {
	ToolFiles(tool.Principal) map[string]string
}

// Config configures Sessions. Guests, Skills, Log and Now must be set.
type Config struct {
	Store  session.Store // nil: sessions are disabled
	Guests *guest.Sources
	Skills *skill.Shelf
	Tools  ToolFiles // may be nil
	// Access authorizes file operations; nil: owners may do anything with their files.
	Access vfs.Access
	// Key seals exported sessions without a passphrase; nil: a passphrase is required.
	Key     *secret.Key
	Privacy Privacy // protects the personal data of sessions; nil: none
	Limits  Limits
	Log     *slog.Logger
	Clock   *wallclock.Clock // nil: the system's
}

// Privacy keeps the personal data of sessions.
type Privacy interface {
	// Fork copies the data of an owner's session to another one.
	Fork(ctx context.Context, owner, from, to string) error
	// Export returns the data of a session as one text.
	Export(ctx context.Context, of tool.Scope) ([]byte, error)
	// Import adds the output of Export to a session; text may be empty.
	Import(ctx context.Context, of tool.Scope, text []byte) error
}

// Sessions are the sessions of all principals. Close closes those in memory.
type Sessions struct {
	storage

	mu sync.Mutex
	by map[key]*liveSession
	// idle holds the unused sessions with the size of their guests and files. Sessions of the owner
	// with the most are evicted first.
	idle    *queue.Cache[key, *liveSession]
	frozen  frozenGuests
	expired time.Time // last check for expired sessions
	closed  bool
}

// New returns Sessions with the given configuration.
func New(cfg Config) *Sessions {
	cfg.Limits = cfg.Limits.Complete()
	return &Sessions{storage: storage{cfg}, by: map[key]*liveSession{},
		idle:   queue.NewCache[key, *liveSession](cfg.Limits.Hot, cfg.Limits.HotBytes),
		frozen: newFrozenGuests(cfg.Limits)}
}

// A Hold is the exclusive right to use a session, until it is released.
type Hold struct {
	*liveSession
	all  *Sessions
	turn chan struct{}
}

// Name returns the name of the session.
func (h *Hold) Name() string { return h.key.name }

// Record returns the session's record in the store, or nil if there is none yet.
func (h *Hold) Record() *session.Record { return h.rec }

// Revision returns the number of changes of the session.
func (h *Hold) Revision() int64 {
	if h.rec == nil {
		return 0
	}
	return h.rec.Revision
}

// State returns the state that the session's last program left. It must not be modified.
func (h *Hold) State() *session.State { return h.state }

// Files returns the files of the session.
func (h *Hold) Files() *Files { return h.files }

// Labels returns the labels of the data that the session's programs have read.
func (h *Hold) Labels() []string { return h.labels }

// Label adds labels to the session, even if the program that reads the labeled data fails later.
func (h *Hold) Label(ctx context.Context, labels []string) error {
	return h.all.label(ctx, h.liveSession, labels)
}

// Keep keeps the guest of a language in memory for the next program. Its state must match State.
func (h *Hold) Keep(language string, box sandbox.Sandbox) { h.hot[language] = box }

// Commit saves a change and applies it to the session. It uses only Programs and Engine of
// c.Record.
func (h *Hold) Commit(ctx context.Context, c *session.Change, state *session.State, files *Files) error {
	return h.all.commit(ctx, h.liveSession, c, state, files)
}

// Room returns an error if the session is new and its principal can't have another one.
func (h *Hold) Room(ctx context.Context) error {
	if h.rec != nil {
		return nil
	}
	return h.all.room(ctx, h.key.owner)
}

// Join joins the queue of programs that want to run in a session, which need not exist. The caller
// must call wait, which waits for the turn.
func (s *Sessions) Join(owner, name string) (wait func(context.Context) (*Hold, error), err error) {
	turn, err := s.join(key{owner, name}, true)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*Hold, error) { return s.joinAndLoad(ctx, turn) }, nil
}

// enter waits for the turn to use a session, which need not exist.
func (s *Sessions) enter(ctx context.Context, key key) (*Hold, error) {
	wait, err := s.join(key, false)
	if err != nil {
		return nil, err
	}
	return wait(ctx)
}

// join does the same as enter in two steps: it joins the queue, and wait waits for the turn. The
// caller must call wait.
func (s *Sessions) join(key key, program bool) (wait func(context.Context) (*Hold, error), err error) {
	s.mu.Lock()
	l := s.by[key]
	if l == nil {
		l = &liveSession{key: key, turns: queue.NewTurns(1), hot: map[string]sandbox.Sandbox{}}
		s.by[key] = l
	}
	if l.users > s.cfg.Limits.Waiting {
		s.mu.Unlock()
		return nil, tool.Over("queue",
			"%d programs wait for session %q already: try again later, or use another session",
			s.cfg.Limits.Waiting, key.name)
	}
	l.users++
	s.unlist(l)
	h := &Hold{l, s, l.turns.Join()}
	s.mu.Unlock()
	return func(ctx context.Context) (*Hold, error) {
		select {
		case <-h.turn:
		case <-ctx.Done():
			h.Release()
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
		l.running = program
		s.mu.Unlock()
		return h, nil
	}, nil
}

// unlist removes l from the idle sessions. s.mu is held.
func (s *Sessions) unlist(l *liveSession) {
	if l.idle {
		s.idle.Remove(l.key)
		s.frozen.removeGuests(l)
		l.idle = false
	}
}

// size returns the compressed size of the guests in memory and the size of the files, which may be
// in memory, too.
func (l *liveSession) size() (n int64) {
	if l.rec != nil {
		n = l.rec.FileBytes
	}
	for language := range l.hot {
		if g := l.state.Guest(language); g != nil {
			n += g.Size
		}
	}
	return n
}

// Release passes the turn to the next waiter. Without one, a session with guests in memory stays
// there for a while.
func (h *Hold) Release() {
	s, l := h.all, h.liveSession
	sizes := h.freezeGuests()
	s.mu.Lock()
	select {
	case <-h.turn:
		l.running = false
	default: // it was only waiting
	}
	l.users--
	var out []*liveSession
	if l.users == 0 {
		if len(l.hot) == 0 {
			delete(s.by, l.key)
		} else if l.since, l.idle = s.cfg.Clock.Now(), true; sizes != nil {
			out = append(out, s.parkGuests(l, sizes)...)
		} else {
			for _, victim := range s.idle.Put(l.key.owner, l.key, l, l.size()) {
				victim.idle = false
				delete(s.by, victim.key)
				out = append(out, victim)
			}
		}
		out = append(out, s.surplus()...)
	}
	s.mu.Unlock()
	h.turns.Leave(h.turn)
	closeAll(out)
}

// surplus removes the sessions that have been idle for too long. The caller must close them. s.mu
// is held.
func (s *Sessions) surplus() (out []*liveSession) {
	out = s.evictFrozen()
	old := s.cfg.Clock.Now().Add(-s.cfg.Limits.Idle)
	for {
		_, l, ok := s.idle.Oldest()
		if !ok || !s.closed && l.since.After(old) {
			return out
		}
		s.unlist(l)
		delete(s.by, l.key)
		out = append(out, l)
	}
}

func closeAll(out []*liveSession) error {
	var errs []error
	for _, l := range out {
		errs = append(errs, l.closeGuests())
	}
	return errors.Join(errs...)
}

// closeGuests closes the session's guests. The store has all their state.
func (l *liveSession) closeGuests() error {
	var errs []error
	for language, box := range l.hot {
		errs = append(errs, box.Close())
		delete(l.hot, language)
	}
	return errors.Join(errs...)
}

// closeIdle closes the guests of sessions that have been idle for too long. It returns the delay
// until the next call.
func (s *Sessions) closeIdle() (next time.Duration, err error) {
	s.mu.Lock()
	out := s.surplus()
	next = s.cfg.Limits.Idle
	if _, l, ok := s.idle.Oldest(); ok {
		next = l.since.Add(s.cfg.Limits.Idle).Sub(s.cfg.Clock.Now())
	}
	next = min(next, s.frozen.untilOldest(s.cfg.Clock.Now(), s.cfg.Limits.FrozenIdle))
	s.mu.Unlock()
	return next, closeAll(out)
}

// Close closes all guests. No session may be used any longer.
func (s *Sessions) Close() error {
	s.mu.Lock()
	s.closed = true
	out := s.surplus()
	s.mu.Unlock()
	return closeAll(out)
}

// Users returns the number of holders of and waiters for a session.
func (s *Sessions) Users(owner, name string) int {
	users, _, _ := s.look(key{owner, name})
	return users
}

// look returns the number of users of a session, and whether a program runs in it and it is in
// memory.
func (s *Sessions) look(key key) (users int, running, hot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.by[key]
	if l == nil {
		return 0, false, false
	}
	return l.users, l.running, l.idle || l.users > 0
}

func def[T int | int64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
