package executor

import (
	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/journal"
)

// A run that has begun and not ended is running, or it waits: because it is suspended until a call
// is answered (naps.asleep), or for nothing but people (heldOnly). Which of these it is is worked
// out here; its beginning (prepareAndRun) and its end (conclude) set it, too.

// shift changes, by f, what the state is made of, and tells of another one. r.mu is held while f
// runs.
func (r *run) shift(f func()) {
	r.shifting.Lock() // so that what is told last is how it is
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

// weigh sets the state of a run that has begun and not ended: it waits when it is suspended, or for
// nothing but people. r.mu is held.
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
