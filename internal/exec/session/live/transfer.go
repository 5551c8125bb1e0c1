package live

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// sealer returns the key for exports, or nil if there is none.
func (t *storage) sealer() session.Sealer {
	if t.cfg.Key == nil {
		return nil
	}
	return t.cfg.Key
}

// Export writes a session of p as one file, as its last program left it. The file is encrypted and
// authenticated with a passphrase, or with the store's key if the passphrase is empty. In the
// latter case it can only be imported to this data folder.
func (s *Sessions) Export(ctx context.Context, p tool.Principal, name string, w io.Writer, passphrase string) error {
	e, err := s.collectExport(ctx, p, name)
	if err != nil {
		return err
	}
	return e.Write(w, passphrase, s.sealer())
}

// collectExport collects the data of a session. It holds the turn in the meantime.
func (s *Sessions) collectExport(ctx context.Context, p tool.Principal, name string) (*session.Exported, error) {
	h, err := s.acquireExisting(ctx, p, name)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	if h.state.HasProcess() {
		return nil, errProcess(name, "exported")
	}
	e := &session.Exported{Name: name, Exported: s.cfg.Clock.Now(), Programs: h.rec.Programs, Engine: h.rec.Engine,
		State: h.state.Clone(), Guests: map[string][]byte{}}
	e.State.Labels = h.labels
	for _, g := range h.state.Guests {
		if e.Guests[g.Language], err = s.cfg.Store.Blob(ctx, g.Blob); err != nil {
			return nil, err
		}
	}
	for path, entry := range h.files.Tree().All() {
		data, err := entry.Data()
		if err != nil {
			return nil, err
		}
		e.Files = append(e.Files,
			session.ExportedFile{Path: path, Dir: entry.Dir, Modified: entry.Modified, Data: data})
	}
	if s.cfg.Privacy != nil {
		if e.Private, err = s.cfg.Privacy.Export(ctx, tool.Scope{Owner: p.ID, Session: name}); err != nil {
			return nil, err
		}
	}
	parts, err := s.cfg.Store.Journal(ctx, h.rec.ID)
	if err != nil {
		return nil, err
	}
	for _, id := range parts {
		part, err := s.cfg.Store.Blob(ctx, id)
		if err != nil {
			return nil, err
		}
		e.Journal = append(e.Journal, part)
	}
	return e, nil
}

// Import creates a session of p from an exported one. An empty name means the exported name. A
// session from another build of the engine is rebuilt by replaying its programs with their recorded
// answers; Info.Note says so.
func (s *Sessions) Import(ctx context.Context, p tool.Principal, name string, r io.Reader,
	passphrase string) (*Info, error) {
	if err := s.requireStore(); err != nil {
		return nil, err
	}
	lim := s.cfg.Limits
	e, err := session.ReadExported(r, passphrase, s.sealer(), lim.Size+lim.Workspace+int64(lim.Journal)+
		int64(lim.Files)*2048+1<<20)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = e.Name
	}
	if err := session.CheckName(name); err != nil {
		return nil, err
	}
	h, err := s.acquire(ctx, key{p.ID, name})
	if err != nil {
		return nil, err
	}
	defer h.Release()
	if h.rec != nil {
		return nil, errNameTaken(name)
	}
	return s.takeIn(ctx, h, e)
}

// takeIn stores an imported session.
func (s *Sessions) takeIn(ctx context.Context, h *Hold, e *session.Exported) (*Info, error) {
	c := &session.Change{Record: &session.Record{Programs: e.Programs, Engine: e.Engine}}
	if err := checkLabels(e.State); err != nil {
		return nil, err
	}
	if !e.Sealed {
		distrustLabels(e.State)
	}
	journals, err := takeJournal(c, e)
	if err != nil {
		return nil, err
	}
	state, note, err := s.takeGuests(ctx, h.key.owner, c, e, journals)
	if err != nil {
		return nil, err
	}
	tree, err := s.takeFiles(e.Files)
	if err != nil {
		return nil, err
	}
	files, err := h.files.Next(tree, c)
	if err != nil {
		return nil, err
	}
	if s.cfg.Privacy != nil {
		scope := tool.Scope{Owner: h.key.owner, Session: h.key.name}
		if err := s.cfg.Privacy.Import(ctx, scope, e.Private); err != nil {
			return nil, err
		}
	}
	if err := s.label(ctx, h.liveSession, state.Labels); err != nil {
		return nil, err
	}
	if err := s.commit(ctx, h.liveSession, c, state, files); err != nil {
		return nil, err
	}
	i := s.info(ctx, h.rec)
	i.State, i.Note = "suspended", note
	return &i, nil
}

// distrustLabels adds all source labels to a state that anyone with the passphrase may have
// written, because a missing label proves nothing.
func distrustLabels(s *session.State) {
	for _, l := range tool.SourceLabels() {
		if !slices.Contains(s.Labels, l) {
			s.Labels = append(s.Labels, l)
		}
	}
}

// takeJournal checks the journal and adds it to the change.
func takeJournal(c *session.Change, e *session.Exported) ([]*session.Journal, error) {
	var mark session.Mark
	var out []*session.Journal
	for _, raw := range e.Journal {
		j, err := session.DecodeJournal(raw)
		if err != nil {
			return nil, err
		}
		b := session.NewBlob(raw)
		c.Add, c.Append = append(c.Add, b), append(c.Append, b.ID)
		out, mark = append(out, j), mark.Next(raw)
	}
	if want := e.State.Journal; want.Lost == "" && mark != want {
		return nil, tool.Errorf(tool.Invalid, "import: the session's journal is not whole")
	}
	return out, nil
}

// takeGuests restores the guests, or rebuilds those from another build of the engine, and adds them
// to the change.
func (t *storage) takeGuests(ctx context.Context, owner string, c *session.Change, e *session.Exported,
	journals []*session.Journal) (*session.State, string, error) {
	state, note := e.State.Clone(), ""
	for i := range state.Guests {
		g := &state.Guests[i]
		if guest.Runtime(g.Language) == "" {
			return nil, "", tool.Errorf(tool.Invalid, "import: the session has a guest of language %q",
				text.Cut(g.Language, 40))
		}
		src, _, err := t.cfg.Guests.ChooseSource(ctx, guest.Need{Language: g.Language, Kind: guest.StateKind(state)})
		if err != nil {
			return nil, "", tool.Errorf(tool.AsError(err).Kind, "import: %w", err)
		}
		snapshot := e.Guests[g.Language]
		err = tryRestore(ctx, src, owner, g.Language, snapshot)
		var engine *sandbox.EngineError
		if errors.As(err, &engine) {
			if snapshot, err = reborn(ctx, src, owner, g.Language, e.State.Journal, journals, engine); err == nil {
				note = "rebuilt from its journal, since it comes from another build of the engine"
			}
		}
		if err != nil {
			return nil, "", err
		}
		b := session.NewBlob(snapshot)
		c.Add, g.Blob, g.Size = append(c.Add, b), b.ID, int64(len(snapshot))
	}
	return state, note, nil
}

// tryRestore returns an error if a snapshot can't be restored here.
func tryRestore(ctx context.Context, src *guest.Source, owner, language string, snapshot []byte) error {
	box, err := src.Restore(ctx, owner, language, snapshot)
	if errors.Is(err, guest.ErrNoSnapshots) {
		return err
	}
	if err != nil {
		return tool.Errorf(tool.Invalid, "import: the session can't be resumed: %w", err)
	}
	return box.Close()
}

// reborn replays the programs of a guest, and returns its snapshot.
func reborn(ctx context.Context, src *guest.Source, owner, language string, mark session.Mark,
	journals []*session.Journal, why error) ([]byte, error) {
	if mark.Lost != "" {
		return nil, tool.Errorf(tool.Conflict, "import: %w, and there is no journal to rebuild it from: %s",
			why, mark.Lost)
	}
	box, snapshot, err := src.Replay(ctx, owner, language, journals)
	if err != nil {
		return nil, tool.Errorf(tool.Conflict, "import: %w, and it can't be rebuilt from its journal: %s", why,
			tool.AsError(err).Msg)
	}
	return snapshot, box.Close()
}

// takeFiles returns a tree of exported files. They must obey the rules and quota of programs.
func (t *storage) takeFiles(files []session.ExportedFile) (*vfs.Tree, error) {
	lim := t.cfg.Limits
	fs := vfs.New(vfs.Config{Quota: vfs.Quota{Bytes: lim.Workspace, Files: lim.Files}, Clock: t.cfg.Clock})
	for _, f := range files {
		name := "workspace/" + f.Path
		var err error
		if path.Clean(name) != name {
			err = tool.Errorf(tool.Invalid, "%q is no path", text.Cut(f.Path, 80))
		} else if f.Dir {
			err = fs.Mkdir(name, true)
		} else {
			err = fs.Write(name, f.Data, "wx", 0)
		}
		if err != nil {
			return nil, tool.Errorf(tool.AsError(err).Kind, "import: %w", err)
		}
	}
	tree := fs.Workspace()
	for _, f := range files { // restore the modification times
		entry := vfs.Folder(f.Modified)
		if !f.Dir {
			entry = vfs.File(f.Data, f.Modified)
		}
		var err error
		if tree, err = tree.With(f.Path, entry); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// Limits of an imported session.
const (
	maxLabels      = 64 // labels
	maxLabelLength = 64 // bytes of a label
)

// checkLabels returns an error if the labels of an imported session are invalid.
func checkLabels(s *session.State) error {
	invalid := func(l string) bool { return l == "" || len(l) > maxLabelLength }
	if len(s.Labels) > maxLabels || slices.ContainsFunc(s.Labels, invalid) {
		return tool.Errorf(tool.Invalid, "import: the session's labels are none")
	}
	return nil
}
