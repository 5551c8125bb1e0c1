package executor

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/base/prose"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/session"
	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// This file writes a run's journal. If the run has none, run.log is nil.

// planMode is the mode of a Begin whose program is planned.
const planMode = "plan"

// begins creates the journal of a new run.
func (r *run) begins(a arguments) {
	if r.x.cfg.Journal == nil {
		return
	}
	rec := journal.Record{ID: r.id, Principal: r.principal.ID, Client: r.principal.Client, Session: a.session, Language: r.language,
		State: journal.Running, Started: r.exec.Started, After: a.after}
	b := journal.Begin{Source: a.Code, Language: a.Language, Session: a.session, After: a.after, Timeout: a.timeout, Files: a.files, Carries: a.carries, Principal: r.principal, Labels: r.taint.labels.All()}
	b.Tier, b.Sandbox = a.tier, a.kind
	if a.plan {
		b.Mode = planMode
	}
	r.log = journal.NewLog(r.x.cfg.Journal, rec, b, r.x.cfg.Limits.Journal.Execution, r.x.cfg.Now)
}

// closing returns the error with which the run ends when this process shuts down. If it has a
// journal, the next process continues the run.
func (r *run) closing() error {
	if r.log == nil {
		return errClosing
	}
	e := tool.Errorf(tool.Unavailable, "biplane is shutting down: the program goes on when biplane does. Call resume with {\"execution\": %q} then; don't run it again", r.id)
	e.Err = tool.ErrGoesOn
	return e
}

// journalBegun records the input of the guest before the guest receives it.
func (r *run) journalBegun(caps sandbox.Capabilities) {
	if r.log == nil || r.recall != nil {
		return
	}
	r.log.Update(func(rec *journal.Record) {
		rec.Language, rec.Tier, rec.Engine, rec.Build = r.language, caps.Tier, guest.Engine(caps, r.language), guest.Build(caps, r.language)
	}, false)
	p := journal.Prepared{
		Code: r.program.Code, Name: r.program.Name, Line: r.program.Line, Runtime: r.program.Runtime, Namespaces: r.program.Namespaces, Aliases: r.program.Aliases, Whole: r.program.Whole,
		Declared: r.program.Declared, Notes: r.program.Notes, Remark: r.program.Remark,
		Sandbox: r.isolation.guests.KindName(),
	}
	if r.hold != nil {
		p.InSession, p.Known = true, r.declared(r.language)
	}
	if r.hold != nil && r.hold.Record() != nil {
		p.Session, p.Revision, p.Programs = r.hold.Record().ID, r.hold.Record().Revision, r.hold.State().Journal.Programs
	}
	r.log.Prepared(p)
}

// An about describes a line for the guest.
type about struct {
	call     int64 // the guest's id of the call whose outcome the line is; 0: none
	at       int64 // HostMessage.At
	recorded bool  // the journal already has the line
}

// told records a line that was sent to the guest; lines are recorded in the order of sending.
func (r *run) told(line []byte, a about) {
	r.recorder.Heard(session.Line, line)
	switch {
	case a.recorded:
	case a.call != 0:
		r.log.Delivered(a.call, a.at, false)
	default:
		r.log.Heard(line)
	}
}

// note returns a new journal entry for the n-th call. r.mu is held.
func (r *run) note(n int, c *sandbox.GuestCall, path, asked string) *journal.Call {
	if r.log == nil {
		return nil
	}
	return &journal.Call{N: n + 1, ID: c.ID, Tool: path, Arguments: c.Args, Asked: asked}
}

// leaving returns the function that the gateway calls before it sends the n-th call. It writes the
// call's intent to the journal first, and if the call may write, syncs it to disk.
func (r *run) leaving(n int) func(*tool.Call, string) func() error {
	return func(c *tool.Call, decision string) func() error {
		r.mu.Lock()
		rec := &r.exec.Calls[n]
		rec.Reads = c.Tool != nil && c.Tool.Annotations.Reads()
		k := rec.Note
		if r.log == nil {
			r.mu.Unlock()
			return func() error { return nil }
		}
		again := !k.Sent.IsZero()
		k.Digest = tool.CallDigest(k.Tool, k.Arguments)
		k.Decision, k.Sent, k.ReadOnly, k.Idempotent = decision, r.x.cfg.Now(), false, false
		if c.Tool != nil {
			k.ReadOnly, k.Idempotent = is(c.Tool.Annotations.ReadOnly), is(c.Tool.Annotations.Idempotent)
		}
		sent := *k
		r.mu.Unlock()
		if !sent.ReadOnly && !sent.Idempotent {
			if err := r.x.cut(&r.past, false); err != nil {
				return func() error { return r.refuse(err) }
			}
		}
		p := r.log.Intent(&sent)
		if again && !sent.ReadOnly && !sent.Idempotent {
			return func() error { return r.refuse(changedSince(&sent)) }
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

// outcomeOf returns the journal entry for a call that has ended, before the program receives the
// outcome. r.mu is held.
func (r *run) outcomeOf(rec *execution.Call, value json.RawMessage, failure *sandbox.GuestError, blocks []journal.Block) *journal.Call {
	k := rec.Note
	if k == nil {
		return nil
	}
	if k.Digest == "" {
		k.Digest = tool.CallDigest(k.Tool, k.Arguments)
	}
	k.Value, k.Failure, k.Blocks, k.Unsent = value, failure, blocks, rec.Unsent
	k.MS, k.Bytes, k.Error, k.From, k.Ended = rec.MS, rec.Bytes, rec.Error, rec.From, r.x.cfg.Now()
	if failure != nil {
		k.Kind = failure.Kind
	}
	out := *k
	k.Value, k.Failure, k.Blocks = nil, nil, nil // the journal has them
	return &out
}

// maxReason is the maximum length of a failure's reason in a list of executions, in bytes.
const maxReason = 300

// journalEnd writes how the run ended to its journal. shown is e as a model may see it, or nil if
// hiding failed.
func (r *run) journalEnd(e, shown *execution.Execution, res *tool.Result) {
	if r.log == nil {
		return
	}
	raw, err := tool.Marshal(e)
	if err != nil {
		r.x.cfg.Log.Error("write down an execution", "execution", r.id, "error", err)
	}
	r.mu.Lock()
	end := journal.End{State: journal.State(e.State), Execution: raw, Undefined: e.Undefined, Answer: res.Raw, Labels: e.Labels}
	if r.spoke {
		end.Said = r.voice.Sum()
	}
	calls := len(r.exec.Calls)
	r.mu.Unlock()
	r.log.End(end, func(rec *journal.Record) {
		rec.State, rec.Ended, rec.Calls = end.State, r.x.cfg.Now(), calls
		rec.Language = r.language
		switch {
		case e.State == execution.Interrupted:
			rec.Why = e.Error.Message
		case shown != nil && shown.Error != nil:
			rec.Why = prose.Cut(prose.FirstLine(shown.Error.Message), maxReason)
		}
	})
}

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

// changed notifies the watchers.
func (r *run) changed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news != nil {
		close(r.news)
		r.news = nil
	}
}

// next returns a channel that is closed when the run changes.
func (r *run) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return r.news
}

// journalCalls returns the calls of a run that is under way, with the delivery order from its
// journal. r.mu is held.
func (r *run) journalCalls(kept []*journal.Call) []journal.Call {
	order := map[int64]int{}
	for _, c := range kept {
		order[c.ID] = c.Order
	}
	out := make([]journal.Call, 0, len(r.exec.Calls))
	for i := range r.exec.Calls {
		rec := &r.exec.Calls[i]
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
