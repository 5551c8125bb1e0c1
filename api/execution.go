package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The states of an execution, as the journal has them.
const (
	StateRunning     = "running"     // its program runs, or waits for its turn
	StateWaiting     = "waiting"     // it waits for a person
	StateDone        = "done"        // its program ended well
	StateFailed      = "failed"      // its program ended with an error
	StateInterrupted = "interrupted" // biplane ended, and it could not go on: Error says why
)

// An ExecutionInfo is one execution in a list of them.
type ExecutionInfo struct {
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Session   string     `json:"session"` // empty: none
	Language  string     `json:"language"`
	Started   time.Time  `json:"started"`
	Ended     *time.Time `json:"ended"` // null while it goes on
	MS        int64      `json:"ms"`    // wall time so far
	Calls     int        `json:"calls"`
	Principal string     `json:"principal"`         // whose it is
	Client    string     `json:"client,omitempty"`  // what sent the program
	After     string     `json:"after,omitempty"`   // the execution of which it is a corrected form
	Problem   string     `json:"problem,omitempty"` // why it failed or was interrupted, in one line
}

// MaxExecutions is how many executions one page of their list may have.
const MaxExecutions = 1000

// An ExecutionPage is a part of the list of executions, newest first.
type ExecutionPage struct {
	Executions []ExecutionInfo `json:"executions"`
	Next       string          `json:"next,omitempty"` // what to ask for the next part with; empty at the end
}

// An ExecutionFilter says which executions are listed. What is zero filters nothing.
type ExecutionFilter struct {
	States  []string
	Session string
	Since   time.Time
	Limit   int    // 0: 50
	Before  string // Next of an earlier page
}

// An ExecutionDetail is all that the journal has of an execution.
type ExecutionDetail struct {
	ExecutionInfo
	Calls   []ExecutionCall `json:"calls"` // in the order in which the program made them; here in place of their number
	Program string          `json:"program"`
	Value   json.RawMessage `json:"value"` // null when there is none
	Error   *ProgramError   `json:"error"` // null unless it failed or was interrupted
	Console []ConsoleLine   `json:"console"`
	Notes   []string        `json:"notes,omitempty"`
	Labels  []string        `json:"labels,omitempty"` // of what it had read, and whoever sent it
	Tier    string          `json:"tier"`
	Engine  string          `json:"engine"`         // build that ran it
	Lost    string          `json:"lost,omitempty"` // why it can't be replayed; empty when it can
	Version string          `json:"version"`        // another one after each change
}

// The states of a call.
const (
	CallPending = "pending"  // under way
	CallDone    = "done"     //
	CallFailed  = "failed"   // the tool reported failure, or it could not be reached
	CallNotMade = "not made" // nothing was sent
	CallUnknown = "unknown"  // it was sent, and whether it took effect is not known
)

// An ExecutionCall is one call of a program, as the journal has it.
type ExecutionCall struct {
	Call      int             `json:"call"` // number in the execution, from 1
	Tool      string          `json:"tool"`
	State     string          `json:"state"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // absent when they are not kept, and from a list where they are large
	Digest    string          `json:"digest"`              // SHA-256 of the tool and its arguments in canonical form (RFC 8785)
	Decision  string          `json:"decision,omitempty"`
	ReadOnly  bool            `json:"read_only"`
	Started   time.Time       `json:"started,omitzero"`
	MS        int64           `json:"ms"`
	Bytes     int             `json:"bytes"`            // of the result
	Result    string          `json:"result,omitempty"` // SHA-256 of what the program was given
	Value     json.RawMessage `json:"value,omitempty"`  // what it was given, where one call was asked for
	Error     string          `json:"error,omitempty"`
	Order     int             `json:"order,omitempty"`  // in which its answer was given to the program, from 1
	From      string          `json:"from,omitempty"`   // the execution whose journal answered it
	Labels    []string        `json:"labels,omitempty"` // of what came of it
}

// A ReplayRequest says how to replay an execution.
type ReplayRequest struct {
	Until   int    `json:"until,omitempty"`   // number of the call to stop at; 0: the end
	Program string `json:"program,omitempty"` // to be run in place of the execution's own
}

// How a replay may end.
const (
	ReplayDone     = "done"     // the program ended well
	ReplayFailed   = "failed"   // the program ended with an error
	ReplayStopped  = "stopped"  // at the call that was asked for
	ReplayDiverged = "diverged" // the program made a call that isn't in the journal
	ReplayCut      = "cut"      // the journal ends there: the program was stopped from outside
)

// A Replay is what came of running an execution again from its journal. Nothing was sent anywhere.
type Replay struct {
	Execution string          `json:"execution"`
	State     string          `json:"state"`
	Same      bool            `json:"same"`              // the guest said the same bytes as then
	Differs   string          `json:"differs,omitempty"` // where it first did something else
	Value     json.RawMessage `json:"value"`
	Error     *ProgramError   `json:"error"`
	Console   []ConsoleLine   `json:"console"`
	Calls     []ExecutionCall `json:"calls"` // that it made; the last of one that was stopped or diverged was not answered
	Notes     []string        `json:"notes,omitempty"`
}

// Executions lists executions, newest first.
func (c *Client) Executions(ctx context.Context, f ExecutionFilter) (*ExecutionPage, error) {
	q := url.Values{}
	for _, s := range f.States {
		q.Add("state", s)
	}
	if f.Session != "" {
		q.Set("session", f.Session)
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	if f.Before != "" {
		q.Set("before", f.Before)
	}
	return get[*ExecutionPage](ctx, c, "/executions?"+q.Encode())
}

// Journal gives all that is kept of an execution.
func (c *Client) Journal(ctx context.Context, id string) (*ExecutionDetail, error) {
	return get[*ExecutionDetail](ctx, c, "/executions/"+url.PathEscape(id)+"/journal")
}

// Watch is Journal as soon as there is more than in a version, or the execution has ended, or some seconds have passed.
func (c *Client) Watch(ctx context.Context, id, version string) (*ExecutionDetail, error) {
	return get[*ExecutionDetail](ctx, c, "/executions/"+url.PathEscape(id)+"/journal?past="+url.QueryEscape(version))
}

// Call gives one call of an execution, with all of its arguments and its result.
func (c *Client) Call(ctx context.Context, id string, n int) (*ExecutionCall, error) {
	return get[*ExecutionCall](ctx, c, "/executions/"+url.PathEscape(id)+"/calls/"+strconv.Itoa(n))
}

// StopExecution stops an execution that runs or waits, and returns when it has ended.
func (c *Client) StopExecution(ctx context.Context, id string) error {
	_, err := ask[struct{}](ctx, c, http.MethodDelete, "/executions/"+url.PathEscape(id), nil)
	return err
}

// Replay runs an execution again from its journal, offline.
func (c *Client) Replay(ctx context.Context, id string, r ReplayRequest) (*Replay, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return ask[*Replay](ctx, c, http.MethodPost, "/executions/"+url.PathEscape(id)+"/replay", body)
}
