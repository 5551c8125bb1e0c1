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
	r.relay.mu.Lock() // so that states are reported in order
	defer r.relay.mu.Unlock()
	r.mu.Lock()
	f()
	changed, now := r.weigh()
	r.mu.Unlock()
	if changed {
		r.history.Update(func(rec *journal.Record) { rec.State = journal.State(now) }, true)
		r.changed()
	}
	r.passOn()
}

// weigh updates the state of a run that has begun and not ended. r.mu is held.
func (r *run) weigh() (changed bool, now execution.State) {
	held := r.heldOnly()
	if now = execution.Running; held || r.suspension.asleep {
		now = execution.Waiting
	}
	if held {
		r.suspension.checkIn(heldPatience)
		r.pending.notifyCaller()
	}
	changed = r.exec.State != now
	r.exec.State = now
	return changed, now
}
