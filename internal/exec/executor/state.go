package executor

import (
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A state is what calls, messages of the guest, timers and decisions change of an execution. Each
// event is one method, which holds the mutex: an event can change several parts at once. The parts
// don't lock, and don't read each other's fields.
type state struct {
	*env
	history *history
	taint   *taint

	relay      relay
	mu         sync.Mutex // guards what follows
	exec       execution.Execution
	program    *program.Program // nil: not prepared yet, or dropped
	answered   *tool.Result     // the answer; set before run.done is closed
	table      callTable
	messages   int // sent by the guest
	clock      clock
	output     output
	spared     spared
	end        *sandbox.GuestMessage // Done or Fail
	news       chan struct{}         // closed on a change; nil: no one is watching
	pending    pending
	suspension suspension
}

// A run that has begun and not ended is either running or waiting. It waits while it is suspended
// until a call is answered (suspension.asleep), or while it waits only for people (heldOnly). The
// state is computed here; prepareAndRun and conclude set it at the run's start and end.

// shift calls f, which changes the inputs of the state, and reports a new state. s.mu is held while
// f runs.
func (s *state) shift(f func()) {
	s.relay.mu.Lock() // so that states are reported in order
	defer s.relay.mu.Unlock()
	s.mu.Lock()
	f()
	changed, now := s.weigh()
	s.mu.Unlock()
	if changed {
		s.history.Update(func(rec *journal.Record) { rec.State = journal.State(now) }, true)
		s.notifyWatchers()
	}
	s.passHold()
}

// weigh updates the state of a run that has begun and not ended. s.mu is held.
func (s *state) weigh() (changed bool, now execution.State) {
	held := s.heldOnly()
	if now = execution.Running; held || s.suspension.asleep {
		now = execution.Waiting
	}
	if held {
		s.suspension.checkIn(heldPatience)
		s.pending.notifyCaller()
	}
	changed = s.exec.State != now
	s.exec.State = now
	return changed, now
}
