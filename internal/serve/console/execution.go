package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of the pages of executions.
const (
	listedExecutions = 50
	shownCalls       = 500
	shownConsole     = 2000
)

var executionStates = []string{api.StateRunning, api.StateWaiting, api.StateDone, api.StateFailed, api.StateInterrupted}

type executionList struct {
	*api.ExecutionPage
	States  []string // all there are
	State   string   // the filter; empty: all
	Session string
	Since   string
	Next    string // address of the next page
}

// listExecutions shows a page of the executions that the visitor may see.
func listExecutions(v *visit) error {
	q := v.r.URL.Query()
	d := executionList{States: executionStates, State: q.Get("state"), Session: q.Get("session"), Since: q.Get("since")}
	f := api.ExecutionFilter{Session: d.Session, Limit: listedExecutions, Before: q.Get("before")}
	if d.State != "" {
		f.States = []string{d.State}
	}
	if d.Since != "" {
		day, err := time.Parse(time.DateOnly, d.Since)
		if err != nil {
			return tool.Errorf(tool.Invalid, "since must be a date such as 2026-01-31")
		}
		f.Since = day
	}
	page, err := v.newClient().Executions(v.r.Context(), f)
	if err != nil {
		return ownError(err)
	}
	if d.ExecutionPage = page; page.Next != "" {
		q.Set("before", page.Next)
		d.Next = "/executions?" + q.Encode()
	}
	v.renderPage(http.StatusOK, "executions.html", d)
	return nil
}

// A callRow is a call in the waterfall of an execution.
type callRow struct {
	api.ExecutionCall
	X, Width int   // of its bar, in thousandths of the execution
	Line     int   // that names its tool first; 0: none does
	Others   []int // further lines that name it
	Guess    bool  // another line may have made the call
	Approval string
	Approver string // who decided on it
	Note     string
	Now      bool // the step that is shown concerns it
}

type executionData struct {
	*api.ExecutionDetail
	Lines       []*codeLine
	ProgramCut  bool
	Rows        []*callRow
	Elsewhere   []*callRow // calls whose line is unknown
	MoreCalls   int
	ConsoleCut  int
	Result      *tree
	Live        bool
	MayStop     bool
	MayRun      bool
	FirstCall   int
	NextCalls   string
	Approvals   []api.Approval // that wait
	ApproverBad string
	Steps       *stepBar // nil: it has not ended, or has no calls
}

// showPast shows an execution by its journal.
func showPast(v *visit) error {
	d, err := v.newClient().Journal(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return ownError(err)
	}
	q := v.r.URL.Query()
	var shown *executionData
	if d.Ended == nil || len(d.Calls) == 0 {
		shown = displayExecution(v, d, parseNumber(q.Get("from"), 0))
	} else if shown, err = showStep(v, d, q.Get("step")); err != nil {
		return err
	}
	v.renderPage(http.StatusOK, "execution.html", shown)
	return nil
}

// displayExecution converts an execution to its displayed form, with the calls from number first.
func displayExecution(v *visit, x *api.ExecutionDetail, first int) *executionData {
	d := &executionData{ExecutionDetail: x, Live: x.Ended == nil && x.Problem == "", Result: newTree(x.Value)}
	d.MayStop = d.Live && x.Principal == v.who.ID && v.mayUse("DELETE /executions/{id}")
	d.MayRun = v.mayUse("POST /executions")
	first = min(max(first, 1), max(len(x.Calls), 1))
	d.FirstCall = first
	calls := x.Calls[first-1:]
	if len(calls) > shownCalls {
		d.MoreCalls = len(calls) - shownCalls
		d.NextCalls = fmt.Sprintf("/executions/%s?from=%d", url.PathEscape(x.ID), first+shownCalls)
		calls = calls[:shownCalls]
	}
	d.Rows = timeCalls(x, calls)
	addApprovers(v, d)
	d.Lines, d.ProgramCut = colourProgram(x.Program, x.Language)
	markError(d.Lines, x.Error)
	d.Elsewhere = placeCalls(d.Lines, d.Rows)
	if n := len(x.Console) - shownConsole; n > 0 {
		d.ConsoleCut, x.Console = n, x.Console[:shownConsole]
	}
	return d
}

// timeCalls places the bars of calls between the start and the end of their execution.
func timeCalls(x *api.ExecutionDetail, calls []api.ExecutionCall) (rows []*callRow) {
	const scale = 1000
	total := max(x.MS, 1)
	for i := range calls {
		r := &callRow{ExecutionCall: calls[i]}
		if c := &r.ExecutionCall; !c.Started.IsZero() {
			begin := min(max(c.Started.Sub(x.Started).Milliseconds(), 0), total)
			long := c.MS
			if c.State == api.CallPending {
				long = total - begin
			}
			r.X = min(int(begin*scale/total), scale-4)
			r.Width = max(min(int(long*scale/total), scale-r.X), 4)
		}
		rows = append(rows, r)
	}
	return rows
}

// addApprovers adds who decided on calls that asked. A request belongs to the call with the same
// tool and arguments.
func addApprovers(v *visit, d *executionData) {
	asks := func(r *callRow) bool { return r.Decision == "ask" || r.State == api.CallPending }
	if !slices.ContainsFunc(d.Rows, asks) {
		return
	}
	all, err := v.newClient().Approvals().List(v.r.Context(),
		api.ApprovalFilter{Execution: d.ID, All: true, Limit: shownCalls})
	d.ApproverBad = problemOf(err)
	open := map[callKey][]*callRow{} // without a request yet, in their order
	for _, r := range d.Rows {
		if k, ok := newCallKey(r.Tool, r.Arguments); ok && r.Approval == "" {
			open[k] = append(open[k], r)
		}
	}
	for i := len(all) - 1; i >= 0; i-- { // oldest first
		a := &all[i]
		if a.State == api.ApprovalPending {
			d.Approvals = append(d.Approvals, *a)
		}
		if k, ok := newCallKey(a.Tool, a.Arguments); ok && len(open[k]) > 0 {
			r := open[k][0]
			r.Approval, r.Approver, r.Note, open[k] = a.ID, a.DecidedBy, a.Note, open[k][1:]
		}
	}
}

// A callKey is the same for a call and a request for its approval. The tool may be named in a
// program's form or by its path, and the arguments may have other spaces.
type callKey struct{ tool, arguments string }

// newCallKey returns false if the arguments are missing or no JSON.
func newCallKey(path string, arguments json.RawMessage) (callKey, bool) {
	var text bytes.Buffer
	if len(arguments) == 0 || json.Compact(&text, arguments) != nil {
		return callKey{}, false
	}
	return callKey{strings.ReplaceAll(path, "_", "."), text.String()}, true
}

type callData struct {
	*api.ExecutionCall
	Execution         string
	Sent, Answer      *tree
	ArgumentsUnkept   bool
	ValueUnkept       bool
	ArgumentB, ValueB int
	NoAnswer          bool // it has none yet, at the step from which it was opened
}

// showCall shows one call with its arguments and its result. With part=call it shows no frame, for
// the page of the execution.
func showCall(v *visit) error {
	n, err := strconv.Atoi(v.r.PathValue("call"))
	if err != nil || n < 1 {
		return tool.Errorf(tool.NotFound, "calls are numbered from 1")
	}
	id := v.r.PathValue("id")
	c, err := v.newClient().Call(v.r.Context(), id, n)
	if err != nil {
		return ownError(err)
	}
	d := callData{ExecutionCall: c, Execution: id, Sent: newTree(c.Arguments), Answer: newTree(c.Value),
		ArgumentB: len(c.Arguments), ValueB: len(c.Value)}
	if v.r.URL.Query().Has("unanswered") {
		pending := *c
		pending.State, pending.Error, pending.Labels, d.Answer = api.CallPending, "", nil, nil
		d.NoAnswer, d.ExecutionCall = true, &pending
	}
	d.ArgumentsUnkept = len(c.Arguments) == 0
	d.ValueUnkept = len(c.Value) == 0 && c.State == api.CallDone && c.Bytes > 0
	if v.r.URL.Query().Get("part") == "call" {
		v.renderPage(http.StatusOK, "call-body", d)
		return nil
	}
	v.renderPage(http.StatusOK, "call.html", d)
	return nil
}

// stopExecution stops an execution.
func stopExecution(v *visit) error {
	id := v.r.PathValue("id")
	if err := v.newClient().StopExecution(v.r.Context(), id); err != nil {
		return ownError(err)
	}
	http.Redirect(v.w, v.r, "/executions/"+url.PathEscape(id), http.StatusSeeOther)
	return nil
}
