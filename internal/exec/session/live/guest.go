package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Origin describes where the guest of a program comes from. The zero Origin is for a program
// without a session.
type Origin struct {
	From     string // "new", "memory", "frozen", "disk", "journal", "restarted", "moved"
	Why      string // why it was rebuilt, for "journal", or is a new one, for "restarted"; what moved, for "moved"
	Language string // set for "new" in an existing session: this is its first program in the language
	Took     time.Duration
}

// Text describes the origin for the answer of execute.
func (o Origin) Text() string {
	switch o.From {
	case "new":
		if o.Language == "" {
			return " (new)"
		}
		return fmt.Sprintf(" (its first program in %s: files are shared between languages, variables are not)",
			o.Language)
	case "disk":
		return fmt.Sprintf(" (resumed from disk in %.1f ms)", o.Took.Seconds()*1e3)
	case "frozen":
		return fmt.Sprintf(" (woken from its frozen sandbox in %.1f ms)", o.Took.Seconds()*1e3)
	case "restarted":
		return fmt.Sprintf(" (in a new sandbox, started in %.1f ms: the variables of its earlier programs in %s are "+
			"gone, since %s; its files are kept)", o.Took.Seconds()*1e3, o.Language, o.Why)
	case "moved":
		return fmt.Sprintf(" (moved to another kind of sandbox in %.1f ms: %s)", o.Took.Seconds()*1e3, o.Why)
	case "journal":
		return fmt.Sprintf(" (rebuilt from its journal in %.1f ms, since %s)", o.Took.Seconds()*1e3, o.Why)
	}
	return ""
}

// Guest returns the guest of a language, as the last program left it. src is the source of the
// session's kind of sandbox (State.Kind). The caller must close the guest or return it by Keep.
func (h *Hold) Guest(ctx context.Context, src *guest.Source, language string) (sandbox.Sandbox, Origin, error) {
	began := time.Now()
	kept := h.state.Guest(language)
	if kept != nil && kept.Blob != "" && guest.KindOf(h.state, kept) != src.KindName() {
		return h.moveGuest(ctx, src, kept)
	}
	if box := h.hot[language]; box != nil {
		delete(h.hot, language) // until the result of the program is known
		if box, origin := h.thawGuest(language, box); box != nil {
			return box, origin, nil
		}
	}
	if kept != nil && kept.Blob == "" {
		return h.replaceLost(ctx, src, language)
	}
	if kept == nil {
		box, err := src.Fresh(ctx, h.key.owner, language)
		if err != nil {
			return nil, Origin{}, err
		}
		if h.rec != nil {
			return box, Origin{From: "new", Language: language}, nil
		}
		return box, Origin{From: "new"}, nil
	}
	box, err := h.all.Restore(ctx, src, h.key.owner, language, kept.Blob)
	if err == nil {
		return box, Origin{From: "disk", Took: time.Since(began)}, nil
	}
	if why := lossReason(err); why != "" {
		if box, err = h.all.rebuild(ctx, h.liveSession, src, language, err); err == nil {
			return box, Origin{From: "journal", Why: why, Took: time.Since(began)}, nil
		}
	}
	return nil, Origin{}, err
}

// moveGuest creates a guest in place of one in another kind of sandbox, and sets its variables. The
// stored one stays until the session is saved.
func (h *Hold) moveGuest(ctx context.Context, to *guest.Source, kept *session.Guest) (
	_ sandbox.Sandbox, _ Origin, err error) {
	began := time.Now()
	from, err := h.all.cfg.Guests.FindKind(ctx, guest.KindOf(h.state, kept), kept.Language)
	if err != nil {
		return nil, Origin{}, err
	}
	old, _, err := h.Guest(ctx, from, kept.Language)
	if err != nil {
		return nil, Origin{}, err
	}
	defer func() { err = errors.Join(err, old.Close()) }() // it has run code that isn't the session's
	box, err := to.Fresh(ctx, h.key.owner, kept.Language)
	if err != nil {
		return nil, Origin{}, err
	}
	moved, err := guest.MoveVariables(ctx, kept.Language, old, box, kept.Declared)
	if err != nil {
		return nil, Origin{}, errors.Join(err, box.Close())
	}
	return box, Origin{From: "moved", Why: moved.DescribeMove(), Language: kept.Language, Took: time.Since(began)}, nil
}

// Restore restores a guest from a stored snapshot that src took.
func (t *storage) Restore(
	ctx context.Context, src *guest.Source, owner, language, blob string,
) (sandbox.Sandbox, error) {
	snapshot, err := t.cfg.Store.Blob(ctx, blob)
	if err != nil {
		return nil, err
	}
	box, err := src.Restore(ctx, owner, language, snapshot)
	if err != nil {
		return nil, fmt.Errorf("resume a sandbox: %w", err)
	}
	return box, nil
}

// Journals returns the journals of the first programs of a session. The session must still have the
// given ID. It returns none if both programs and id are zero.
func (t *storage) Journals(ctx context.Context, owner, name, id string, programs int) ([]*session.Journal, error) {
	if programs == 0 {
		if id != "" {
			return nil, tool.Errorf(tool.Conflict,
				"the journal of session %q was too long to be kept, and with it the state that the program began from",
				name)
		}
		return nil, nil
	}
	rec, err := t.cfg.Store.Load(ctx, owner, name)
	if err != nil {
		return nil, err
	}
	if rec == nil || rec.ID != id {
		return nil, tool.Errorf(tool.Conflict,
			"session %q has ended, and with it the state that the program began from", name)
	}
	state, err := session.DecodeState(rec.State)
	if err != nil {
		return nil, err
	}
	journals, err := session.LoadJournals(ctx, t.cfg.Store, rec.ID, state.Journal)
	if err != nil {
		return nil, err
	}
	if len(journals) < programs {
		return nil, tool.Errorf(tool.Conflict, "the journal of session %q is not whole", name)
	}
	return journals[:programs], nil
}

// lossReason returns why a snapshot is permanently lost, or "" if it isn't.
func lossReason(err error) string {
	var engine *sandbox.EngineError
	switch {
	case errors.As(err, &engine):
		return "its state is of another build of the engine"
	case tool.AsError(err).Kind == tool.Conflict:
		return "its stored state was damaged"
	}
	return ""
}

// rebuild rebuilds the guest of a language by replaying its programs with their recorded answers,
// and stores it. lost is the reason for rebuilding it.
func (t *storage) rebuild(
	ctx context.Context, l *liveSession, src *guest.Source, language string, lost error,
) (_ sandbox.Sandbox, err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = tool.Errorf(tool.Conflict, "session %q can't be resumed (%w), nor rebuilt from its journal: %s. "+
				"End it (biplane sessions end %s) or use another name",
				l.key.name, lost, tool.AsError(err).Msg, l.key.name)
		}
	}()
	if l.rec == nil {
		return nil, lost
	}
	journals, err := session.LoadJournals(ctx, t.cfg.Store, l.rec.ID, l.state.Journal)
	if err != nil {
		return nil, err
	}
	box, snapshot, err := src.Replay(ctx, l.key.owner, language, journals)
	if err != nil {
		return nil, err
	}
	blob := session.NewBlob(snapshot)
	state := l.state.Clone()
	g := *state.Guest(language)
	g.Blob, g.Size = blob.ID, int64(len(snapshot))
	c := &session.Change{Add: []session.Blob{blob}, Drop: []string{state.Put(g)}}
	if err := t.commit(ctx, l, c, state, l.files); err != nil {
		return nil, errors.Join(err, box.Close())
	}
	return box, nil
}
