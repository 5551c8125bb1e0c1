package live

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/skill"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Info describes a session.
type Info struct {
	Name      string   `json:"name"`
	Owner     string   `json:"owner"`
	Languages []string `json:"languages"` // languages of its guests: "typescript", "python"
	// State is "running" (a program runs), "hot" (in memory), "frozen" (in memory, as stopped
	// processes) or "suspended" (only in the store).
	State        string    `json:"state"`
	Created      time.Time `json:"created"`
	Used         time.Time `json:"used"`
	Expires      time.Time `json:"expires"`     // end of the session unless it is used earlier
	Programs     int       `json:"programs"`    // number of programs that succeeded
	StateBytes   int64     `json:"state_bytes"` // compressed size of its guests
	FileBytes    int64     `json:"file_bytes"`
	Files        int       `json:"files"`
	JournalBytes int64     `json:"journal_bytes"` // 0 if it was too long to rebuild the session from
	Engine       string    `json:"engine"`
	Tier         string    `json:"tier"`           // of the engine; empty if no kind of sandbox has it now
	Labels       []string  `json:"labels"`         // labels of the data that its programs have read
	Note         string    `json:"note,omitempty"` // a recent event
}

func (s *Sessions) info(ctx context.Context, r *session.Record) Info {
	return s.describe(r, s.cfg.Guests.FindTier(ctx, r.Engine, r.Languages))
}

// describe is info with the tier given.
func (s *Sessions) describe(r *session.Record, tier string) Info {
	i := Info{
		Name: r.Name, Owner: r.Owner, Languages: r.Languages, State: "suspended", Created: r.Created.UTC(),
		Used:    r.Used.UTC(),
		Expires: s.cfg.Limits.expires(r).UTC(), Programs: r.Programs, StateBytes: r.StateBytes, FileBytes: r.FileBytes,
		Files:        r.Files,
		JournalBytes: r.JournalBytes, Engine: r.Engine, Labels: append([]string{}, r.Labels...),
		Tier: tier,
	}
	if i.Languages == nil {
		i.Languages = []string{}
	}
	switch _, running, hot := s.look(key{r.Owner, r.Name}); {
	case running:
		i.State = "running"
	case hot && s.isFrozen(key{r.Owner, r.Name}, r.Languages):
		i.State = "frozen"
	case hot:
		i.State = "hot"
	}
	return i
}

// requireStore returns an error if nothing is stored.
func (t *storage) requireStore() error {
	if t.cfg.Store == nil {
		return tool.Errorf(tool.Unavailable, "sessions are unavailable, because nothing is stored")
	}
	return nil
}

func noSession(name string) error {
	return tool.Errorf(tool.NotFound, "there is no session %q: `biplane sessions` lists the existing ones; the first "+
		"program that names a session creates it (biplane run --session NAME)", text.Cut(name, 80))
}

// List returns the sessions of p, by name.
func (s *Sessions) List(ctx context.Context, p tool.Principal) ([]Info, error) {
	if err := s.requireStore(); err != nil {
		return nil, err
	}
	all, err := s.cfg.Store.List(ctx, p.ID)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(all))
	tiers := map[string]string{} // once for each engine: a driver that can't run here is probed each time
	for i := range all {
		r := &all[i]
		if p.ID != r.Owner || !s.cfg.Clock.Now().Before(s.cfg.Limits.expires(r)) {
			continue
		}
		key := string(tool.AppendTexts(tool.AppendTexts(nil, r.Engine), r.Languages...))
		tier, known := tiers[key]
		if !known {
			tier = s.cfg.Guests.FindTier(ctx, r.Engine, r.Languages)
			tiers[key] = tier
		}
		out = append(out, s.describe(r, tier))
	}
	return out, nil
}

// Get returns a session of p.
func (s *Sessions) Get(ctx context.Context, p tool.Principal, name string) (*Info, error) {
	all, err := s.List(ctx, p)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(s Info) bool { return s.Name == name })
	if i < 0 {
		return nil, noSession(name)
	}
	return &all[i], nil
}

// acquire waits for the turn to use a session, and loads it.
func (s *Sessions) acquire(ctx context.Context, key key) (*Hold, error) {
	wait, err := s.join(key, false)
	if err != nil {
		return nil, err
	}
	return s.joinAndLoad(ctx, wait)
}

// joinAndLoad waits for the turn of a session that was joined, and loads it.
func (s *Sessions) joinAndLoad(ctx context.Context, wait func(context.Context) (*Hold, error)) (*Hold, error) {
	h, err := wait(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.load(ctx, h.liveSession); err != nil {
		h.Release()
		return nil, err
	}
	if h.state.HasProcess() {
		h.forgetVariables()
	}
	return h, nil
}

// acquireExisting does the same as acquire for a session of p that must exist.
func (s *Sessions) acquireExisting(ctx context.Context, p tool.Principal, name string) (*Hold, error) {
	if err := s.requireStore(); err != nil {
		return nil, err
	}
	h, err := s.acquire(ctx, key{p.ID, name})
	if err != nil {
		return nil, err
	}
	if h.rec == nil {
		h.Release()
		return nil, noSession(name)
	}
	return h, nil
}

// End deletes a session of p and its data. If a program runs in it or waits for it, the error has
// kind conflict.
func (s *Sessions) End(ctx context.Context, p tool.Principal, name string) error {
	if err := s.requireStore(); err != nil {
		return err
	}
	key := key{p.ID, name}
	if users, _, _ := s.look(key); users > 0 {
		return tool.Errorf(tool.Conflict, "session %q is in use: wait until its programs have ended, or stop them "+
			"(biplane executions stop EXECUTION), and end it then", name)
	}
	h, err := s.enter(ctx, key)
	if err != nil {
		return err
	}
	defer h.Release()
	if err := s.load(ctx, h.liveSession); err != nil {
		return s.endUnread(ctx, key, err)
	}
	if h.rec == nil {
		return noSession(name)
	}
	return s.end(ctx, h.liveSession)
}

// endUnread ends a session that can't be read.
func (t *storage) endUnread(ctx context.Context, key key, unread error) error {
	if tool.AsError(unread).Kind != tool.Conflict {
		return unread
	}
	all, err := t.cfg.Store.List(ctx, key.owner)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Name == key.name {
			return t.cfg.Store.End(ctx, &all[i])
		}
	}
	// No session, only labels of programs that failed.
	return t.cfg.Store.End(ctx, &session.Record{Owner: key.owner, Name: key.name})
}

// Do runs an operation of the guest protocol on the files of an existing session of p, and returns
// its value. Handles are not supported.
func (s *Sessions) Do(ctx context.Context, p tool.Principal, name string, op sandbox.File) (json.RawMessage, error) {
	h, err := s.acquireExisting(ctx, p, name)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	fs, skills, err := s.FS(ctx, p, h)
	if err != nil {
		return nil, err
	}
	around := vfs.Fence{Access: s.cfg.Access, Use: vfs.Use{Principal: p, Session: name, Labels: h.labels}}
	if err := around.Pass(ctx, fs, op.Op, op.Path, op.To); err != nil {
		return nil, err
	}
	v, err := fs.Do(&op, func(string) ([]byte, error) {
		return nil, tool.Errorf(tool.Invalid, "a handle means something to programs only")
	})
	if err != nil {
		return nil, err
	}
	c := &session.Change{}
	c.Skills = skill.Changes(skills, fs.Skills())
	files, err := h.files.Next(fs.Workspace(), c)
	if err != nil {
		return nil, err
	}
	if files == h.files && len(c.Skills) == 0 {
		return v, nil
	}
	return v, s.commit(ctx, h.liveSession, c, h.state.Clone(), files)
}

// pair acquires two sessions of p, always in the same order.
func (s *Sessions) pair(ctx context.Context, p tool.Principal, a, b string) (ha, hb *Hold, err error) {
	if b < a {
		hb, ha, err = s.pair(ctx, p, b, a)
		return ha, hb, err
	}
	if ha, err = s.acquire(ctx, key{p.ID, a}); err != nil {
		return nil, nil, err
	}
	if hb, err = s.acquire(ctx, key{p.ID, b}); err != nil {
		ha.Release()
		return nil, nil, err
	}
	return ha, hb, nil
}

// Fork copies a session of p, as its last program left it, to an unused name. The copy is
// independent. It has the promises and timers of the original, but its own randomness.
func (s *Sessions) Fork(ctx context.Context, p tool.Principal, from, to string) (*Info, error) {
	if err := s.requireStore(); err != nil {
		return nil, err
	}
	if err := session.CheckName(to); err != nil {
		return nil, err
	}
	if from == to {
		return nil, errNameTaken(to)
	}
	src, dst, err := s.pair(ctx, p, from, to)
	if err != nil {
		return nil, err
	}
	defer src.Release()
	defer dst.Release()
	switch {
	case src.rec == nil:
		return nil, noSession(from)
	case dst.rec != nil:
		return nil, errNameTaken(to)
	case src.state.HasProcess():
		return nil, errProcess(from, "copied")
	}
	if err := s.label(ctx, dst.liveSession, src.labels); err != nil {
		return nil, err
	}
	c := &session.Change{Record: &session.Record{Programs: src.rec.Programs, Engine: src.rec.Engine},
		Refer: src.files.Refs(), Journal: src.rec.ID}
	for _, g := range src.state.Guests {
		c.Refer = append(c.Refer, g.Blob)
	}
	if s.cfg.Privacy != nil {
		if err := s.cfg.Privacy.Fork(ctx, p.ID, from, to); err != nil {
			return nil, err
		}
	}
	if err := s.commit(ctx, dst.liveSession, c, src.state.Clone(), src.files); err != nil {
		return nil, err
	}
	s.forkHot(ctx, src.liveSession, dst.liveSession)
	i := s.info(ctx, dst.rec)
	return &i, nil
}

// forkHot copies the guests in memory, so that the copy needn't be restored from the store. A guest
// that can't be copied is restored when it is needed.
func (s *Sessions) forkHot(ctx context.Context, src, dst *liveSession) {
	for language, box := range src.hot {
		f, ok := box.(sandbox.Forker)
		if !ok {
			continue
		}
		copied, err := f.Fork(ctx)
		if err != nil {
			s.cfg.Log.Debug("sandbox not forked", "session", src.key.name, "error", err)
			continue
		}
		dst.hot[language] = copied
	}
}

// errProcess returns the error for a session whose guests can't be stored.
func errProcess(name, verb string) error {
	return tool.Errorf(tool.Unavailable, "session %q can't be %s: its programs run in a process sandbox, and the "+
		"memory of processes can't be stored. Copy its files (biplane cp -r %s:workspace .), and begin another "+
		"session with them", name, verb, name)
}

func errNameTaken(name string) error {
	return tool.Errorf(tool.Conflict, "there is a session %q already: choose another name, or end that one", name)
}
