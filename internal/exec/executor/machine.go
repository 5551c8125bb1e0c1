package executor

import (
	"context"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A machine is the sandbox in which a program runs, and the session that it may belong to.
//
// A program whose calls all take long is suspended meanwhile. Its stream is paused, which ends the
// Run, and the guest is stored and closed. The next line for the guest (an answer, a timer)
// restores it, and the next Run continues. For the guest no time has passed, apart from the time of
// day in that line.
type machine struct {
	*env
	state     *state
	history   *history
	meter     *meter
	dialog    *dialog
	pauses    *suspension
	isolation isolation
	hold      *live.Hold      // on its session; nil: it has none
	box       sandbox.Sandbox // nil: returned to its session
	slot      bool            // it occupies a slot of the queue
	origin    live.Origin
	ran       error // error of the last Run; nil: its guest can continue
	lost      bool  // its guest is a process that is not kept
	moves     bool  // its session moves to another kind of sandbox with this program
}

// runGuest runs the guest to the end of its program, in as many Runs as needed.
func (m *machine) runGuest() (exit int, err error) {
	for {
		ctx, cancel := context.WithCancelCause(m.ctx)
		able := m.pauses.startRun(cancel)
		cmd := &sandbox.Cmd{Guest: guestStream{m.dialog.stream.Open(), m.dialog}, Ask: m.dialog.answerQuestion,
			Keep: able || m.hold != nil, Next: m.dialog.stream.Next, Once: m.hold == nil}
		if n := m.dialog.calls.taint.network; n != nil && m.isProcess() {
			cmd.Traffic = n
		}
		cmd.CPU = m.meter.remaining(m.x.cfg.Limits.CPU)
		exit, err = m.box.Run(ctx, cmd)
		cancel(nil)
		m.meter.addCPU(cmd.Usage.CPU)
		if err != nil || !m.dialog.stream.Resume() {
			return exit, err
		}
		if err := m.suspendUntilLine(); err != nil {
			return -1, err
		}
	}
}

// suspendUntilLine stores the guest, waits until a line arrives for it, and restores it.
func (m *machine) suspendUntilLine() error {
	if m.dialog.stream.Unread() {
		return nil
	}
	began := time.Now()
	b, err := m.storeGuest()
	if err != nil {
		if m.ctx.Err() != nil {
			return context.Cause(m.ctx)
		}
		m.x.cfg.Log.Warn("program not suspended", "execution", m.id, "error", err)
		m.pauses.setAble(false)
		m.dialog.stream.Wait(m.ctx) // it can't be suspended, so it waits in memory
		return context.Cause(m.ctx)
	}
	defer func() {
		if err := m.x.cfg.Store.Discard(context.WithoutCancel(m.ctx), b); err != nil {
			m.x.cfg.Log.Warn("suspended program not removed", "execution", m.id, "error", err)
		}
	}()
	m.x.queue.Leave(m.principal.ID)
	m.state.setAsleep(true)
	m.dialog.stream.Wait(m.ctx)
	m.state.setAsleep(false)
	if err := m.x.queue.Rejoin(m.ctx, m.principal.ID); err != nil {
		m.slot = false
		return err
	}
	if m.ctx.Err() != nil {
		return context.Cause(m.ctx)
	}
	if m.box, err = m.x.live.Restore(m.ctx, m.isolation.guests, m.principal.ID, m.language, b); err != nil {
		return err
	}
	m.state.resumeGuest(time.Since(began))
	return nil
}

// storeGuest stores the guest's current state and closes the guest.
func (m *machine) storeGuest() (blob string, err error) {
	snapshot, err := guest.Snapshot(m.ctx, m.box)
	if err != nil {
		return "", err
	}
	if most := m.x.cfg.Limits.Sessions.Size; int64(len(snapshot)) > most {
		return "", tool.Errorf(tool.Limit, "it holds %s, packed", text.Size(len(snapshot)))
	}
	b := session.NewBlob(snapshot)
	if err := m.x.cfg.Store.Spool(m.ctx, b); err != nil {
		return "", err
	}
	if err := m.box.Close(); err != nil {
		return "", errors.Join(err, m.x.cfg.Store.Discard(context.WithoutCancel(m.ctx), b.ID))
	}
	return b.ID, nil
}

// openBox gets a sandbox for the program: a fresh one, or its session's.
func (m *machine) openBox() (err error) {
	if m.hold == nil {
		m.box, err = m.isolation.guests.Fresh(m.ctx, m.principal.ID, m.language)
		return err
	}
	if m.history.isStored() {
		m.box, err = m.x.recordedGuest(m.ctx, m.history.story())
	} else {
		m.box, m.origin, err = m.hold.Guest(m.ctx, m.isolation.guests, m.language)
	}
	if err != nil {
		return err
	}
	if m.isProcess() {
		return nil
	}
	if _, ok := m.box.(sandbox.Snapshotter); !ok {
		m.closeBox()
		return guest.ErrNoSnapshots
	}
	m.history.recordGuest(m.language)
	return nil
}

// isProcess reports whether the guest exists only as processes: it has no snapshots.
func (m *machine) isProcess() bool {
	_, ok := m.box.(sandbox.Freezer)
	return ok
}

func (m *machine) closeBox() {
	if m.box == nil {
		return
	}
	if err := m.box.Close(); err != nil {
		m.x.cfg.Log.Warn("sandbox not closed", "execution", m.id, "error", err)
	}
}
