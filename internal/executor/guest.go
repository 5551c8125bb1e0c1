package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/tool"
)

// runtimes are the names that drivers have for what runs a language.
var runtimes = map[string]string{"typescript": "js", "python": "python"}

// An origin says where the guest of a program comes from.
type origin struct {
	from string // "new", "memory", "disk", "journal"
	why  string // of "journal"
	took time.Duration
}

// text says it in an answer.
func (o origin) text() string {
	switch o.from {
	case "new":
		return " (new)"
	case "disk":
		return fmt.Sprintf(" (resumed from disk in %.1f ms)", o.took.Seconds()*1e3)
	case "journal":
		return fmt.Sprintf(" (rebuilt from its journal in %.1f ms, since %s)", o.took.Seconds()*1e3, o.why)
	}
	return ""
}

// spec is what sandboxes are made for.
func (x *Executor) spec(language, owner string) sandbox.Spec {
	lim := x.cfg.Limits
	return sandbox.Spec{Runtime: runtimes[language], Owner: owner, Memory: lim.Memory, CPU: lim.CPU}
}

// capabilities are what a driver says that it can do, asked until it has said so once: what kept it from that may pass.
type capabilities struct {
	mu   sync.Mutex
	said *sandbox.Capabilities
}

func (c *capabilities) of(ctx context.Context, d sandbox.Driver) (sandbox.Capabilities, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said == nil {
		said, err := d.Probe(ctx)
		if err != nil {
			return said, err
		}
		c.said = &said
	}
	return *c.said, nil
}

// runnable reports whether the driver runs a language, and where it does what it can.
func (x *Executor) runnable(language string) (sandbox.Capabilities, error) {
	caps, err := x.caps.of(x.ctx, x.cfg.Driver)
	var crash *sandbox.CrashError
	switch {
	case errors.As(err, &crash): // the next program may find another process
		return caps, err
	case err != nil:
		return caps, &tool.Error{Kind: tool.Unavailable, Msg: "no sandbox can run here: " + err.Error(), Err: err}
	}
	if !slices.Contains(caps.Runtimes, runtimes[language]) {
		var there []string
		for name, runtime := range runtimes {
			if slices.Contains(caps.Runtimes, runtime) {
				there = append(there, strconv.Quote(name))
			}
		}
		slices.Sort(there)
		return caps, tool.Errorf(tool.Invalid, "language %q can't run here: write the program in %s", language, strings.Join(there, " or "))
	}
	return caps, nil
}

// guest gives the guest of a language in a session, as the last program left it.
func (x *Executor) guest(ctx context.Context, l *live, language string) (sandbox.Sandbox, origin, error) {
	began := time.Now()
	if box := l.hot[language]; box != nil {
		delete(l.hot, language) // until it is known how the program ended
		return box, origin{from: "memory"}, nil
	}
	spec := x.spec(language, l.key.owner)
	kept := l.state.Guest(language)
	if kept == nil {
		box, err := x.cfg.Driver.Create(ctx, spec)
		if err != nil {
			return nil, origin{}, fmt.Errorf("create a sandbox: %w", err)
		}
		return box, origin{from: "new"}, nil
	}
	box, err := x.restore(ctx, spec, kept.Blob)
	if err == nil {
		return box, origin{from: "disk", took: time.Since(began)}, nil
	}
	if why := lostWhy(err); why != "" {
		if box, err = x.rebuild(ctx, l, language, err); err == nil {
			return box, origin{from: "journal", why: why, took: time.Since(began)}, nil
		}
	}
	return nil, origin{}, err
}

// guestThen gives the guest that a program began with: a fresh one, or what the programs left that its session had run before,
// which run again for that.
func (x *Executor) guestThen(ctx context.Context, st *journal.Story) (sandbox.Sandbox, error) {
	var journals []*session.Journal
	var err error
	for range 3 { // a program of the session may be saved at the same moment
		if journals, err = x.journalsThen(ctx, st); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	return x.rerun(ctx, st.Record.Principal, st.Record.Language, journals)
}

// journalsThen gives the journals of the programs that a session had run when st began.
func (x *Executor) journalsThen(ctx context.Context, st *journal.Story) ([]*session.Journal, error) {
	if st.Prepared.Programs == 0 {
		if st.Prepared.Session != "" {
			return nil, tool.Errorf(tool.Conflict, "the journal of session %q was too long to be kept, and with it the state that the program began from", st.Record.Session)
		}
		return nil, nil
	}
	rec, err := x.cfg.Store.Load(ctx, st.Record.Principal, st.Record.Session)
	if err != nil {
		return nil, err
	}
	if rec == nil || rec.ID != st.Prepared.Session {
		return nil, tool.Errorf(tool.Conflict, "session %q has ended, and with it the state that the program began from", st.Record.Session)
	}
	state, err := session.DecodeState(rec.State)
	if err != nil {
		return nil, err
	}
	journals, err := session.LoadJournals(ctx, x.cfg.Store, rec.ID, state.Journal)
	if err != nil {
		return nil, err
	}
	if len(journals) < st.Prepared.Programs {
		return nil, tool.Errorf(tool.Conflict, "the journal of session %q is not whole", st.Record.Session)
	}
	return journals[:st.Prepared.Programs], nil
}

// lostWhy says why a snapshot is lost for ever; empty when it isn't.
func lostWhy(err error) string {
	var engine *sandbox.EngineError
	switch {
	case errors.As(err, &engine):
		return "its state is of another build of the engine"
	case tool.AsError(err).Kind == tool.Conflict:
		return "its stored state was damaged"
	}
	return ""
}

// restore makes a sandbox of a stored snapshot.
func (x *Executor) restore(ctx context.Context, spec sandbox.Spec, blob string) (sandbox.Sandbox, error) {
	r, ok := x.cfg.Driver.(sandbox.Restorer)
	if !ok {
		return nil, tool.Errorf(tool.Unavailable, "this kind of sandbox can't resume what was suspended")
	}
	snapshot, err := x.cfg.Store.Blob(ctx, blob)
	if err != nil {
		return nil, err
	}
	box, err := r.Restore(ctx, spec, snapshot)
	if err != nil {
		return nil, fmt.Errorf("resume a sandbox: %w", err)
	}
	return box, nil
}

// rebuild makes the guest of a language anew, by running its programs again, with the answers that they had, and stores
// it. lost is why that is needed.
func (x *Executor) rebuild(ctx context.Context, l *live, language string, lost error) (_ sandbox.Sandbox, err error) {
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = tool.Errorf(tool.Conflict, "session %q can't be resumed (%w), nor rebuilt from its journal: %s. End it (biplane sessions end %s) or use another name",
				l.key.name, lost, tool.AsError(err).Msg, l.key.name)
		}
	}()
	if l.rec == nil {
		return nil, lost
	}
	journals, err := session.LoadJournals(ctx, x.cfg.Store, l.rec.ID, l.state.Journal)
	if err != nil {
		return nil, err
	}
	box, snapshot, err := x.replay(ctx, l.key.owner, language, journals)
	if err != nil {
		return nil, err
	}
	blob := session.NewBlob(snapshot)
	state := l.state.Clone()
	g := *state.Guest(language)
	g.Blob, g.Size = blob.ID, int64(len(snapshot))
	c := &session.Change{Add: []session.Blob{blob}, Drop: []string{state.Put(g)}}
	if err := x.commit(ctx, l, c, state, l.files); err != nil {
		return nil, errors.Join(err, box.Close())
	}
	return box, nil
}

// replay runs the programs of a language again, and gives what they leave as a snapshot, too.
func (x *Executor) replay(ctx context.Context, owner, language string, journals []*session.Journal) (box sandbox.Sandbox, snapshot []byte, err error) {
	if box, err = x.rerun(ctx, owner, language, journals); err != nil {
		return nil, nil, err
	}
	s, ok := box.(sandbox.Snapshotter)
	if !ok {
		return nil, nil, errors.Join(errNoSnapshots, box.Close())
	}
	if snapshot, err = s.Snapshot(ctx); err != nil {
		return nil, nil, errors.Join(err, box.Close())
	}
	return box, snapshot, nil
}

// rerun makes a guest that has run the programs of a language again; without any a fresh one.
func (x *Executor) rerun(ctx context.Context, owner, language string, journals []*session.Journal) (box sandbox.Sandbox, err error) {
	if box, err = x.cfg.Driver.Create(ctx, x.spec(language, owner)); err != nil {
		return nil, fmt.Errorf("create a sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, box.Close())
		}
	}()
	for i, j := range journals {
		if j.Language != language {
			continue
		}
		if err := j.Replay(ctx, box, nil); err != nil {
			return nil, tool.Errorf(tool.Conflict, "program %d of %d: %w", i+1, len(journals), err)
		}
	}
	return box, nil
}

var errNoSnapshots = tool.Errorf(tool.Unavailable, "this kind of sandbox has no sessions: its state can't be kept. Leave session out")
