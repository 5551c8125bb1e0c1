package executor

import (
	"context"
	"errors"
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/session"
	"github.com/biplane-dev/biplane/internal/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A program whose calls all take long is suspended meanwhile: its stream is paused, so that the Run
// ends; the guest is stored and closed; the next line for it (an answer, a timer) brings it back,
// and the next Run goes on. For the guest no time has passed but by the time of day of that line.

const (
	// maxPatience is the longest time that calls must have been under way before a program is
	// suspended that was suspended for short times before.
	maxPatience = time.Minute
	// straying is how long a guest may go on when its program has said its last word.
	straying = 50 * time.Millisecond
)

// Runs says what a run keeps about its guest's Runs. Its fields are guarded by run.mu.
type naps struct {
	able     bool          // the program can be suspended
	patience time.Duration // how long its calls must have been under way
	active   time.Time     // when something was said last, on either side
	timer    *time.Timer   // when to look whether it is time
	set      bool          // timer is running
	due      time.Time     // of the program's own timer; zero: there is none
	count    int
	asleep   bool // it is suspended
	held     bool // the guest stands still for its next line (GuestMessage.Hold)
}

// watchNap sees to it that the program is looked at when its calls have taken long. r.mu is held.
func (r *run) watchNap() {
	if r.naps.able && !r.naps.set && r.naps.timer != nil {
		r.naps.set = true
		r.naps.timer.Reset(r.naps.patience)
	}
}

// maybeNap pauses the program if it only waits, and has for long enough.
func (r *run) maybeNap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.naps.set = false
	if r.end != nil || r.outstanding == 0 {
		return // the next call looks again
	}
	now := time.Now()
	patience := r.naps.patience
	if r.heldOnly() {
		patience = min(patience, heldPatience)
	}
	wait := patience - now.Sub(r.naps.active)
	if soon := r.naps.due.Sub(now); !r.naps.due.IsZero() && soon < r.naps.patience {
		wait = max(wait, soon)
	}
	if wait <= 0 && r.asking == 0 && !r.naps.held && r.stream.Pause() {
		return
	}
	r.naps.set = true
	r.naps.timer.Reset(max(wait, patience/4))
}

// runGuest runs the guest to the end of its program, in as many Runs as that takes.
func (r *run) runGuest() (exit int, err error) {
	for {
		ctx, cancel := context.WithCancelCause(r.ctx)
		r.mu.Lock()
		r.stopRun = cancel
		r.mu.Unlock()
		cmd := &sandbox.Cmd{Guest: r.stream.Open(), Ask: r.ask, Keep: r.naps.able || r.hold != nil, Next: r.stream.Next}
		if r.cpu > 0 {
			if cmd.CPU = r.x.cfg.Limits.CPU - r.cpu; cmd.CPU <= 0 {
				cmd.CPU = time.Millisecond // the driver says that it was too much
			}
		}
		exit, err = r.box.Run(ctx, cmd)
		cancel(nil)
		r.cpu += cmd.Usage.CPU
		if err != nil || !r.stream.Resume() {
			return exit, err
		}
		if err := r.nap(); err != nil {
			return -1, err
		}
	}
}

// strayed ends a guest that goes on when its program has said its last word. A session's guest may:
// what it does then is part of its state.
func (r *run) strayed() {
	if r.hold != nil {
		return
	}
	stop := r.stopRun
	r.stray = time.AfterFunc(straying, func() { stop(errEnded) })
}

// nap puts the guest into the store, waits until there is something for it to hear, and brings it
// back.
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
		r.mu.Lock()
		r.naps.able = false
		r.mu.Unlock()
		r.stream.Wait(r.ctx) // it can't be suspended: it waits as it is
		return context.Cause(r.ctx)
	}
	defer func() {
		if err := r.x.cfg.Store.Discard(context.WithoutCancel(r.ctx), b); err != nil {
			r.x.cfg.Log.Warn("remove a suspended program", "execution", r.id, "error", err)
		}
	}()
	r.x.queue.Leave(r.principal.ID)
	r.shift(func() { r.naps.asleep = true })
	r.stream.Wait(r.ctx)
	r.shift(func() { r.naps.asleep = false })
	if err := r.x.queue.Rejoin(r.ctx, r.principal.ID); err != nil {
		r.slot = false
		return err
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	if r.box, err = r.x.live.Restore(r.ctx, r.principal.ID, r.language, b); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.naps.count++
	r.naps.active = time.Now()
	if time.Since(began) < 4*r.naps.patience {
		r.naps.patience = min(2*r.naps.patience, max(maxPatience, r.naps.patience))
	}
	if r.outstanding > 0 {
		r.watchNap()
	}
	return nil
}

// spool stores the guest as it is and closes it.
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
