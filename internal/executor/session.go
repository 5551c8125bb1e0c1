package executor

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/queue"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// SessionLimits bound sessions. A zero field means its default.
type SessionLimits struct {
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
func (l SessionLimits) Complete() SessionLimits {
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
func (l SessionLimits) expires(r *session.Record) time.Time {
	unused, old := r.Used.Add(l.Unused), r.Created.Add(l.MaxAge)
	if old.Before(unused) {
		return old
	}
	return unused
}

// A sessionKey names a session: another principal's session of the same name is another one.
type sessionKey struct{ owner, name string }

// A live is a session some of which is in memory: because somebody uses it, or not long ago did.
type live struct {
	key   sessionKey
	turns *queue.Turns // one at a time, in the order of arrival

	users   int           // who has the turn, or waits for it; guarded by lives.mu, as are the next three
	running bool          // a program has the turn
	idle    *list.Element // in lives.idle, while there are no users
	since   time.Time     // when that began

	// What follows belongs to whoever has the turn.
	loaded bool
	rec    *session.Record // nil: there is no such session in the store yet
	state  *session.State
	files  *session.Files
	labels []string                   // of what its programs have read, sorted; those of a run that has the turn are changed under its labelling
	hot    map[string]sandbox.Sandbox // by language; each is as state has it
}

// lives are the sessions that are in memory. The others are rows and blobs of the store, and nothing else.
type lives struct {
	lim SessionLimits
	now func() time.Time

	mu     sync.Mutex
	by     map[sessionKey]*live
	idle   list.List // of *live, the longest idle first
	bytes  int64     // of the guests and files of idle
	closed bool
}

func newLives(lim SessionLimits, now func() time.Time) *lives {
	return &lives{lim: lim, now: now, by: map[sessionKey]*live{}}
}

// A hold is the right to a session, until it is released.
type hold struct {
	*live
	all  *lives
	turn chan struct{}
}

// acquire waits for the turn to use a session, whether there is one of that name or not. A program may be one of many.
func (s *lives) acquire(ctx context.Context, key sessionKey, program bool) (*hold, error) {
	wait, err := s.join(key, program)
	if err != nil {
		return nil, err
	}
	return wait(ctx)
}

// join is acquire in two steps: the place in the order, and the wait for the turn, which has to follow.
func (s *lives) join(key sessionKey, program bool) (wait func(context.Context) (*hold, error), err error) {
	s.mu.Lock()
	l := s.by[key]
	if l == nil {
		l = &live{key: key, turns: queue.NewTurns(1), hot: map[string]sandbox.Sandbox{}}
		s.by[key] = l
	}
	if l.users > s.lim.Waiting {
		s.mu.Unlock()
		return nil, tool.Errorf(tool.Limit, "%d programs wait for session %q already: try again later, or use another session", s.lim.Waiting, key.name)
	}
	l.users++
	s.unlist(l)
	s.mu.Unlock()
	h := &hold{l, s, l.turns.Join()}
	return func(ctx context.Context) (*hold, error) {
		select {
		case <-h.turn:
		case <-ctx.Done():
			h.release()
			return nil, context.Cause(ctx)
		}
		s.mu.Lock()
		l.running = program
		s.mu.Unlock()
		return h, nil
	}, nil
}

// unlist takes l from those that are idle. s.mu is held.
func (s *lives) unlist(l *live) {
	if l.idle != nil {
		s.idle.Remove(l.idle)
		l.idle = nil
		s.bytes -= l.size()
	}
}

// size is how much the guests hold, packed, and the files, which may be in memory too.
func (l *live) size() (n int64) {
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

// release gives the turn to the next. Without one the session stays in memory for a while, if it has guests there.
func (h *hold) release() {
	s, l := h.all, h.live
	s.mu.Lock()
	select {
	case <-h.turn:
		l.running = false
	default: // it waited only
	}
	l.users--
	var out []*live
	if l.users == 0 {
		if len(l.hot) == 0 {
			delete(s.by, l.key)
		} else {
			l.since, l.idle = s.now(), s.idle.PushBack(l)
			s.bytes += l.size()
		}
		out = s.surplus()
	}
	s.mu.Unlock()
	h.turns.Leave(h.turn)
	closeAll(out)
}

// surplus takes out what is too old or too much; the caller closes it. s.mu is held.
func (s *lives) surplus() (out []*live) {
	old := s.now().Add(-s.lim.Idle)
	for e := s.idle.Front(); e != nil; e = s.idle.Front() {
		l := e.Value.(*live)
		if !s.closed && s.idle.Len() <= s.lim.Hot && s.bytes <= s.lim.HotBytes && l.since.After(old) {
			break
		}
		s.unlist(l)
		delete(s.by, l.key)
		out = append(out, l)
	}
	return out
}

func closeAll(out []*live) error {
	var errs []error
	for _, l := range out {
		errs = append(errs, l.cool())
	}
	return errors.Join(errs...)
}

// cool closes the session's guests. The store has all that they hold.
func (l *live) cool() error {
	var errs []error
	for language, box := range l.hot {
		errs = append(errs, box.Close())
		delete(l.hot, language)
	}
	return errors.Join(errs...)
}

// suspend closes the guests of what has been idle for too long, and reports when to look again.
func (s *lives) suspend() (next time.Duration, err error) {
	s.mu.Lock()
	out := s.surplus()
	next = s.lim.Idle
	if e := s.idle.Front(); e != nil {
		next = e.Value.(*live).since.Add(s.lim.Idle).Sub(s.now())
	}
	s.mu.Unlock()
	return next, closeAll(out)
}

// close closes all guests. Nobody uses a session any more, nor will.
func (s *lives) close() error {
	s.mu.Lock()
	s.closed = true
	out := s.surplus()
	s.mu.Unlock()
	return closeAll(out)
}

// look says how a session is.
func (s *lives) look(key sessionKey) (users int, running, hot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.by[key]
	if l == nil {
		return 0, false, false
	}
	return l.users, l.running, l.idle != nil || l.users > 0
}

const (
	// tidyAtLeast and tidyAtMost are how often idle sessions are looked after.
	tidyAtLeast = 50 * time.Millisecond
	tidyAtMost  = time.Minute
	// expireEvery is how often sessions are looked for that are to be ended.
	expireEvery = time.Hour
	// trimEvery is how often executions are thrown away that are too old or too many; more often where they are kept for less.
	trimEvery = 5 * time.Minute
)

// tidy suspends idle sessions and ends old ones, until the Executor is closed.
func (x *Executor) tidy() {
	x.expire()
	x.trim()
	last, trimmed := x.cfg.Now(), x.cfg.Now()
	for {
		x.amendAll()
		next, err := x.lives.suspend()
		if err != nil {
			x.cfg.Log.Warn("suspend a session", "error", err)
		}
		if now := x.cfg.Now(); now.Sub(last) >= expireEvery {
			x.expire()
			last = now
		}
		if now := x.cfg.Now(); now.Sub(trimmed) >= min(trimEvery, max(x.cfg.Limits.Journal.Keep, time.Minute)) {
			x.trim()
			trimmed = now
		}
		select {
		case <-x.ctx.Done():
			return
		case <-time.After(min(max(next, tidyAtLeast), tidyAtMost)):
		}
	}
}

// trim throws executions away that are too old, or too many.
func (x *Executor) trim() {
	if x.cfg.Journal == nil {
		return
	}
	lim := x.cfg.Limits.Journal
	if _, err := x.cfg.Journal.Trim(x.ctx, x.cfg.Now().Add(-lim.Keep), lim.Bytes); err != nil && x.ctx.Err() == nil {
		x.cfg.Log.Warn("throw away old executions", "error", err)
	}
}

// expire ends the sessions whose time is over and that nobody uses.
func (x *Executor) expire() {
	all, err := x.cfg.Store.List(x.ctx, "")
	if err != nil {
		if x.ctx.Err() == nil {
			x.cfg.Log.Warn("look for old sessions", "error", err)
		}
		return
	}
	for _, r := range all {
		if x.cfg.Now().Before(x.cfg.Limits.Sessions.expires(&r)) {
			continue
		}
		if err := x.endIfUnused(sessionKey{r.Owner, r.Name}); err != nil && x.ctx.Err() == nil {
			x.cfg.Log.Warn("end an old session", "session", r.Name, "owner", r.Owner, "error", err)
		}
	}
}

func (x *Executor) endIfUnused(key sessionKey) error {
	if users, _, _ := x.lives.look(key); users > 0 {
		return nil
	}
	h, err := x.lives.acquire(x.ctx, key, false)
	if err != nil {
		return err
	}
	defer h.release()
	return x.load(x.ctx, h.live) // it ends what is too old
}

// load reads a session from the store, if that has not been done, and ends it if its time is over. Without one in the
// store the session is new.
func (x *Executor) load(ctx context.Context, l *live) error {
	if !l.loaded {
		rec, err := x.cfg.Store.Load(ctx, l.key.owner, l.key.name)
		if err != nil {
			return err
		}
		l.rec, l.state, l.files = rec, &session.State{}, &session.Files{}
		if rec != nil && rec.State != nil {
			if l.state, err = session.DecodeState(rec.State); err != nil {
				return err
			}
			if l.files, err = session.LoadFiles(ctx, x.cfg.Store, l.state.Files); err != nil {
				return err
			}
			rec.State = nil
		}
		if err := x.loadLabels(ctx, l); err != nil {
			return err
		}
		l.loaded = true
	}
	if l.rec == nil || x.cfg.Now().Before(x.cfg.Limits.Sessions.expires(l.rec)) {
		return nil
	}
	return x.end(ctx, l)
}

// end deletes a session; what is live is as if it had never been.
func (x *Executor) end(ctx context.Context, l *live) error {
	err := l.cool()
	if err := x.cfg.Store.End(ctx, l.rec); err != nil {
		return err
	}
	l.rec, l.state, l.files, l.labels = nil, &session.State{}, &session.Files{}, nil
	return err
}

// commit saves a change, and makes live what it says. The record is filled in.
func (x *Executor) commit(ctx context.Context, l *live, c *session.Change, state *session.State, files *session.Files) error {
	lim := x.cfg.Limits.Sessions
	now := x.cfg.Now()
	rec := session.Record{ID: newID("ses_"), Owner: l.key.owner, Name: l.key.name, Created: now}
	if l.rec != nil {
		rec = *l.rec
	} else if err := x.room(ctx, l.key.owner); err != nil {
		return err
	}
	if c.Record != nil { // what the caller knows better
		rec.Programs, rec.Engine = c.Record.Programs, c.Record.Engine
	}
	rec.Revision++
	rec.Used = now
	state.Files, state.Labels, rec.Labels = files.List(), l.labels, l.labels
	rec.Languages, rec.StateBytes, rec.JournalBytes = nil, 0, state.Journal.Bytes
	for _, g := range state.Guests {
		rec.Languages = append(rec.Languages, g.Language)
		rec.StateBytes += g.Size
	}
	slices.Sort(rec.Languages)
	rec.FileBytes, rec.Files = files.Tree().Size(), files.Tree().Len()
	if rec.StateBytes > lim.Size {
		return tool.Errorf(tool.Limit, "the session would be %s, packed; the most is %s: keep less in variables, and large data in files", prose.Size(rec.StateBytes), prose.Size(lim.Size))
	}
	var err error
	if rec.State, err = state.Encode(); err != nil {
		return err
	}
	c.Record, c.Owner = &rec, l.key.owner
	if err := x.cfg.Store.Save(ctx, c); err != nil {
		return err
	}
	rec.State = nil
	l.rec, l.state, l.files, l.loaded = &rec, state, files, true
	if len(c.Skills) > 0 {
		x.skills.Forget()
	}
	return nil
}

// room reports whether a principal may have one more session.
func (x *Executor) room(ctx context.Context, owner string) error {
	n, err := x.cfg.Store.Count(ctx, owner)
	if err != nil {
		return err
	}
	if most := x.cfg.Limits.Sessions.Count; n >= most {
		return tool.Errorf(tool.Limit, "there are %s already, the most there may be: end one that is no longer needed (biplane sessions end NAME)", prose.Count(n, "session"))
	}
	return nil
}
