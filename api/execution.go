package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The states of an execution in the journal.
const (
	StateRunning     = "running"     // its program is running or queued
	StateWaiting     = "waiting"     // it waits for a person
	StateDone        = "done"        // its program succeeded
	StateFailed      = "failed"      // its program ended with an error
	StateInterrupted = "interrupted" // biplane ended, and it could not be resumed: Error says why
)

// An ExecutionInfo is one execution in a list of them.
type ExecutionInfo struct {
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Session   string     `json:"session"` // empty: none
	Language  string     `json:"language"`
	Started   time.Time  `json:"started"`
	Ended     *time.Time `json:"ended"` // null until it has ended
	MS        int64      `json:"ms"`    // wall time so far
	Calls     int        `json:"calls"`
	Principal string     `json:"principal"`         // its owner
	Client    string     `json:"client,omitempty"`  // the client that sent the program
	After     string     `json:"after,omitempty"`   // the execution that it corrects
	Problem   string     `json:"problem,omitempty"` // why it failed or was interrupted, in one line
}

// MaxExecutions is the maximum number of executions in one page of the list.
const MaxExecutions = 1000

// An ExecutionPage is a part of the list of executions, newest first.
type ExecutionPage struct {
	Executions []ExecutionInfo `json:"executions"`
	// value of ExecutionFilter.Before for the next page; empty at the end
	Next string `json:"next,omitempty"`
}

// An ExecutionFilter selects executions. Zero fields match all.
type ExecutionFilter struct {
	States  []string
	Session string
	Since   time.Time
	Limit   int    // 0: 50
	Before  string // Next of an earlier page
}

// An ExecutionDetail is everything the journal holds about an execution.
type ExecutionDetail struct {
	ExecutionInfo
	// in the order in which the program made them; replaces the number in ExecutionInfo
	Calls   []ExecutionCall `json:"calls"`
	Program string          `json:"program"`
	Value   json.RawMessage `json:"value"` // null if there is none
	Error   *ProgramError   `json:"error"` // null unless it failed or was interrupted
	Console []ConsoleLine   `json:"console"`
	Notes   []string        `json:"notes,omitempty"`
	Labels  []string        `json:"labels,omitempty"` // of the data it had read, and of its sender
	Tier    string          `json:"tier"`
	Engine  string          `json:"engine"`         // the build that ran it
	Lost    string          `json:"lost,omitempty"` // why it can't be replayed; empty if it can
	Version string          `json:"version"`        // differs after each change
}

// The states of a call.
const (
	CallPending = "pending"  // in progress
	CallDone    = "done"     //
	CallFailed  = "failed"   // the tool reported failure, or could not be reached
	CallNotMade = "not made" // nothing was sent
	CallUnknown = "unknown"  // it was sent, but whether it took effect is unknown
)

// An ExecutionCall is one call of a program, as recorded in the journal.
type ExecutionCall struct {
	Call  int    `json:"call"` // number in the execution, from 1
	Tool  string `json:"tool"`
	State string `json:"state"`
	// Arguments are absent if they are not kept. Lists omit large ones.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Digest    string          `json:"digest"` // SHA-256 of the tool and its arguments in canonical form (RFC 8785)
	Decision  string          `json:"decision,omitempty"`
	ReadOnly  bool            `json:"read_only"`
	Started   time.Time       `json:"started,omitzero"`
	MS        int64           `json:"ms"`
	Bytes     int             `json:"bytes"`            // of the result
	Result    string          `json:"result,omitempty"` // SHA-256 of the result that the program received
	// the result that the program received, if a single call was requested
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	// Order is the position, from 1, in which the program received its answer.
	Order  int      `json:"order,omitempty"`
	From   string   `json:"from,omitempty"`   // the execution whose journal answered it
	Labels []string `json:"labels,omitempty"` // of the result

	// The rest is set in replays only.

	Line     int  `json:"line,omitempty"`     // of the program, that made the call; 0: unknown
	Lines    int  `json:"lines,omitempty"`    // number of lines that the program had logged before
	Recorded int  `json:"recorded,omitempty"` // number of the recorded call that answered it
	Live     bool `json:"live,omitempty"`     // it was made for real
}

// A ReplayRequest specifies how to replay an execution.
type ReplayRequest struct {
	Until   int    `json:"until,omitempty"`   // number of the call to stop at; 0: the end
	Program string `json:"program,omitempty"` // a program to run instead of the execution's own
	// Reads makes calls of Program that are not recorded for real, if they only read, policy allows
	// them without asking, and the execution is the caller's own.
	Reads bool `json:"reads,omitempty"`
}

// The states in which a replay may end.
const (
	ReplayDone     = "done"     // the program succeeded
	ReplayFailed   = "failed"   // the program ended with an error
	ReplayStopped  = "stopped"  // at the requested call
	ReplayDiverged = "diverged" // the program made a call that isn't in the journal
	ReplayCut      = "cut"      // the journal ends there: the program was stopped from outside
)

// A Replay is the result of running an execution again from its journal. Nothing was sent anywhere,
// except calls that only read, if ReplayRequest.Reads was set.
type Replay struct {
	Execution string          `json:"execution"`
	State     string          `json:"state"`
	Same      bool            `json:"same"`              // the guest sent the same bytes as in the original run
	Differs   string          `json:"differs,omitempty"` // where it first differed
	Value     json.RawMessage `json:"value"`
	Error     *ProgramError   `json:"error"`
	Console   []ConsoleLine   `json:"console"`
	Calls     []ExecutionCall `json:"calls"` // calls made; the last call of a stopped or diverged replay has no answer
	Notes     []string        `json:"notes,omitempty"`
	// Left are the recorded calls that another program did not make.
	Left []ExecutionCall `json:"left,omitempty"`
	// Changes are what is not as in the execution, for another program that ended: "state",
	// "value", "error", "console".
	Changes []string `json:"changes,omitempty"`
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

// Journal returns everything that is kept about an execution.
func (c *Client) Journal(ctx context.Context, id string) (*ExecutionDetail, error) {
	return get[*ExecutionDetail](ctx, c, "/executions/"+url.PathEscape(id)+"/journal")
}

// Watch returns the same as Journal, once the execution has changed since the given version or has
// ended, or after some seconds.
func (c *Client) Watch(ctx context.Context, id, version string) (*ExecutionDetail, error) {
	return get[*ExecutionDetail](ctx, c, "/executions/"+url.PathEscape(id)+"/journal?past="+url.QueryEscape(version))
}

// Call returns one call of an execution, with its full arguments and its result.
func (c *Client) Call(ctx context.Context, id string, n int) (*ExecutionCall, error) {
	return get[*ExecutionCall](ctx, c, "/executions/"+url.PathEscape(id)+"/calls/"+strconv.Itoa(n))
}

// StopExecution stops a running or waiting execution, and returns when it has ended.
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
