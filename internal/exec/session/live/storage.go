package live

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A storage reads sessions from the store and saves their changes. It doesn't know which sessions
// are in memory: the caller of a method has the turn for the session.
type storage struct{ cfg Config }

// load reads a session from the store, unless that was done before, and ends it if it has expired.
// If the store has no such session, it is new.
func (t *storage) load(ctx context.Context, l *liveSession) error {
	if !l.loaded {
		rec, err := t.cfg.Store.Load(ctx, l.key.owner, l.key.name)
		if err != nil {
			return err
		}
		l.rec, l.state, l.files = rec, &session.State{}, &Files{}
		if rec != nil && rec.State != nil {
			if l.state, err = session.DecodeState(rec.State); err != nil {
				return err
			}
			if l.files, err = LoadFiles(ctx, t.cfg.Store, l.state.Files); err != nil {
				return err
			}
			rec.State = nil
		}
		if err := t.loadLabels(ctx, l); err != nil {
			return err
		}
		l.loaded = true
	}
	if l.rec == nil || t.cfg.Clock.Now().Before(t.cfg.Limits.expires(l.rec)) {
		return nil
	}
	return t.end(ctx, l)
}

// end deletes a session. Its state in memory becomes the state of a new session.
func (t *storage) end(ctx context.Context, l *liveSession) error {
	err := l.closeGuests()
	if err := t.cfg.Store.End(ctx, l.rec); err != nil {
		return err
	}
	l.rec, l.state, l.files, l.labels = nil, &session.State{}, &Files{}, nil
	return err
}

// commit saves a change and applies it to the session in memory. It fills in the record.
func (t *storage) commit(
	ctx context.Context, l *liveSession, c *session.Change, state *session.State, files *Files,
) error {
	lim := t.cfg.Limits
	now := t.cfg.Clock.Now()
	rec := session.Record{ID: "ses_" + strings.ToLower(rand.Text()[:20]), Owner: l.key.owner, Name: l.key.name,
		Created: now}
	if l.rec != nil {
		rec = *l.rec
	} else if err := t.room(ctx, l.key.owner); err != nil {
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
	if err := t.cfg.Store.Save(ctx, c); err != nil {
		return err
	}
	rec.State = nil
	l.rec, l.state, l.files, l.loaded = &rec, state, files, true
	if len(c.Skills) > 0 {
		t.cfg.Skills.Forget()
	}
	return nil
}

// room returns an error if a principal can't have another session.
func (t *storage) room(ctx context.Context, owner string) error {
	n, err := t.cfg.Store.Count(ctx, owner)
	if err != nil {
		return err
	}
	if most := t.cfg.Limits.Count; n >= most {
		return tool.Over("sessions", "there are %s already, the most there may be: end one that is no longer needed "+
			"(biplane sessions end NAME)", text.Count(n, "session"))
	}
	return nil
}

// label adds labels to a session; see Hold.Label. The caller has the turn for l.
func (t *storage) label(ctx context.Context, l *liveSession, labels []string) error {
	all := tool.JoinLabels(l.labels, labels)
	if len(all) == len(l.labels) {
		return nil
	}
	now := t.cfg.Clock.Now()
	old := now.Add(-t.cfg.Limits.Unused)
	if err := t.cfg.Store.Label(context.WithoutCancel(ctx), l.key.owner, l.key.name, all, now, old); err != nil {
		return err
	}
	l.labels = all
	return nil
}

// loadLabels reads the labels of a session: those saved with its state, and those added since.
func (t *storage) loadLabels(ctx context.Context, l *liveSession) error {
	since, err := t.cfg.Store.Labels(ctx, l.key.owner, l.key.name)
	l.labels = tool.JoinLabels(since, l.state.Labels)
	return err
}
