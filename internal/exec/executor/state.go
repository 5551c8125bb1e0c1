package executor

import (
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
)

// A run that has begun and not ended is either running or waiting. It waits while it is suspended
// until a call is answered (naps.asleep), or while it waits only for people (heldOnly). The state
// is computed here; prepareAndRun and conclude set it at the run's start and end.

// shift calls f, which changes the inputs of the state, and reports a new state. r.mu is held while
// f runs.
func (r *run) shift(f func()) {
	r.shifting.Lock() // so that states are reported in order
	defer r.shifting.Unlock()
	r.mu.Lock()
	f()
	changed, now := r.weigh()
	r.mu.Unlock()
	if changed {
		r.log.Update(func(rec *journal.Record) { rec.State = journal.State(now) }, true)
		r.changed()
	}
	r.passOn()
}

// weigh updates the state of a run that has begun and not ended. r.mu is held.
func (r *run) weigh() (changed bool, now execution.State) {
	held := r.heldOnly()
	if now = execution.Running; held || r.naps.asleep {
		now = execution.Waiting
	}
	if held {
		if r.naps.able && r.naps.timer != nil {
			r.naps.set = true
			r.naps.timer.Reset(heldPatience)
		}
		r.holds.tell()
	}
	changed = r.exec.State != now
	r.exec.State = now
	return changed, now
}
