package executor

import (
	"context"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A program whose calls all take long is suspended meanwhile. Its stream is paused, which ends the
// Run, and the guest is stored and closed. The next line for the guest (an answer, a timer)
// restores it, and the next Run continues. For the guest no time has passed, apart from the time of
// day in that line.

// maybeNap pauses the program if it only waits, and has done so for long enough.
func (r *run) maybeNap() {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	r.state.suspension.set = false
	if r.state.end != nil || r.state.table.outstanding == 0 {
		return // the next call starts the timer again
	}
	now := time.Now()
	most := r.state.suspension.patience
	if r.state.heldOnly() {
		most = heldPatience
	}
	wait, again := r.state.suspension.remaining(now, most)
	if soon, set := r.state.clock.untilTimer(now); set && soon < r.state.suspension.patience {
		wait = max(wait, soon)
	}
	if wait <= 0 && r.state.suspension.canPause() && r.stream.Pause() {
		return
	}
	r.state.suspension.checkIn(max(wait, again))
}

// runGuest runs the guest to the end of its program, in as many Runs as needed.
func (r *run) runGuest() (exit int, err error) {
	for {
		ctx, cancel := context.WithCancelCause(r.ctx)
		r.state.mu.Lock()
		r.state.suspension.stopRun = cancel
		r.state.mu.Unlock()
		cmd := &sandbox.Cmd{Guest: r.stream.Open(), Ask: r.ask, Keep: r.state.suspension.able || r.hold != nil, Next: r.stream.Next}
		cmd.CPU = r.meter.remaining(r.x.cfg.Limits.CPU)
		exit, err = r.box.Run(ctx, cmd)
		cancel(nil)
		r.meter.addCPU(cmd.Usage.CPU)
		if err != nil || !r.stream.Resume() {
			return exit, err
		}
		if err := r.nap(); err != nil {
			return -1, err
		}
	}
}

// strayed ends a guest that continues after its program has sent its last message. The guest of a
// session may continue: what it does then is part of its state.
func (r *run) strayed() {
	if r.hold != nil {
		return
	}
	stop := r.state.suspension.stopRun
	r.state.clock.limitStray(func() { stop(errEnded) })
}

// nap stores the guest, waits until a line arrives for it, and restores it.
func (r *run) nap() error {
	if r.stream.Unread() {
		return nil
	}
	began := time.Now()
	b, err := r.spool()
	if err != nil {
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		r.x.cfg.Log.Warn("suspend a program", "execution", r.id, "error", err)
		r.state.mu.Lock()
		r.state.suspension.able = false
		r.state.mu.Unlock()
		r.stream.Wait(r.ctx) // it can't be suspended, so it waits in memory
		return context.Cause(r.ctx)
	}
	defer func() {
		if err := r.x.cfg.Store.Discard(context.WithoutCancel(r.ctx), b); err != nil {
			r.x.cfg.Log.Warn("remove a suspended program", "execution", r.id, "error", err)
		}
	}()
	r.x.queue.Leave(r.principal.ID)
	r.state.shift(func() { r.state.suspension.asleep = true })
	r.stream.Wait(r.ctx)
	r.state.shift(func() { r.state.suspension.asleep = false })
	if err := r.x.queue.Rejoin(r.ctx, r.principal.ID); err != nil {
		r.slot = false
		return err
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.box, err = r.x.live.Restore(r.ctx, r.isolation.guests, r.principal.ID, r.language, b); err != nil {
		return err
	}
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	r.state.suspension.recordSuspension(time.Since(began))
	if r.state.table.outstanding > 0 {
		r.state.suspension.watchCalls()
	}
	return nil
}

// spool stores the guest's current state and closes the guest.
func (r *run) spool() (blob string, err error) {
	snapshot, err := guest.Snapshot(r.ctx, r.box)
	if err != nil {
		return "", err
	}
	if most := r.x.cfg.Limits.Sessions.Size; int64(len(snapshot)) > most {
		return "", tool.Errorf(tool.Limit, "it holds %s, packed", prose.Size(len(snapshot)))
	}
	b := session.NewBlob(snapshot)
	if err := r.x.cfg.Store.Spool(r.ctx, b); err != nil {
		return "", err
	}
	if err := r.box.Close(); err != nil {
		return "", errors.Join(err, r.x.cfg.Store.Discard(context.WithoutCancel(r.ctx), b.ID))
	}
	return b.ID, nil
}
