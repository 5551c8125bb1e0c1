// Package journal says what is written down of an execution, while it runs and afterwards: a Record, which lists show, and
// entries in order, which hold all that its guest heard of the outside and all that it asked of it.
//
// A guest is deterministic (package sandbox): the same lines of the host and the same answers to its questions give the same
// bytes. So the entries are enough to run a program again (Story.Play), to go on with one that a crash ended, and to say what
// it did. A Log writes them; a Story is what they say; a Store keeps them, sealed.
//
// Entries are written in their order, by one writer, and nobody waits for that, except for the intent of a call that may write: it
// is on the disk before the call leaves, and so is all that was written before it. What is not in the journal therefore had no
// effect, and what the guest did since its last entry it does again, in the same way.
package journal

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// State says how far an execution is.
type State string

// The states of an execution. One that waits for its turn is Running for the outside.
const (
	Running     State = "running"     // under way
	Waiting     State = "waiting"     // it only waits for calls, and is suspended meanwhile
	Done        State = "done"        // it ended well
	Failed      State = "failed"      // it ended with an error
	Interrupted State = "interrupted" // biplane ended while it ran, and it could not go on; see Record.Why
)

// Ended reports whether nothing comes after s.
func (s State) Ended() bool { return s == Done || s == Failed || s == Interrupted }

// A Record is an execution as lists show it. All of it may be read by whoever can read the store.
type Record struct {
	ID        string
	Principal string
	Client    string // client software; empty where it did not say
	Session   string // empty: none
	Language  string // "typescript" or "python"
	Tier      tool.Tier
	Engine    string // what ran it, for people
	Build     string // the identity of the engine's build: another one may do something else. Empty: not known
	State     State
	Started   time.Time
	Ended     time.Time // zero: it has not
	Calls     int
	Bytes     int64  // of its journal
	After     string // the execution that it corrects; empty: none
	Lost      string // why it can't be replayed or recovered; empty where it can
	Why       string // why it failed or was interrupted, in one line; empty otherwise
	Attempts  int    // recoveries since it last got on by itself
}

// A Query picks executions, the newest first. Empty fields pick all.
type Query struct {
	Principal string
	Session   string
	State     State
	Before    string // those older than this execution
	Limit     int    // default and most: 1,000
}

// Max is how many are given at most.
func (q Query) Max() int {
	const most = 1000
	if q.Limit <= 0 || q.Limit > most {
		return most
	}
	return q.Limit
}

// A Write is one step of writing, done as a whole or not at all, after all that were given to the Store before it.
type Write struct {
	Record  *Record  // the execution as it is now, or nil where that is unchanged
	New     bool     // Record is the first of its execution
	ID      string   // of the execution
	Seq     int      // of Part, from 1; 0: there is none
	Part    []byte   // entries
	Results []Result // what entries of Part refer to
}

// A Result is something large that entries refer to. Equal ones are kept once.
type Result struct {
	Digest string // as Store.Digest gives it
	Data   []byte
}

// A Pending is a Write that was given to a Store.
type Pending interface {
	// Safe waits until the death of this process doesn't take it back. Its error may mean that it does.
	Safe() error
	// Wait waits until it is written: what is read of the Store has it, too. Its error may mean that it is not.
	Wait() error
	// Sync waits until the disk has it, and all that was given to the store before it, though what is read of the store may not have it yet. Its error
	// may mean that it doesn't.
	Sync() error
	// Hurry has it safe without a pause for what may come with it. It doesn't wait.
	Hurry()
}

// A Store keeps journals, sealed. It is safe for concurrent use. Errors are *tool.Errors.
type Store interface {
	// Write takes a step, after those that were given before. A part whose forerunner could not be written is not written.
	Write(w *Write) Pending
	// Digest names data by a digest that can't be made without the store's key.
	Digest(data []byte) string
	// Get gives an execution; nil when there is none.
	Get(ctx context.Context, id string) (*Record, error)
	// List gives executions, the newest first.
	List(ctx context.Context, q Query) ([]Record, error)
	// Open gives those that have not ended, the oldest first.
	Open(ctx context.Context) ([]Record, error)
	// Parts gives the parts of a journal in their order. A part that was changed by others, or is missing, is an error of kind
	// conflict.
	Parts(ctx context.Context, id string) ([][]byte, error)
	// Result gives a result by its digest. One that is gone is an error of kind not_found.
	Result(ctx context.Context, digest string) ([]byte, error)
	// Trim deletes what has ended before a time, and of the others the oldest of the principals with the most, until their journals are at
	// most so many bytes. The journals of a principal that has no more than an equal share stay.
	// It gives how many executions it deleted. One that has not ended stays.
	Trim(ctx context.Context, before time.Time, bytes int64) (int, error)
}

// A Call is one call of a program, in the order in which the program made them.
type Call struct {
	N          int             `json:"n"`            // from 1
	ID         int64           `json:"id,omitempty"` // of the guest
	Tool       string          `json:"tool"`         // its path, as the program named it
	Arguments  json.RawMessage `json:"arguments,omitempty"`
	Digest     string          `json:"digest"`               // SHA-256 of the tool and its canonical arguments (RFC 8785), in hexadecimal
	Asked      string          `json:"asked,omitempty"`      // the digest of the call as the program wrote it; empty: in the plain form
	Decision   string          `json:"decision,omitempty"`   // of policy; empty where it never came to that
	ReadOnly   bool            `json:"read_only,omitempty"`  // by its annotations
	Idempotent bool            `json:"idempotent,omitempty"` // by its annotations
	Sent       time.Time       `json:"sent,omitzero"`        // when its intent was written; zero: it never left
	Ended      time.Time       `json:"ended,omitzero"`       // when its outcome came; zero: it is not known
	Order      int             `json:"order,omitempty"`      // of its delivery to the program, from 1; 0: it was not delivered
	MS         int64           `json:"ms"`                   // from the program's asking to the outcome
	Bytes      int             `json:"bytes"`                // of the result
	Error      string          `json:"error,omitempty"`
	Kind       string          `json:"kind,omitempty"`   // of the error
	From       string          `json:"from,omitempty"`   // the execution whose journal answered it
	Labels     []string        `json:"labels,omitempty"` // of what came of it
	Plan       *InPlan         `json:"plan,omitempty"`   // what it is in a plan; nil: nothing

	Value   json.RawMessage     `json:"-"` // what the program was given; nil for undefined
	Failure *sandbox.GuestError `json:"-"` // or thrown
	Blocks  []Block             `json:"-"`
	Unsent  bool                `json:"-"` // it surely had no effect
	at      time.Time           // of its delivery
}

// Is reports whether digest is that of the call, in the plain form or as the program wrote it.
func (c *Call) Is(digest string) bool {
	return c.Digest == digest || c.Asked != "" && c.Asked == digest
}

// An InPlan says what a call is in a plan: of a program that is planned it was simulated, and never left; of one that carries out a plan it is
// one of the calls that were approved.
type InPlan struct {
	Tool       string `json:"tool"`       // exact path
	Definition string `json:"definition"` // digest of what the tool is said to do
	Policies   string `json:"policies"`   // the version of those that decided
	// Arguments are those that the tool would be given, with tokens of personal data turned back; nil: those that the program sent.
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// Given gives the arguments that the tool would be given, of a call for which the program sent these.
func (p *InPlan) Given(sent json.RawMessage) json.RawMessage {
	if p.Arguments != nil {
		return p.Arguments
	}
	return sent
}

// PlanCall is the ID of the call by which an execution asks about its plan. No guest makes one of that ID.
const PlanCall int64 = -1

// Simulated reports whether the call was planned, and not sent.
func (c *Call) Simulated() bool { return c.Plan != nil && c.Sent.IsZero() }

// Known reports whether the call's outcome is known.
func (c *Call) Known() bool { return !c.Ended.IsZero() }

// Unknown reports whether the call was sent, may have written, and nobody knows whether it did.
func (c *Call) Unknown() bool {
	return !c.Sent.IsZero() && !c.Known() && !c.ReadOnly && !c.Idempotent
}

// A Block is a content block (an image, audio, a resource) that a value refers to by a handle.
type Block struct {
	Handle string          `json:"handle"`
	Raw    json.RawMessage `json:"raw"`
}
