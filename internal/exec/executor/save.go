package executor

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// settle ends a program with respect to its session. Its results are stored before the program is
// reported as successful; if it failed, they are discarded. err is how the program ended in its
// sandbox; settle returns how it ended overall.
func (r *run) settle(err error) error {
	well := err == nil && r.well()
	switch {
	case well && r.stored:
		return nil // its results were stored before
	case well && r.planning():
		return r.whole() // none of its results are kept
	case well:
		if err = r.whole(); err == nil {
			err = r.save()
		}
	}
	if r.hold == nil {
		return err
	}
	if well && err == nil && r.ran == nil {
		r.hold.Keep(r.language, r.box)
		r.box = nil
	}
	return err
}

// well reports whether the program reported success.
func (r *run) well() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end != nil && r.end.Done != nil
}

// save stores the program's results in one transaction: the state of its session and its files, and
// skills.
func (r *run) save() error {
	c := &session.Change{Owner: r.principal.ID}
	c.Skills = r.files.changedSkills()
	if r.hold == nil {
		if len(c.Skills) == 0 || r.x.cfg.Store == nil {
			return nil
		}
		defer r.x.skills.Forget()
		return unsaved("skills", r.x.cfg.Store.Save(context.WithoutCancel(r.ctx), c))
	}
	if r.ran != nil {
		return r.ran // the guest continued for too long after the program's end
	}
	began := time.Now()
	r.log.Flush()
	if err := r.log.Wait(); err != nil { // its input is stored before its results
		return unsaved("journal", err)
	}
	if err := r.saveSession(c); err != nil {
		return unsaved("session", err)
	}
	r.saved = time.Since(began)
	return nil
}

func unsaved(what string, err error) error {
	if err == nil {
		return nil
	}
	e := *tool.AsError(err)
	e.Msg = "the program ended well, but its " + what + " could not be stored: " + e.Msg
	return &e
}

func (r *run) saveSession(c *session.Change) error {
	ctx := context.WithoutCancel(r.ctx) // the program has ended: its calls are made
	snapshot, err := guest.Snapshot(ctx, r.box)
	if err != nil {
		return err
	}
	blob := session.NewBlob(snapshot)
	c.Add = append(c.Add, blob)
	state := r.hold.State().Clone()
	g := session.Guest{Language: r.language, Blob: blob.ID, Size: int64(len(snapshot)), Late: r.late}
	if old := state.Guest(r.language); old != nil {
		g.Declared = old.Declared
	}
	g.Declared = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(g.Declared), r.program.Declared...))))
	if old := state.Put(g); old != "" {
		c.Drop = append(c.Drop, old)
	}
	files, err := r.hold.Files().Next(r.files.fs.Workspace(), c)
	if err != nil {
		return err
	}
	r.saveJournal(c, state)
	state.Sandbox = r.isolation.guests.KindName()
	c.Record = &session.Record{Programs: 1, Engine: r.isolation.engine}
	if was := r.hold.Record(); was != nil {
		c.Record.Programs += was.Programs
	}
	return r.hold.Commit(ctx, c, state, files)
}

// saveJournal appends the program's journal to the session's, or discards the session's journal if
// it gets too large.
func (r *run) saveJournal(c *session.Change, state *session.State) {
	if state.Journal.Lost != "" {
		return
	}
	most := r.x.cfg.Limits.Sessions.Journal
	if j := r.recorder.Journal(); j != nil {
		if part := session.NewBlob(j.Encode()); state.Journal.Bytes+int64(len(part.Data)) <= int64(most) {
			c.Add, c.Append = append(c.Add, part), []string{part.ID}
			state.Journal = state.Journal.Next(part.Data)
			return
		}
	}
	c.Forget = true
	state.Journal = session.Mark{Lost: "its programs heard more than " + prose.Size(most)}
}

// lateAnswer keeps an answer that arrived after the program had ended. The session's next program
// receives it.
func (r *run) lateAnswer(a *sandbox.Answer) {
	line, err := tool.Marshal(sandbox.HostMessage{Answer: a})
	if err != nil {
		return
	}
	r.mu.Lock()
	r.late = append(r.late, json.RawMessage(line))
	r.mu.Unlock()
}

// unheard returns the late answers that earlier programs of the session did not receive, as lines
// with the current time.
func (r *run) unheard() (lines [][]byte) {
	if r.hold == nil {
		return nil
	}
	g := r.hold.State().Guest(r.language)
	if g == nil {
		return nil
	}
	for _, raw := range g.Late {
		var m sandbox.HostMessage
		if json.Unmarshal(raw, &m) != nil {
			continue // it was marshaled by lateAnswer
		}
		m.At = r.now()
		if line, err := tool.Marshal(m); err == nil {
			lines = append(lines, line)
		}
	}
	return lines
}
