package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Journals are the journals of executions; implemented by *executor.Executor. A principal can only
// read its own. For others, the methods return a not-found error.
type Journals interface {
	// Execution returns an execution that this process runs or has just run.
	Execution(id string) (*execution.Execution, bool)
	Executions(ctx context.Context, p tool.Principal, q journal.Query) ([]execution.Info, error)
	Past(ctx context.Context, p tool.Principal, id string) (*execution.Execution, error)
	Details(ctx context.Context, p tool.Principal, id string) (*execution.Details, error)
	Watch(ctx context.Context, p tool.Principal, id string, tell func(*execution.Details) error) error
	Replay(ctx context.Context, p tool.Principal, id string, o execution.ReplayOptions) (*execution.Replayed, error)
	Stop(ctx context.Context, p tool.Principal, id string) error
}

// listed is the default number of executions on a page.
const listed = 50

// stopExecution stops an execution of the caller.
func (h *executionRoutes) stopExecution(w http.ResponseWriter, r *http.Request) {
	answerDone(w, h.journals.Stop(r.Context(), principalOf(r), r.PathValue("id")))
}

// listExecutions lists the executions of the caller, newest first.
func (h *executionRoutes) listExecutions(w http.ResponseWriter, r *http.Request) {
	f, err := filterOf(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	page, err := h.listPage(r.Context(), principalOf(r), f)
	if err != nil {
		writeError(w, err)
		return
	}
	if page.Next != "" {
		setNextPage(w, r, page.Next)
	}
	writeJournal(w, h.secrets, page)
}

// filterOf parses a query.
func filterOf(q url.Values) (f api.ExecutionFilter, err error) {
	for key := range q {
		if !slices.Contains([]string{"state", "session", "since", "limit", "before", "cursor"}, key) {
			return f, tool.Errorf(tool.Invalid,
				"unknown parameter %q: executions can be listed by state, session, since, limit, cursor",
				text.Cut(key, 80))
		}
	}
	f = api.ExecutionFilter{States: q["state"], Session: q.Get("session"), Limit: listed,
		Before: cmp.Or(q.Get(cursorParameter), q.Get("before"))}
	for _, state := range f.States {
		if !slices.Contains([]string{api.StateRunning, api.StateWaiting, api.StateDone, api.StateFailed,
			api.StateInterrupted}, state) {
			return f, tool.Errorf(tool.Invalid,
				"unknown state %q: it must be running, waiting, done, failed or interrupted", text.Cut(state, 80))
		}
	}
	if f.Limit, err = parseLimit(q, listed); err != nil {
		return f, err
	}
	if value := q.Get("since"); value != "" {
		if f.Since, err = time.Parse(time.RFC3339Nano, value); err != nil {
			return f, tool.Errorf(tool.Invalid, "since %q must be a time such as 2026-01-31T09:00:00Z (RFC 3339)",
				text.Cut(value, 80))
		}
	}
	return f, nil
}

// listPage returns the executions of p that match a filter.
func (h *executionRoutes) listPage(ctx context.Context, p tool.Principal, f api.ExecutionFilter) (*api.ExecutionPage,
	error) {
	// one more than the page holds, to see whether there are more
	q := journal.Query{Session: f.Session, Before: f.Before, Limit: f.Limit + 1}
	for _, state := range slices.Compact(slices.Sorted(slices.Values(f.States))) {
		q.States = append(q.States, journal.State(state))
	}
	page := &api.ExecutionPage{Executions: []api.ExecutionInfo{}}
	for {
		part, err := h.journals.Executions(ctx, p, q)
		if err != nil {
			return nil, err
		}
		if len(part) == 0 && len(page.Executions) == 0 && f.Before != "" {
			_, err := h.journals.Details(ctx, p, f.Before) // nothing is older, or it doesn't exist
			if err != nil {
				return nil, err
			}
		}
		for i := range part {
			x := &part[i]
			switch n := len(page.Executions); {
			case x.Started.Before(f.Since):
				return page, nil
			case n == f.Limit:
				page.Next = page.Executions[n-1].ID
				return page, nil
			}
			page.Executions = append(page.Executions, h.infoOf(x))
		}
		if len(part) < q.Max() {
			return page, nil
		}
		q.Before = part[len(part)-1].ID
	}
}

// orphaned is the problem of an unfinished execution that no process runs.
const orphaned = "the process that ran it has exited: it is resumed, or ended, when biplane serve, mcp or run starts"

func (h *executionRoutes) infoOf(x *execution.Info) api.ExecutionInfo {
	out := api.ExecutionInfo{
		ID: x.ID, State: string(x.State), Session: x.Session, Language: x.Language, Started: x.Started,
		MS: max(x.MS, 0), Calls: x.Calls,
		Principal: x.Principal, Client: x.Client, After: x.After, Problem: x.Why,
	}
	if !x.Ended.IsZero() {
		out.Ended = &x.Ended
	} else if _, live := h.journals.Execution(x.ID); !live {
		out.Problem = orphaned
	}
	return out
}

// watched is the longest time that a request waits for a change of an execution.
const watched = 10 * time.Second

// showJournal answers with all details of an execution. With past=VERSION it waits until the
// version differs, the execution has ended, or the time in watched is over.
func (h *executionRoutes) showJournal(w http.ResponseWriter, r *http.Request) {
	id, past := r.PathValue("id"), r.URL.Query().Get("past")
	if past == "" {
		d, err := h.journals.Details(r.Context(), principalOf(r), id)
		if err != nil {
			writeError(w, err)
			return
		}
		writeJournal(w, h.secrets, h.detailOf(d))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), watched)
	defer cancel()
	defer context.AfterFunc(h.closing, cancel)()
	var last *api.ExecutionDetail
	err := h.journals.Watch(ctx, principalOf(r), id, func(d *execution.Details) error {
		if last = h.detailOf(d); last.Version != past {
			return errNews
		}
		return nil
	})
	if last == nil {
		writeError(w, err)
		return
	}
	writeJournal(w, h.secrets, last)
}

var errNews = errors.New("there is news")

// showCall answers with one call of an execution, including all of its arguments and its result.
func (h *executionRoutes) showCall(w http.ResponseWriter, r *http.Request) {
	d, err := h.journals.Details(r.Context(), principalOf(r), r.PathValue("id"))
	if err != nil {
		writeError(w, err)
		return
	}
	n, err := strconv.Atoi(r.PathValue("call"))
	for i := range d.Calls {
		if c := &d.Calls[i]; err == nil && c.N == n {
			out := callOf(c, d.State.Ended())
			out.Arguments, out.Value = c.Arguments, c.Value
			writeJournal(w, h.secrets, out)
			return
		}
	}
	writeError(w, tool.Errorf(tool.NotFound, "execution %s has no call %s: it made %d calls", d.ID,
		text.Cut(r.PathValue("call"), 80), len(d.Calls)))
}

// replayExecution replays an execution from its journal.
func (h *executionRoutes) replayExecution(w http.ResponseWriter, r *http.Request) {
	var req api.ReplayRequest
	if err := readJSON(r, &req); err != nil {
		writeError(w, err)
		return
	}
	if req.Until < 0 {
		writeError(w, tool.Errorf(tool.Invalid, "until %d is invalid: calls are numbered from 1", req.Until))
		return
	}
	x, err := h.journals.Replay(r.Context(), principalOf(r), r.PathValue("id"),
		execution.ReplayOptions{Until: req.Until, Program: req.Program, Reads: req.Reads})
	if err != nil {
		writeError(w, err)
		return
	}
	out := &api.Replay{
		Execution: x.Execution, State: x.State, Value: x.Value, Error: wireError(x.Error),
		Console: wireConsole(x.Console), Calls: []api.ExecutionCall{},
		Same: x.Same, Differs: x.Differs, Notes: x.Notes, Changes: x.Changes,
	}
	for i := range x.Calls {
		out.Calls = append(out.Calls, wireReplayCall(&x.Calls[i]))
	}
	for i := range x.Left {
		out.Left = append(out.Left, callOf(&x.Left[i], true))
	}
	if n := len(out.Calls); n > 0 && (x.State == api.ReplayStopped || x.State == api.ReplayDiverged) {
		last := &out.Calls[n-1] // the replay stopped at this call: it has no result
		last.State, last.MS, last.Bytes, last.Result, last.Error = api.CallPending, 0, 0, "", ""
	}
	writeJournal(w, h.secrets, out)
}

// wireReplayCall converts a call of a replay to the API's type.
func wireReplayCall(c *journal.Call) api.ExecutionCall {
	out := callOf(c, true)
	at := &c.Replay
	out.Line, out.Lines, out.Recorded, out.Live = at.Line, at.Lines, at.Recorded, at.Live
	return out
}

// detailOf converts an execution's journal to the API's type.
func (h *executionRoutes) detailOf(x *execution.Details) *api.ExecutionDetail {
	d := &api.ExecutionDetail{
		ExecutionInfo: h.infoOf(&x.Info), Calls: []api.ExecutionCall{}, Program: x.Program, Value: x.Value,
		Error:   wireError(x.Error),
		Console: wireConsole(x.Console), Notes: x.Notes, Labels: x.Labels, Tier: x.Tier.String(), Engine: x.Engine,
		Lost: x.Lost,
	}
	if d.Error == nil && x.Why != "" {
		d.Error = &api.ProgramError{Kind: string(x.State), Message: x.Why}
	}
	if d.Error != nil && d.Problem == "" {
		d.Problem, _, _ = strings.Cut(d.Error.Message, "\n")
	}
	for i := range x.Calls {
		d.Calls = append(d.Calls, callOf(&x.Calls[i], x.State.Ended()))
	}
	d.ExecutionInfo.Calls = len(d.Calls)
	d.Version = detailVersion(d)
	return d
}

// detailVersion returns a hash of d without the time that has elapsed in it and its pending calls.
func detailVersion(d *api.ExecutionDetail) string {
	still := *d
	still.MS, still.Calls = 0, slices.Clone(d.Calls)
	for i := range still.Calls {
		if c := &still.Calls[i]; c.State == api.CallPending {
			c.MS = 0
		}
	}
	text, err := tool.Marshal(&still)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// shownArguments is the largest size in bytes of a call's arguments in a list of calls.
const shownArguments = 16 << 10

// callOf converts a call to the API's type. over reports whether its execution has ended.
func callOf(c *journal.Call, over bool) api.ExecutionCall {
	out := api.ExecutionCall{
		Call: c.N, Tool: c.Tool, State: api.CallPending, Digest: c.Digest, Decision: c.Decision, ReadOnly: c.ReadOnly,
		Started: c.Sent.UTC(), MS: c.MS, Bytes: c.Bytes, Error: c.Error, Order: c.Order, From: c.From, Labels: c.Labels,
	}
	if len(c.Arguments) <= shownArguments {
		out.Arguments = c.Arguments
	}
	switch {
	case c.Known() && (c.Unsent || strings.HasPrefix(c.Error, execution.NotMade)):
		out.State = api.CallNotMade
	case c.Known() && c.Error != "":
		out.State = api.CallFailed
	case c.Known():
		out.State = api.CallDone
	case over && c.Sent.IsZero():
		out.State = api.CallNotMade
	case over:
		out.State = api.CallUnknown
	}
	if c.Known() { // it may have queued before it was sent
		out.Started = c.Ended.Add(-time.Duration(c.MS) * time.Millisecond).UTC()
	}
	if out.State == api.CallDone {
		sum := sha256.Sum256(c.Value)
		out.Result = hex.EncodeToString(sum[:])
	}
	return out
}
