package executor

import (
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// planMode is the mode of a Begin whose program is planned.
const planMode = "plan"

// An about describes a line for the guest.
type about struct {
	call     int64 // the guest's id of the call whose outcome the line is; 0: none
	at       int64 // HostMessage.At
	recorded bool  // the journal already has the line
}

// beforeSend returns the function that the gateway calls before it sends the n-th call. It writes
// the call's intent to the journal first, and if the call may write, syncs it to disk.
func (cs *calls) beforeSend(n int) func(*tool.Call, string) func() error {
	return func(c *tool.Call, decision string) func() error {
		cs.state.mu.Lock()
		rec := &cs.state.exec.Calls[n]
		rec.Reads = c.Tool != nil && c.Tool.Annotations.Reads()
		k := rec.Note
		if !cs.history.isKept() {
			cs.state.mu.Unlock()
			return func() error { return nil }
		}
		again := !k.Sent.IsZero()
		k.Digest = tool.CallDigest(k.Tool, k.Arguments)
		k.Decision, k.Sent, k.ReadOnly, k.Idempotent = decision, cs.x.cfg.Now(), false, false
		if c.Tool != nil {
			k.ReadOnly, k.Idempotent = is(c.Tool.Annotations.ReadOnly), is(c.Tool.Annotations.Idempotent)
		}
		sent := *k
		cs.state.mu.Unlock()
		if !sent.ReadOnly && !sent.Idempotent {
			if err := cs.history.checkCut(false); err != nil {
				return func() error { return cs.refuse(err) }
			}
		}
		p := cs.history.Intent(&sent)
		if again && !sent.ReadOnly && !sent.Idempotent {
			return func() error { return cs.refuse(changedSince(&sent)) }
		}
		switch {
		case !sent.ReadOnly:
			return p.Sync
		case p != nil:
			return p.Safe
		}
		return func() error { return nil }
	}
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

// notifyWatchers notifies the watchers.
func (s *state) notifyWatchers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// nextChange returns a channel that is closed when the run changes.
func (s *state) nextChange() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return s.news
}

// journalCalls returns the calls of a run that is under way, with the delivery order from its
// journal. s.mu is held.
func (s *state) journalCalls(kept []*journal.Call) []journal.Call {
	order := map[int64]int{}
	for _, c := range kept {
		order[c.ID] = c.Order
	}
	out := make([]journal.Call, 0, len(s.exec.Calls))
	for i := range s.exec.Calls {
		rec := &s.exec.Calls[i]
		if rec.Note == nil {
			continue
		}
		c := *rec.Note
		c.Order = order[c.ID]
		if rec.Pending {
			// it may wait for its turn, or for a person, before it is sent
			c.MS, c.Sent = time.Since(rec.Begun).Milliseconds(), rec.Begun
		}
		out = append(out, c)
	}
	return slices.Clip(out)
}

// input returns the input of the guest, as the journal has it.
func (r *run) input() journal.Prepared {
	p := journal.Prepared{
		Code: r.state.program.Code, Name: r.state.program.Name, Line: r.state.program.Line, Runtime: r.state.program.Runtime, Namespaces: r.state.program.Namespaces, Aliases: r.state.program.Aliases, Whole: r.state.program.Whole,
		Declared: r.state.program.Declared, Notes: r.state.program.Notes, Remark: r.state.program.Remark,
		Sandbox: r.machine.isolation.guests.KindName(),
	}
	if r.machine.hold != nil {
		p.InSession, p.Known = true, declaredNames(r.machine.hold, r.language)
	}
	if r.machine.hold != nil && r.machine.hold.Record() != nil {
		p.Session, p.Revision, p.Programs = r.machine.hold.Record().ID, r.machine.hold.Record().Revision, r.machine.hold.State().Journal.Programs
	}
	return p
}
