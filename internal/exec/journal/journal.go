// Package journal defines the journal of an execution, which is written while it runs. A journal
// has a Record, which lists show, and a sequence of entries. The entries hold all that the guest
// received from the outside and all that it requested.
//
// A guest is deterministic (package sandbox): the same host lines and the same answers to its
// questions produce the same bytes. So the entries suffice to replay a program (History.Play), to
// resume one after a crash, and to report what it did. A Log writes entries, a History is a decoded
// journal, and a Store keeps journals sealed.
//
// A single writer writes the entries in order. The execution doesn't wait for it, with one
// exception: the intent of a call that may write. The intent and all earlier entries are on disk
// before the call is sent. So anything missing from the journal had no effect outside. Whatever the
// guest did since its last entry, it does again in the same way.
package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A State is the state of an execution.
type State string

// The states of an execution. A queued execution is reported as Running.
const (
	Running     State = "running"     // in progress
	Waiting     State = "waiting"     // waiting only for calls, and suspended in the meantime
	Done        State = "done"        // ended successfully
	Failed      State = "failed"      // ended with an error
	Interrupted State = "interrupted" // biplane exited while it ran, and it could not be resumed; see Record.Why
)

// Ended reports whether s is final.
func (s State) Ended() bool { return s == Done || s == Failed || s == Interrupted }

// A Record describes an execution in lists. Anyone who can read the store can read all of it.
type Record struct {
	ID        string
	Principal string
	Client    string // client software; empty if unknown
	Session   string // empty: none
	Language  string // "typescript", "python" or "bash"
	Tier      tool.Tier
	Engine    string // engine that ran it, for display
	Build     string // identity of the engine's build: another build may behave differently. Empty: unknown
	State     State
	Started   time.Time
	Ended     time.Time // zero: still running
	Calls     int
	Bytes     int64  // size of its journal
	After     string // the execution that it corrects; empty: none
	Lost      string // why it can't be replayed or recovered; empty if it can
	Why       string // why it failed or was interrupted, in one line; empty otherwise
	Attempts  int    // number of recoveries since it last made progress
}

// A Query selects executions, newest first. Empty fields match all.
type Query struct {
	Principal string
	Session   string
	States    []State // in any of these; empty: in any state
	Before    string  // only executions older than this one
	Limit     int     // default and maximum: 1,000
}

// Max returns the maximum number of results.
func (q Query) Max() int {
	const most = 1000
	if q.Limit <= 0 || q.Limit > most {
		return most
	}
	return q.Limit
}

// A Write is one atomic write to a Store. It is applied after all earlier ones.
type Write struct {
	Record  *Record  // the current record, or nil if it has not changed
	New     bool     // Record is the first of its execution
	ID      string   // ID of the execution
	Seq     int      // sequence number of Part, from 1; 0: no part
	Part    []byte   // entries
	Results []Result // results that entries of Part refer to
}

// A Result is a large value that entries refer to. Equal values are stored once.
type Result struct {
	Digest string // as returned by Store.Digest
	Data   []byte
}

// A Pending is a Write in progress.
type Pending interface {
	// Safe waits until the write survives the death of this process. After an error it may not
	// survive.
	Safe() error
	// Wait waits until the data is written and visible to readers of the Store. After an error it
	// may not be written.
	Wait() error
	// Sync waits until the write and all earlier ones are on disk. Readers of the store may not see
	// them yet. After an error they may not be on disk.
	Sync() error
	// Hurry starts the write immediately, without waiting for others to batch with. It doesn't
	// block.
	Hurry()
}

// A Store keeps journals, sealed. It is safe for concurrent use. All errors are *tool.Errors.
type Store interface {
	// Write queues w after all earlier writes. A part is not written if the part before it failed.
	Write(w *Write) Pending
	// Digest returns a digest of data that can't be computed without the store's key.
	Digest(data []byte) string
	// Get returns an execution, or nil if there is none.
	Get(ctx context.Context, id string) (*Record, error)
	// List returns executions, newest first.
	List(ctx context.Context, q Query) ([]Record, error)
	// Open returns the executions that have not ended, oldest first.
	Open(ctx context.Context) ([]Record, error)
	// Parts returns the parts of a journal in order. A part that is missing or was tampered with is
	// an error of kind conflict.
	Parts(ctx context.Context, id string) ([][]byte, error)
	// Result returns a result by its digest. If it was deleted, the error has kind not_found.
	Result(ctx context.Context, digest string) ([]byte, error)
	// Trim deletes executions that ended before a time. If the remaining journals exceed the limit
	// in bytes, it also deletes the oldest executions of the principals that use the most.
	// Principals within an equal share keep their journals, and executions that have not ended
	// stay. Trim returns the number of deleted executions.
	Trim(ctx context.Context, before time.Time, bytes int64) (int, error)
}

// An InReplay describes a call that was made in a replay.
type InReplay struct {
	Stack    string // where in the program it was made
	Line     int    // the same, as a line of the agent's text; 0: unknown
	Lines    int    // number of lines that the program had logged before
	Recorded int    // number of the recorded call that answered it; 0: none did
	Live     bool   // it was made for real
}

// A Call is a call made by a program. Calls are numbered in the order in which the program made
// them.
type Call struct {
	N         int             `json:"n"`            // from 1
	ID        int64           `json:"id,omitempty"` // guest's ID
	Tool      string          `json:"tool"`         // path, as named by the program
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Digest is the SHA-256 of the tool and its canonical arguments (RFC 8785), in hexadecimal.
	Digest string `json:"digest"`
	// Asked is the digest of the call as the program wrote it; empty: it was in the plain form.
	Asked      string    `json:"asked,omitempty"`
	Decision   string    `json:"decision,omitempty"`   // policy decision; empty if none was made
	ReadOnly   bool      `json:"read_only,omitempty"`  // by its annotations
	Idempotent bool      `json:"idempotent,omitempty"` // by its annotations
	Sent       time.Time `json:"sent,omitzero"`        // when its intent was written; zero: it was never sent
	Ended      time.Time `json:"ended,omitzero"`       // when its outcome arrived; zero: unknown
	// Order is the position of its delivery to the program, from 1; 0: not delivered.
	Order  int      `json:"order,omitempty"`
	MS     int64    `json:"ms"`    // from the program's request to the outcome
	Bytes  int      `json:"bytes"` // size of the result
	Error  string   `json:"error,omitempty"`
	Kind   string   `json:"kind,omitempty"`   // kind of the error
	From   string   `json:"from,omitempty"`   // the execution whose journal answered it
	Labels []string `json:"labels,omitempty"` // labels of the result
	Plan   *InPlan  `json:"plan,omitempty"`   // its place in a plan; nil: none

	Value   json.RawMessage     `json:"-"` // value returned to the program; nil for undefined
	Failure *sandbox.GuestError `json:"-"` // error thrown in the program
	Blocks  []Block             `json:"-"`
	Unsent  bool                `json:"-"` // it certainly had no effect
	Replay  InReplay            `json:"-"` // set if it was made in a replay
	at      time.Time           // time of its delivery
}

// Is reports whether digest identifies the call, in the plain form or as the program wrote it.
func (c *Call) Is(digest string) bool {
	return c.Digest == digest || c.Asked != "" && c.Asked == digest
}

// An InPlan describes a call that belongs to a plan. In a program that is being planned, the call
// was simulated and never sent. In one that carries out a plan, it is one of the approved calls.
type InPlan struct {
	Tool       string `json:"tool"`       // exact path
	Definition string `json:"definition"` // digest of the tool's description
	Policies   string `json:"policies"`   // version of the policies that decided
	// Arguments are the arguments that the tool would receive, with tokens replaced by the personal
	// data. If nil, they are the arguments that the program sent.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Given returns the arguments that the tool would receive for a call that the program made with
// sent.
func (p *InPlan) Given(sent json.RawMessage) json.RawMessage {
	if p.Arguments != nil {
		return p.Arguments
	}
	return sent
}

// PlanCall is the ID of the call by which an execution asks about its plan. No guest uses this ID.
const PlanCall int64 = -1

// Simulated reports whether the call was planned and not sent.
func (c *Call) Simulated() bool { return c.Plan != nil && c.Sent.IsZero() }

// Known reports whether the call's outcome is known.
func (c *Call) Known() bool { return !c.Ended.IsZero() }

// Unknown reports whether the call was sent and may have written, but its outcome is unknown.
func (c *Call) Unknown() bool {
	return !c.Sent.IsZero() && !c.Known() && !c.ReadOnly && !c.Idempotent
}

// A Block is a content block (an image, audio, a resource) that a value refers to by its handle.
type Block struct {
	Handle string          `json:"handle"`
	Raw    json.RawMessage `json:"raw"`
}
