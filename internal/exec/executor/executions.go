package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// JournalLimits bound the journals of executions. A zero field means its default.
type JournalLimits struct {
	Keep  time.Duration // how long executions are kept after their end; default 7 days
	Bytes int64         // maximum size of all journals, in bytes; default 1 GiB
	// maximum size of one journal, in bytes; an execution that exceeds it continues, but can't be
	// replayed; default 64 MiB
	Execution int64
}

// Complete returns the limits, with defaults for zero fields.
func (l JournalLimits) Complete() JournalLimits {
	def(&l.Keep, 7*24*time.Hour)
	def(&l.Bytes, 1<<30)
	def(&l.Execution, 64<<20)
	return l
}

// Executions returns the executions that match q, newest first. Only those of p are returned,
// unless p may read all executions.
func (x *Executor) Executions(ctx context.Context, p tool.Principal, q journal.Query) ([]execution.Info, error) {
	if err := x.requireJournal(); err != nil {
		return nil, err
	}
	if !x.readsAll(p) {
		q.Principal = p.ID
	}
	for _, r := range x.runs.all() { // their journals may not be completely written yet
		r.history.Flush()
		_ = r.history.Wait() // what can't be written is not listed
	}
	all, err := x.cfg.Journal.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]execution.Info, len(all))
	for i := range all {
		out[i] = x.executionInfo(&all[i])
		x.now(&out[i])
	}
	return out, nil
}

// now replaces the stored data of an execution of this process with its current data.
func (x *Executor) now(i *execution.Info) *run {
	r, ok := x.runs.get(i.ID)
	if !ok {
		return nil
	}
	e := r.state.snapshot()
	if i.Calls = len(e.Calls); i.State.Ended() {
		return r
	}
	switch e.State {
	case execution.Queued, execution.Running:
		i.State = journal.Running
	default:
		i.State = journal.State(e.State)
	}
	i.MS, i.Tier = e.MS, e.Tier
	return r
}

func (x *Executor) executionInfo(r *journal.Record) execution.Info {
	i := execution.Info{
		ID: r.ID, State: r.State, Session: r.Session, Language: r.Language, Started: r.Started.UTC(), Calls: r.Calls,
		Tier: r.Tier, Engine: r.Engine,
		Principal: r.Principal, Client: r.Client, Bytes: r.Bytes, After: r.After, Why: r.Why, Lost: r.Lost,
	}
	end := x.cfg.Clock.Now()
	if !r.Ended.IsZero() {
		i.Ended, end = r.Ended.UTC(), r.Ended
	}
	i.MS = end.Sub(r.Started).Milliseconds()
	return i
}

// requireJournal returns an error if no journal is kept.
func (x *Executor) requireJournal() error {
	if x.cfg.Journal == nil {
		return tool.Errorf(tool.Unavailable, "executions are unavailable, because nothing is stored")
	}
	return nil
}

func noExecution(id string) error {
	return tool.Errorf(tool.NotFound, "no execution %q: biplane executions list shows those that are kept",
		text.Cut(id, 80))
}

// readsAll reports whether p may read the executions of others.
func (x *Executor) readsAll(p tool.Principal) bool { return x.cfg.Control.MayReadAll(p) }

// readJournalFor reads the journal of an execution that p may read.
func (x *Executor) readJournalFor(ctx context.Context, p tool.Principal, id string) (*journal.History, error) {
	st, err := x.journalOf(ctx, id)
	if err == nil && st.Record.Principal != p.ID && !x.readsAll(p) {
		return nil, noExecution(id)
	}
	return st, err
}

// story reads the journal of an execution of p.
func (x *Executor) story(ctx context.Context, p tool.Principal, id string) (*journal.History, error) {
	st, err := x.journalOf(ctx, id)
	if err == nil && st.Record.Principal != p.ID {
		return nil, noExecution(id)
	}
	return st, err
}

// journalOf reads the journal of an execution of any principal.
func (x *Executor) journalOf(ctx context.Context, id string) (*journal.History, error) {
	if err := x.requireJournal(); err != nil {
		return nil, err
	}
	if r, ok := x.runs.get(id); ok {
		r.history.Flush()
		_ = r.history.Wait() // what can't be written is missing
	}
	st, err := journal.Load(ctx, x.cfg.Journal, id)
	if err == nil && st == nil {
		err = noExecution(id)
	}
	return st, err
}

// Details returns an execution that p may read.
func (x *Executor) Details(ctx context.Context, p tool.Principal, id string) (*execution.Details, error) {
	st, err := x.readJournalFor(ctx, p, id)
	if r, ok := x.runs.get(id); ok && err == nil && st.End == nil && r.state.result() != nil {
		st, err = x.readJournalFor(ctx, p, id) // it has ended since
	}
	if err != nil {
		return nil, err
	}
	d := &execution.Details{Info: x.executionInfo(&st.Record), Program: st.Begin.Source, Value: json.RawMessage("null"),
		Console: []execution.Line{}, Calls: []journal.Call{}, Labels: st.Labels()}
	for _, c := range st.Calls {
		d.Calls = append(d.Calls, *c)
	}
	if r := x.now(&d.Info); r != nil && st.End == nil {
		e := r.state.snapshot()
		d.Value, d.Error, d.Console, d.Notes, d.Labels = e.Value, e.Error, e.Console, e.Notes, e.Labels
		if calls := r.state.journalCalls(st.Calls); calls != nil {
			d.Calls = calls
		}
		return d, nil
	}
	if st.End != nil && st.End.Execution != nil {
		var e execution.Execution
		if err := json.Unmarshal(st.End.Execution, &e); err != nil {
			return nil, err
		}
		d.Value, d.Error, d.Console, d.Notes = e.Value, e.Error, e.Console, e.Notes
	}
	return d, nil
}

// errStopped is the error of a program that its principal has stopped.
var errStopped = &tool.Error{Kind: tool.Canceled, Msg: "canceled: a user stopped the program"}

// Stop stops a running or waiting execution of p, and waits until it has ended and its end is
// recorded. A call that is under way may still take effect. The session is left as it was before
// the program.
func (x *Executor) Stop(ctx context.Context, p tool.Principal, id string) error {
	r, ok := x.runs.get(id)
	if !ok || r.principal.ID != p.ID {
		st, err := x.story(ctx, p, id)
		switch {
		case err != nil:
			return err
		case st.End == nil:
			return tool.Errorf(tool.Conflict, "execution %q is in no process at the moment: biplane serve and mcp "+
				"take it up when they start, stop it then; what waits for a person can be denied (biplane approvals deny)", text.Cut(id, 80))
		}
		return errNothingToStop(id)
	}
	if f := r.state.result(); f != nil {
		if f.GoesOn {
			return errStopLater(id)
		}
		return errNothingToStop(id)
	}
	r.cancel(errStopped)
	select {
	case <-r.done:
		return r.confirmStop()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// confirmStop returns the result of stopping a run that is done. It may have ended normally at the
// same moment, or with its process.
func (r *run) confirmStop() error {
	f := r.state.result()
	switch {
	case f.GoesOn:
		return errStopLater(r.id)
	case f.State == execution.Done:
		return tool.Errorf(tool.Conflict,
			"execution %q had ended by itself, with a value; calls that it didn't wait for are canceled", r.id)
	case !r.history.isKept():
		return nil
	}
	if err := r.history.Amend(); err != nil {
		return &tool.Error{Kind: tool.Unavailable,
			Msg: "execution " + r.id +
				" is stopped, but that could not be written down, so that the next process may take it up: " +
				tool.AsError(err).Msg, Err: err}
	}
	return nil
}

func errNothingToStop(id string) error {
	return tool.Errorf(tool.Conflict, "execution %q has ended: there is nothing to stop", text.Cut(id, 80))
}

func errStopLater(id string) error {
	return tool.Errorf(tool.Unavailable,
		"biplane is shutting down, and execution %q goes on when biplane does: stop it then", id)
}

// Past returns an execution that p may read from its journal, as a model may see it. It is for
// executions that this process no longer has, or never had.
func (x *Executor) Past(ctx context.Context, p tool.Principal, id string) (*execution.Execution, error) {
	st, err := x.readJournalFor(ctx, p, id)
	if err != nil {
		return nil, err
	}
	i := x.executionInfo(&st.Record)
	e := &execution.Execution{Value: json.RawMessage("null"), Console: []execution.Line{}, Calls: []execution.Call{},
		Tier: i.Tier, Session: i.Session, MS: i.MS}
	switch {
	case st.End != nil && st.End.Execution != nil:
		if err := json.Unmarshal(st.End.Execution, e); err != nil {
			return nil, err
		}
		e.Undefined = st.End.Undefined
	case i.Why != "":
		e.Error = &execution.Failure{Kind: string(i.State), Message: i.Why}
		fallthrough
	default:
		for _, c := range st.Calls {
			e.Calls = append(e.Calls,
				execution.Call{Tool: c.Tool, MS: c.MS, Bytes: c.Bytes, Error: c.Error, From: c.From})
		}
	}
	e.ID, e.State, e.Started, e.Labels = i.ID, execution.State(i.State), i.Started, st.Labels()
	e.Principal = tool.Principal{ID: i.Principal, Client: i.Client}
	return hideExecution(ctx, x.cfg.Privacy, tool.Scope{Owner: i.Principal, Session: i.Session}, e), nil
}

// Watch calls tell with the current details of an execution that p may read, and again whenever
// they change. It returns when the execution has ended or tell returns an error. Changes that
// arrive while tell is busy, or in quick succession, are reported together.
func (x *Executor) Watch(ctx context.Context, p tool.Principal, id string, tell func(*execution.Details) error) error {
	for {
		var news <-chan struct{}
		if r, ok := x.runs.get(id); ok && (r.principal.ID == p.ID || x.readsAll(p)) {
			news = r.watchers.nextChange()
		}
		d, err := x.Details(ctx, p, id)
		if err != nil {
			return err
		}
		if err := tell(d); err != nil || d.State.Ended() || news == nil {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watchEvery is the minimum interval between two reports to a watcher.
const watchEvery = 100 * time.Millisecond
