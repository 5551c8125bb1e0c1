package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/privacy"
	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/tool"
)

// JournalLimits bound the journals of executions. A zero field means its default.
type JournalLimits struct {
	Keep      time.Duration // executions are kept for so long after their end; default 7 days
	Bytes     int64         // and as long as all journals are at most so large; default 1 GiB
	Execution int64         // bytes of one journal; an execution with more goes on, but can't be replayed; default 64 MiB
}

// Complete gives the limits with the default where one is zero.
func (l JournalLimits) Complete() JournalLimits {
	def(&l.Keep, 7*24*time.Hour)
	def(&l.Bytes, 1<<30)
	def(&l.Execution, 64<<20)
	return l
}

// An ExecutionInfo is an execution as lists show it.
type ExecutionInfo struct {
	ID        string        `json:"id"`
	State     journal.State `json:"state"`   // "running", "waiting", "done", "failed", "interrupted"
	Session   string        `json:"session"` // empty: none
	Language  string        `json:"language"`
	Started   time.Time     `json:"started"`
	Ended     time.Time     `json:"ended,omitzero"`
	MS        int64         `json:"ms"`    // from its start to its end, or to now
	Calls     int           `json:"calls"` // how many
	Tier      tool.Tier     `json:"tier"`
	Engine    string        `json:"engine"`
	Principal string        `json:"principal"`
	Client    string        `json:"client,omitempty"`
	Bytes     int64         `json:"bytes"`                    // of its journal
	After     string        `json:"after,omitempty"`          // the execution that it corrects
	Why       string        `json:"why,omitempty"`            // why it was interrupted
	Lost      string        `json:"not_replayable,omitempty"` // why it can't be replayed
}

// Details are all that is known of an execution.
type Details struct {
	ExecutionInfo
	Calls   []journal.Call  `json:"calls"`
	Program string          `json:"program"` // as the agent sent it
	Value   json.RawMessage `json:"value"`   // null where there is none, or not yet
	Error   *Failure        `json:"error"`
	Console []Line          `json:"console"`
	Notes   []string        `json:"notes,omitempty"`
	Labels  []string        `json:"labels,omitempty"` // of what it had read, and whoever sent it
}

// ReplayOptions say how an execution is replayed. The zero value runs it to its end, as it was.
type ReplayOptions struct {
	Until   int    // stop when the program makes this call (journal.Call.N, from 1); 0: at its end
	Program string // run this program instead, against the recorded calls; empty: the same one
}

// A Replayed is what a replay came to.
type Replayed struct {
	Execution string          `json:"execution"`
	State     string          `json:"state"` // "done", "failed", "stopped" (at Until), "diverged", or "cut" (it was stopped from outside, and the journal ends there)
	Value     json.RawMessage `json:"value"`
	Error     *Failure        `json:"error"`
	Console   []Line          `json:"console"`
	Calls     []journal.Call  `json:"calls"`             // that the program made in the replay; of the last one of a stopped or diverged replay nothing was answered
	Same      bool            `json:"same"`              // the guest said the same bytes as then
	Differs   string          `json:"differs,omitempty"` // where it first did something else
	Notes     []string        `json:"notes,omitempty"`   // as: that another build of the engine can't promise the same bytes
}

// Executions gives the executions that q picks, the newest first, of those that p may read: their own, unless they may read all.
func (x *Executor) Executions(ctx context.Context, p tool.Principal, q journal.Query) ([]ExecutionInfo, error) {
	if err := x.journaled(); err != nil {
		return nil, err
	}
	if !x.readsAll(p) {
		q.Principal = p.ID
	}
	for _, r := range x.history.all() { // of which all may not be written yet
		r.log.Flush()
		_ = r.log.Wait() // what can't be written is not listed
	}
	all, err := x.cfg.Journal.List(ctx, q)
	if err != nil {
		return nil, err
	}
	out := make([]ExecutionInfo, len(all))
	for i := range all {
		out[i] = x.executionInfo(&all[i])
		x.now(&out[i])
	}
	return out, nil
}

// now puts what is known of an execution of this process in the place of what was written of it.
func (x *Executor) now(i *ExecutionInfo) *run {
	r, ok := x.history.get(i.ID)
	if !ok {
		return nil
	}
	e := r.snapshot()
	if i.Calls = len(e.Calls); i.State.Ended() {
		return r
	}
	switch e.State {
	case Queued, Running:
		i.State = journal.Running
	default:
		i.State = journal.State(e.State)
	}
	i.MS, i.Tier = e.MS, e.Tier
	return r
}

func (x *Executor) executionInfo(r *journal.Record) ExecutionInfo {
	i := ExecutionInfo{
		ID: r.ID, State: r.State, Session: r.Session, Language: r.Language, Started: r.Started.UTC(), Calls: r.Calls, Tier: r.Tier, Engine: r.Engine,
		Principal: r.Principal, Client: r.Client, Bytes: r.Bytes, After: r.After, Why: r.Why, Lost: r.Lost,
	}
	end := x.cfg.Now()
	if !r.Ended.IsZero() {
		i.Ended, end = r.Ended.UTC(), r.Ended
	}
	i.MS = end.Sub(r.Started).Milliseconds()
	return i
}

// journaled is the error where no journal is kept.
func (x *Executor) journaled() error {
	if x.cfg.Journal == nil {
		return tool.Errorf(tool.Unavailable, "executions are not kept here, since nothing is stored")
	}
	return nil
}

func noExecution(id string) error {
	return tool.Errorf(tool.NotFound, "no execution %q: biplane executions list names those that are kept", prose.Cut(id, 80))
}

// readsAll reports whether p may read executions of others.
func (x *Executor) readsAll(p tool.Principal) bool { return x.cfg.ReadsAll != nil && x.cfg.ReadsAll(p) }

// readable reads the journal of an execution that p may read.
func (x *Executor) readable(ctx context.Context, p tool.Principal, id string) (*journal.Story, error) {
	st, err := x.journalOf(ctx, id)
	if err == nil && st.Record.Principal != p.ID && !x.readsAll(p) {
		return nil, noExecution(id)
	}
	return st, err
}

// story reads the journal of an execution of p.
func (x *Executor) story(ctx context.Context, p tool.Principal, id string) (*journal.Story, error) {
	st, err := x.journalOf(ctx, id)
	if err == nil && st.Record.Principal != p.ID {
		return nil, noExecution(id)
	}
	return st, err
}

// journalOf reads the journal of an execution, whosever it is.
func (x *Executor) journalOf(ctx context.Context, id string) (*journal.Story, error) {
	if err := x.journaled(); err != nil {
		return nil, err
	}
	if r, ok := x.history.get(id); ok {
		r.log.Flush()
		_ = r.log.Wait() // what can't be written is not there
	}
	st, err := journal.Load(ctx, x.cfg.Journal, id)
	if err == nil && st == nil {
		err = noExecution(id)
	}
	return st, err
}

// Details gives an execution that p may read.
func (x *Executor) Details(ctx context.Context, p tool.Principal, id string) (*Details, error) {
	st, err := x.readable(ctx, p, id)
	if err != nil {
		return nil, err
	}
	d := &Details{ExecutionInfo: x.executionInfo(&st.Record), Program: st.Begin.Source, Value: json.RawMessage("null"), Console: []Line{}, Calls: []journal.Call{}, Labels: st.Labels()}
	for _, c := range st.Calls {
		d.Calls = append(d.Calls, *c)
	}
	if r := x.now(&d.ExecutionInfo); r != nil && st.End == nil {
		e := r.snapshot()
		d.Value, d.Error, d.Console, d.Notes, d.Labels = e.Value, e.Error, e.Console, e.Notes, e.Labels
		r.mu.Lock()
		d.Calls = r.journalCalls(st.Calls)
		r.mu.Unlock()
		return d, nil
	}
	if st.End != nil && st.End.Execution != nil {
		var e Execution
		if err := json.Unmarshal(st.End.Execution, &e); err != nil {
			return nil, err
		}
		d.Value, d.Error, d.Console, d.Notes = e.Value, e.Error, e.Console, e.Notes
	}
	return d, nil
}

// Past gives an execution that p may read from its journal, as a model may see it: one that this process has no more, or never had.
func (x *Executor) Past(ctx context.Context, p tool.Principal, id string) (*Execution, error) {
	st, err := x.readable(ctx, p, id)
	if err != nil {
		return nil, err
	}
	i := x.executionInfo(&st.Record)
	e := &Execution{Value: json.RawMessage("null"), Console: []Line{}, Calls: []CallRecord{}, Tier: i.Tier, Session: i.Session, MS: i.MS}
	switch {
	case st.End != nil && st.End.Execution != nil:
		if err := json.Unmarshal(st.End.Execution, e); err != nil {
			return nil, err
		}
		e.Undefined = st.End.Undefined
	case i.Why != "":
		e.Error = &Failure{Kind: string(Interrupted), Message: i.Why}
		fallthrough
	default:
		for _, c := range st.Calls {
			e.Calls = append(e.Calls, CallRecord{Tool: c.Tool, MS: c.MS, Bytes: c.Bytes, Error: c.Error, From: c.From})
		}
	}
	e.ID, e.State, e.Started, e.Labels = i.ID, State(i.State), i.Started, st.Labels()
	e.Principal = tool.Principal{ID: i.Principal, Client: i.Client}
	return x.hidden(ctx, privacy.Scope{Owner: i.Principal, Session: i.Session}, e), nil
}

// Watch tells of an execution that p may read now, and whenever something of it has changed, until it has ended or tell gives an error.
// Changes that come while tell is busy, or soon after each other, are told at once.
func (x *Executor) Watch(ctx context.Context, p tool.Principal, id string, tell func(*Details) error) error {
	for {
		var news <-chan struct{}
		if r, ok := x.history.get(id); ok && (r.principal.ID == p.ID || x.readsAll(p)) {
			news = r.next()
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

// watchEvery is how often whoever watches is told of changes at most.
const watchEvery = 100 * time.Millisecond
