package executor

import "github.com/biplane-dev/biplane/internal/exec/journal"

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

// input returns the input of the guest, as the journal has it.
func (r *run) input() journal.Prepared {
	p := journal.Prepared{
		Code: r.program.Code, Name: r.program.Name, Line: r.program.Line,
		Runtime: r.program.Runtime, Namespaces: r.program.Namespaces, Aliases: r.program.Aliases,
		Whole:    r.program.Whole,
		Declared: r.program.Declared, Notes: r.program.Notes, Remark: r.program.Remark,
		Sandbox: r.machine.isolation.guests.KindName(), Image: r.machine.isolation.guests.ImageName(),
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
