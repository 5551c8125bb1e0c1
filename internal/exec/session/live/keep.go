package live

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"

	"github.com/biplane-dev/biplane/internal/exec/session"
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

// load reads a session from the store, unless that was done before, and ends it if it has expired.
// If the store has no such session, it is new.
func (s *Sessions) load(ctx context.Context, l *liveSession) error {
	if !l.loaded {
		rec, err := s.cfg.Store.Load(ctx, l.key.owner, l.key.name)
		if err != nil {
			return err
		}
		l.rec, l.state, l.files = rec, &session.State{}, &Files{}
		if rec != nil && rec.State != nil {
			if l.state, err = session.DecodeState(rec.State); err != nil {
				return err
			}
			if l.files, err = LoadFiles(ctx, s.cfg.Store, l.state.Files); err != nil {
				return err
			}
			rec.State = nil
		}
		if err := s.loadLabels(ctx, l); err != nil {
			return err
		}
		l.loaded = true
	}
	if l.rec == nil || s.cfg.Clock.Now().Before(s.cfg.Limits.expires(l.rec)) {
		return nil
	}
	return s.end(ctx, l)
}

// end deletes a session. Its state in memory becomes the state of a new session.
func (s *Sessions) end(ctx context.Context, l *liveSession) error {
	err := l.closeGuests()
	if err := s.cfg.Store.End(ctx, l.rec); err != nil {
		return err
	}
	l.rec, l.state, l.files, l.labels = nil, &session.State{}, &Files{}, nil
	return err
}

// commit saves a change and applies it to the session in memory. It fills in the record.
func (s *Sessions) commit(
	ctx context.Context, l *liveSession, c *session.Change, state *session.State, files *Files,
) error {
	lim := s.cfg.Limits
	now := s.cfg.Clock.Now()
	rec := session.Record{ID: "ses_" + strings.ToLower(rand.Text()[:20]), Owner: l.key.owner, Name: l.key.name,
		Created: now}
	if l.rec != nil {
		rec = *l.rec
	} else if err := s.room(ctx, l.key.owner); err != nil {
		return err
	}
	if c.Record != nil { // known only to the caller
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
		return tool.Over("session",
			"the session would be %s, packed; the most is %s: keep less in variables, and large data in files",
			text.Size(rec.StateBytes), text.Size(lim.Size))
	}
	var err error
	if rec.State, err = state.Encode(); err != nil {
		return err
	}
	c.Record, c.Owner = &rec, l.key.owner
	if err := s.cfg.Store.Save(ctx, c); err != nil {
		return err
	}
	rec.State = nil
	l.rec, l.state, l.files, l.loaded = &rec, state, files, true
	if len(c.Skills) > 0 {
		s.cfg.Skills.Forget()
	}
	return nil
}

// room returns an error if a principal can't have another session.
func (s *Sessions) room(ctx context.Context, owner string) error {
	n, err := s.cfg.Store.Count(ctx, owner)
	if err != nil {
		return err
	}
	if most := s.cfg.Limits.Count; n >= most {
		return tool.Over("sessions", "there are %s already, the most there may be: end one that is no longer needed "+
			"(biplane sessions end NAME)", text.Count(n, "session"))
	}
	return nil
}

// Limits of an imported session.
const (
	maxLabels      = 64 // labels
	maxLabelLength = 64 // bytes of a label
)

// label adds labels to a session; see Hold.Label. The caller has the turn for l.
func (s *Sessions) label(ctx context.Context, l *liveSession, labels []string) error {
	all := tool.JoinLabels(l.labels, labels)
	if len(all) == len(l.labels) {
		return nil
	}
	now := s.cfg.Clock.Now()
	old := now.Add(-s.cfg.Limits.Unused)
	if err := s.cfg.Store.Label(context.WithoutCancel(ctx), l.key.owner, l.key.name, all, now, old); err != nil {
		return err
	}
	l.labels = all
	return nil
}

// loadLabels reads the labels of a session: those saved with its state, and those added since.
func (s *Sessions) loadLabels(ctx context.Context, l *liveSession) error {
	since, err := s.cfg.Store.Labels(ctx, l.key.owner, l.key.name)
	l.labels = tool.JoinLabels(since, l.state.Labels)
	return err
}

// checkLabels returns an error if the labels of an imported session are invalid.
func checkLabels(s *session.State) error {
	invalid := func(l string) bool { return l == "" || len(l) > maxLabelLength }
	if len(s.Labels) > maxLabels || slices.ContainsFunc(s.Labels, invalid) {
		return tool.Errorf(tool.Invalid, "import: the session's labels are none")
	}
	return nil
}
