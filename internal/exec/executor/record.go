package executor

import (
	"slices"

	"github.com/biplane-dev/biplane/internal/exec/journal"
)

// planMode is the mode of a Begin whose program is planned.
const planMode = "plan"

// An about describes a line for the guest.
type about struct {
	call     int64 // the guest's id of the call whose outcome the line is; 0: none
	at       int64 // HostMessage.At
	recorded bool  // the journal already has the line
}

func is(b *bool) bool { return b != nil && *b }

// maxReason is the maximum length of a failure's reason in a list of executions, in bytes.
const maxReason = 300

// mostOwed is the maximum number of ended executions whose journals are not yet checked for write
// errors.
const mostOwed = 256

// owe adds the journal of an execution that ended. It is checked later, so that no one has to wait
// for it here.
func (x *Executor) owe(l *journal.Log) {
	if l == nil {
		return
	}
	x.mu.Lock()
	if x.closed { // its journal accepts no more writes
		x.mu.Unlock()
		return
	}
	x.owed = append(x.owed, l)
	var due []*journal.Log
	if len(x.owed) > mostOwed {
		due, x.owed = x.owed[:mostOwed/2:mostOwed/2], slices.Clone(x.owed[mostOwed/2:])
	}
	x.mu.Unlock()
	x.amend(due)
}

// amendAll retries recording the end of executions whose journals could not be written.
func (x *Executor) amendAll() {
	x.mu.Lock()
	due := x.owed
	x.owed = nil
	x.mu.Unlock()
	x.amend(due)
}

func (x *Executor) amend(due []*journal.Log) {
	for i, l := range due {
		if err := l.Amend(); err != nil { // the others would fail as well
			x.mu.Lock()
			x.owed = append(slices.Clone(due[i:]), x.owed...)
			x.mu.Unlock()
			return
		}
	}
}

// input returns the input of the guest, as the journal has it.
func (r *run) input() journal.Prepared {
	p := journal.Prepared{
		Code: r.program.Code, Name: r.program.Name, Line: r.program.Line,
		Runtime: r.program.Runtime, Namespaces: r.program.Namespaces, Aliases: r.program.Aliases,
		Whole:    r.program.Whole,
		Declared: r.program.Declared, Notes: r.program.Notes, Remark: r.program.Remark,
		Sandbox: r.machine.isolation.guests.KindName(),
	}
	if r.machine.hold != nil {
		p.InSession, p.Known = true, declaredNames(r.machine.hold, r.language)
	}
	if r.machine.hold != nil && r.machine.hold.Record() != nil {
		p.Session, p.Revision, p.Programs = r.machine.hold.Record().ID, r.machine.hold.Record().Revision,
			r.machine.hold.State().Journal.Programs
	}
	return p
}
