// Package live keeps sessions some of which is in memory: whose turn it is to use one, the guests that its last program left, and what brings
// these back where they are not there any more. The others are rows and blobs of the store, and nothing else (package session).
//
// A program uses a session while it has a Hold of it, and saves what it left by Commit. People list, end, copy, export and import sessions,
// and use their files.
package live

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/privacy"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/session/guest"
	"github.com/biplane-dev/biplane/internal/skill"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// Limits bound sessions. A zero field means its default.
type Limits struct {
	Idle         time.Duration // a session that nobody uses is suspended after it; default 10 min
	Unused       time.Duration // and ended after this; default 30 days
	MaxAge       time.Duration // ended so long after it was made, used or not; default 365 days
	Size         int64         // bytes of a session's guests, packed; default 64 MiB
	Workspace    int64         // bytes of a session's files; default 256 MiB
	Files        int           // a session's files and directories; default 10,000
	Count        int           // sessions of one principal; default 1,000
	Hot          int           // sessions that are kept in memory while nobody uses them; default 256
	HotBytes     int64         // bytes of their guests, packed, and of their files; default 256 MiB
	Waiting      int           // programs that wait for one session; default 100
	Journal      int           // bytes of the journal of one session, by which it can be rebuilt; default 16 MiB
	SuspendAfter time.Duration // a program whose calls have all been under way for so long is suspended; default 2 s, negative: never
}

// Complete gives the limits with the default where one is zero.
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
	def(&l.Waiting, 100)
	def(&l.Journal, 16<<20)
	if l.SuspendAfter == 0 {
		l.SuspendAfter = 2 * time.Second
	}
	return l
}

// expires gives when a session is ended.
func (l Limits) expires(r *session.Record) time.Time {
	unused, old := r.Used.Add(l.Unused), r.Created.Add(l.MaxAge)
	if old.Before(unused) {
		return old
	}
	return unused
}

// A key names a session: another principal's session of the same name is another one.
type key struct{ owner, name string }

// A warm is a session some of which is in memory: because somebody uses it, or not long ago did.
type warm struct {
	key   key
	turns *queue.Turns // one at a time, in the order of arrival

	users   int       // who has the turn, or waits for it; guarded by Sessions.mu, as are the next three
	running bool      // a program has the turn
	idle    bool      // it is in Sessions.idle, while there are no users
	since   time.Time // when that began

	// What follows belongs to whoever has the turn.
	loaded bool
	rec    *session.Record // nil: there is no such session in the store yet
	state  *session.State
	files  *session.Files
	labels []string                   // of what its programs have read, sorted; those of a run that has the turn are changed under its labelling
	hot    map[string]sandbox.Sandbox // by language; each is as state has it
}

// Config makes Sessions. Guests, Skills, Log and Now must be set.
type Config struct {
	Store   session.Store // nil: there are no sessions
	Guests  *guest.Source
	Skills  *skill.Shelf
	Tools   func(tool.Principal) map[string]string // the read-only files of somebody's (vfs.Config.Tools); may be nil
	Access  vfs.Access                             // decides on the use of files; nil: whoever they belong to may do anything to them
	Key     *secret.Key                            // seals exported sessions for which no passphrase is given; nil: a passphrase is needed
	Privacy *privacy.Guard                         // knows what is personal in a session; nil: nothing is
	Limits  Limits
	Log     *slog.Logger
	Now     func() time.Time
}

// Sessions are those of all principals. Close closes what is in memory.
type Sessions struct {
	cfg Config

	mu      sync.Mutex
	by      map[key]*warm
	idle    *queue.Cache[key, *warm] // by the bytes of their guests and files; those of the owner with the most are closed first
	expired time.Time                // when old ones were looked for
	closed  bool
}

// New makes Sessions.
func New(cfg Config) *Sessions {
	cfg.Limits = cfg.Limits.Complete()
	return &Sessions{cfg: cfg, by: map[key]*warm{}, idle: queue.NewCache[key, *warm](cfg.Limits.Hot, cfg.Limits.HotBytes)}
}

// A Hold is the right to a session, until it is released.
type Hold struct {
	*warm
	all  *Sessions
	turn chan struct{}
}

// Name is the session's.
func (h *Hold) Name() string { return h.key.name }

// Record is the session as the store has it; nil: there is none of the name yet.
func (h *Hold) Record() *session.Record { return h.rec }

// Revision is how often the session was changed.
func (h *Hold) Revision() int64 {
	if h.rec == nil {
		return 0
	}
	return h.rec.Revision
}

// State is what the session's last program left; it must not be changed.
func (h *Hold) State() *session.State { return h.state }

// Files are those of the session.
func (h *Hold) Files() *session.Files { return h.files }

// Labels are those of what the session's programs have read.
func (h *Hold) Labels() []string { return h.labels }

// Label has the session carry labels on, whether the program that reads what they are of ends well or not.
func (h *Hold) Label(ctx context.Context, labels []string) error {
	return h.all.label(ctx, h.warm, labels)
}

// Guest gives the guest of a language, as the last program left it. Whoever has it closes it, or gives it back by Keep.
func (h *Hold) Guest(ctx context.Context, language string) (sandbox.Sandbox, Origin, error) {
	return h.all.guest(ctx, h.warm, language)
}

// Keep keeps the guest of a language, which is as State has it, for the next program.
func (h *Hold) Keep(language string, box sandbox.Sandbox) { h.hot[language] = box }

// Commit saves a change, and makes the session what it says. Of c.Record it takes Programs and Engine.
func (h *Hold) Commit(ctx context.Context, c *session.Change, state *session.State, files *session.Files) error {
	return h.all.commit(ctx, h.warm, c, state, files)
}

// Room reports whether there may be the session: where it is new, its principal may have so many.
func (h *Hold) Room(ctx context.Context) error {
	if h.rec != nil {
		return nil
	}
	return h.all.room(ctx, h.key.owner)
}

// Join takes a place in the order of those that want to run a program in a session, of which there may be none yet, and gives the wait for
// its turn, which has to follow.
func (s *Sessions) Join(owner, name string) (wait func(context.Context) (*Hold, error), err error) {
	turn, err := s.join(key{owner, name}, true)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*Hold, error) { return s.loaded(ctx, turn) }, nil
}

// enter waits for the turn to use a session, whether there is one of that name or not.
func (s *Sessions) enter(ctx context.Context, key key) (*Hold, error) {
	wait, err := s.join(key, false)
	if err != nil {
		return nil, err
	}
	return wait(ctx)
}

// join is enter in two steps: the place in the order, and the wait for the turn, which has to follow.
func (s *Sessions) join(key key, program bool) (wait func(context.Context) (*Hold, error), err error) {
	s.mu.Lock()
	l := s.by[key]
	if l == nil {
		l = &warm{key: key, turns: queue.NewTurns(1), hot: map[string]sandbox.Sandbox{}}
		s.by[key] = l
	}
	if l.users > s.cfg.Limits.Waiting {
		s.mu.Unlock()
		return nil, tool.Over("queue", "%d programs wait for session %q already: try again later, or use another session", s.cfg.Limits.Waiting, key.name)
	}
	l.users++
	s.unlist(l)
	s.mu.Unlock()
	h := &Hold{l, s, l.turns.Join()}
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

// unlist takes l from those that are idle. s.mu is held.
func (s *Sessions) unlist(l *warm) {
	if l.idle {
		s.idle.Remove(l.key)
		l.idle = false
	}
}

// size is how much the guests hold, packed, and the files, which may be in memory too.
func (l *warm) size() (n int64) {
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

// Release gives the turn to the next. Without one the session stays in memory for a while, if it has guests there.
func (h *Hold) Release() {
	s, l := h.all, h.warm
	s.mu.Lock()
	select {
	case <-h.turn:
		l.running = false
	default: // it waited only
	}
	l.users--
	var out []*warm
	if l.users == 0 {
		if len(l.hot) == 0 {
			delete(s.by, l.key)
		} else {
			l.since, l.idle = s.cfg.Now(), true
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

// surplus takes out what is too old; the caller closes it. s.mu is held.
func (s *Sessions) surplus() (out []*warm) {
	old := s.cfg.Now().Add(-s.cfg.Limits.Idle)
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

func closeAll(out []*warm) error {
	var errs []error
	for _, l := range out {
		errs = append(errs, l.cool())
	}
	return errors.Join(errs...)
}

// cool closes the session's guests. The store has all that they hold.
func (l *warm) cool() error {
	var errs []error
	for language, box := range l.hot {
		errs = append(errs, box.Close())
		delete(l.hot, language)
	}
	return errors.Join(errs...)
}

// suspend closes the guests of what has been idle for too long, and reports when to look again.
func (s *Sessions) suspend() (next time.Duration, err error) {
	s.mu.Lock()
	out := s.surplus()
	next = s.cfg.Limits.Idle
	if _, l, ok := s.idle.Oldest(); ok {
		next = l.since.Add(s.cfg.Limits.Idle).Sub(s.cfg.Now())
	}
	s.mu.Unlock()
	return next, closeAll(out)
}

// Close closes all guests. Nobody uses a session any more, nor will.
func (s *Sessions) Close() error {
	s.mu.Lock()
	s.closed = true
	out := s.surplus()
	s.mu.Unlock()
	return closeAll(out)
}

// Users says how many use a session, or wait for it.
func (s *Sessions) Users(owner, name string) int {
	users, _, _ := s.look(key{owner, name})
	return users
}

// look says how a session is.
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
