package executor

import (
	"context"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// settle ends a program with respect to its session. Its results are stored before the program is
// reported as successful; if it failed, they are discarded. err is the outcome of the program in
// its sandbox; settle returns how it ended overall.
func (r *run) settle(err error) error {
	well := err == nil && r.hasSucceeded()
	switch {
	case well && r.history.isStored():
		return nil // its results were stored before
	case well && r.isPlanning():
		return r.history.checkComplete() // none of its results are kept
	case well:
		if err = r.history.checkComplete(); err == nil {
			err = r.save()
		}
	}
	if r.machine.hold == nil {
		return err
	}
	if r.machine.isProcess() {
		r.machine.keepProcess(well && err == nil)
		return err
	}
	if well && err == nil && r.machine.ran == nil {
		r.machine.hold.Keep(r.language, r.machine.box)
		r.machine.box = nil
	}
	return err
}

// keepProcess keeps a guest that is a process for the session's next program, also if the program
// failed: there is no earlier state to return to, unless the session moved for this program.
func (m *machine) keepProcess(well bool) {
	end, _ := m.state.lastMessage()
	switch {
	case m.moves && !well:
		return
	case m.ran != nil || end == nil:
		m.hold.RecordLoss(m.language, "the program before was stopped")
	case end.Fail != nil && end.Fail.Error.Kind == string(tool.Limit):
		m.hold.RecordLoss(m.language, "the program before reached a limit")
	default:
		m.hold.Keep(m.language, m.box)
		m.box = nil
		return
	}
	m.lost = true
}

// save stores the program's results in one transaction: the state of its session and its files, and
// skills.
func (r *run) save() error {
	c := &session.Change{Owner: r.principal.ID}
	c.Skills = r.files.changedSkills()
	if r.machine.hold == nil {
		if len(c.Skills) == 0 || r.x.cfg.Store == nil {
			return nil
		}
		defer r.x.skills.Forget()
		return errNotSaved("skills", r.x.cfg.Store.Save(context.WithoutCancel(r.ctx), c))
	}
	if r.machine.ran != nil {
		return r.machine.ran // the guest continued for too long after the program's end
	}
	began := time.Now()
	r.history.Flush()
	if err := r.history.Wait(); err != nil { // its input is stored before its results
		return errNotSaved("journal", err)
	}
	if err := r.saveSession(c); err != nil {
		return errNotSaved("session", err)
	}
	r.saveTime = time.Since(began)
	return nil
}

func errNotSaved(what string, err error) error {
	if err == nil {
		return nil
	}
	e := *tool.AsError(err)
	e.Msg = "the program ended well, but its " + what + " could not be stored: " + e.Msg
	return &e
}

func (r *run) saveSession(c *session.Change) error {
	ctx := context.WithoutCancel(r.ctx) // the program has ended: its calls are made
	state := r.machine.hold.State().Clone()
	g := session.Guest{Language: r.language, Late: r.history.lateAnswers()}
	if r.machine.isProcess() {
		g.Build = r.machine.isolation.build
	} else {
		snapshot, err := guest.Snapshot(ctx, r.machine.box)
		if err != nil {
			return err
		}
		blob := session.NewBlob(snapshot)
		c.Add = append(c.Add, blob)
		g.Blob, g.Size = blob.ID, int64(len(snapshot))
	}
	if old := state.Guest(r.language); old != nil {
		g.Declared = old.Declared
	}
	g.Declared = slices.Compact(
		slices.Sorted(slices.Values(append(slices.Clone(g.Declared), r.program.Declared...))))
	if old := state.Put(g); old != "" {
		c.Drop = append(c.Drop, old)
	}
	files, err := r.machine.hold.Files().Next(r.files.fs.Workspace(), c)
	if err != nil {
		return err
	}
	r.history.appendTo(c, state)
	state.MoveTo(r.machine.isolation.guests.KindName(), guest.StateKind(r.machine.hold.State()))
	state.Image = r.machine.isolation.guests.ImageName()
	c.Record = &session.Record{Programs: 1, Engine: r.machine.isolation.engine}
	if was := r.machine.hold.Record(); was != nil {
		c.Record.Programs += was.Programs
	}
	return r.machine.hold.Commit(ctx, c, state, files)
}

// sessionGuest returns the stored guest of a session, which may be nil, or nil if it has none.
func sessionGuest(hold *live.Hold, language string) *session.Guest {
	if hold == nil {
		return nil
	}
	return hold.State().Guest(language)
}
