// Package tool holds the words that every other package shares: a Tool, a Call of it, the Result of a call, the
// Principal on whose behalf it is made, the Grant that bounds it, the Tier of isolation it ran at, the Error that
// ends it, and the one-method Caller that all of them travel through.
//
// It knows nothing of MCP, sandboxes or policy, and imports the standard library only.
package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// A Caller calls tools. It is to this program what http.Handler is to a web server: upstreams, the gateway, the
// executor, the catalog's search and every wrapper (retry, limit, record, trace) are Callers.
//
// Call returns an error when the call could not be made or its outcome is unknown, always one that errors.As finds
// an *Error in. A tool that ran and reports failure is a Result with IsError set and a nil error.
// Implementations are safe for concurrent use, and return soon after ctx is done.
type Caller interface {
	Call(ctx context.Context, c *Call) (*Result, error)
}

// CallerFunc lets a function be a Caller.
type CallerFunc func(ctx context.Context, c *Call) (*Result, error)

// Call calls f.
func (f CallerFunc) Call(ctx context.Context, c *Call) (*Result, error) { return f(ctx, c) }

// A Tool is one thing that an upstream can do.
type Tool struct {
	Upstream     string          // name of the upstream, as configured
	Name         string          // exact name at the upstream
	Title        string          // for people; may be empty
	Description  string          // may be empty
	InputSchema  json.RawMessage // JSON Schema of the arguments object; never empty
	OutputSchema json.RawMessage // JSON Schema of the structured result; nil if the upstream gives none
	Annotations  Annotations
	Raw          json.RawMessage // the definition as the upstream sent it, byte for byte; nil for tools of our own
}

// Path is the exact name of the tool in the whole catalog: "<upstream>.<name>".
func (t *Tool) Path() string { return t.Upstream + "." + t.Name }

// Digest is that of what the tool is said to do and take, SHA-256 in hexadecimal.
func (t *Tool) Digest() string {
	h := sha256.New()
	for _, part := range []string{t.Upstream, t.Name, t.Description, string(t.InputSchema), string(t.OutputSchema), string(t.Raw)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Annotations are an upstream's own hints about a tool (MCP ToolAnnotations). They are not to be trusted for more
// than a default: nil means that the upstream said nothing.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Reads reports whether the tool is said to change nothing.
func (a *Annotations) Reads() bool { return a.ReadOnly != nil && *a.ReadOnly }

// Repeats reports whether a call that was cut short may be made again: it changes nothing, or twice the same as once.
func (a *Annotations) Repeats() bool { return a.Reads() || a.Idempotent != nil && *a.Idempotent }

// A Call is one use of a tool.
type Call struct {
	ID        string          // unique in the record; the door sets it where it is empty
	Parent    string          // the execution that made the call; empty for a call from outside
	Path      string          // the tool as the caller named it: exact path, safe name or composed name
	Tool      *Tool           // what Path resolved to; set by the door
	Arguments json.RawMessage // a JSON object, byte for byte as it came; nil means {}
	Principal Principal
	Grant     Grant  // bounds; set by the door
	Program   string // digest of the program that makes the call; empty for a call from outside
	Language  string // of that program: "typescript" or "python"; empty for a call from outside
	Session   string // name of the session of that program; empty where there is none
	// Place is that of the call among those that the same caller sent before to the same session; nil: there is no order.
	Place *Place
	// Again is the record of this call that a process before this one began, where an execution was taken up and makes it again; empty:
	// there is none.
	Again string
	// Remark is told what whoever made the call should know of how it was made; may be nil.
	Remark func(string)
	Held   func(*Hold) // told when the call begins to wait for a person, and, with nil, when it no longer does; may be nil
	// InPlace says that whoever calls asks the person at once: an execution that waits for people is answered so without delay.
	InPlace  bool
	Progress func(Progress) // told of progress while the call runs; may be nil; never called after Call returned
	Log      func(Log)      // told of what the tool logs while the call runs; nil: nobody wants it; never called after Call returned
	// Labels are those of the data that its caller has read, sorted: what it sends may come of that.
	Labels []string
	// Carries is told the labels of what comes from its tool, before any of that goes back: its result, the text of its error, its
	// progress, what it logs. With an error none of it does. Nil: nobody keeps labels.
	Carries func(labels []string) error
	// Leaving is told by the door that a call which was decided on, as it goes on, is about to leave; c is not changed or kept.
	// What it gives is called once the call is on record: with an error of it the call doesn't leave. Nil: nobody wants to know.
	Leaving func(c *Call, decision string) (sure func() error)
	// Write takes over a call that is not denied and may write: its program is being planned, or carries out a plan that was approved. c is as the
	// door has it, policies is their version. Its error refuses the call. Nil: the call is asked about and made as any.
	Write func(c *Call, policies string) (*Instead, error)
	// Attempt says that the call is not to be made: its program was refused, or fails before it. The door records it as denied if the
	// principal may not see the tool, and returns an error.
	Attempt bool
	// Plan carries out what Arguments say, which are those of a plan (package plan), once a person has approved it. It is set in the
	// one call by which an execution asks about its plan, in place of a tool of the catalog.
	Plan Caller
}

// A Place is that of a call in an order. A call that needs no order doesn't take it.
type Place struct {
	Come <-chan struct{}       // closed once all before it have left theirs
	Take func() (leave func()) // whoever takes it leaves it, come or not; more than once does nothing more
}

// An Instead is what becomes of a call that was taken over.
type Instead struct {
	Result    *Result         // its answer: nothing is sent. Nil: it is made
	Arguments json.RawMessage // with these, byte for byte
	Reason    string          // for the record
}

// A Hold is a call's wait for a person.
type Hold struct {
	Request string // id of the approval request
	Reason  string // why a person is asked; one line
	Expires time.Time
}

// Progress is how far a call has come, in units of the tool's own choosing. Total is 0 where it is not known.
type Progress struct {
	Done    float64
	Total   float64
	Message string
}

// A Log is a message that a tool logged while a call ran.
type Log struct {
	Level string          // "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
	Raw   json.RawMessage // an object of the shape of MCP's LoggingMessageNotificationParams, byte for byte
}

// A Principal is on whose behalf a call is made. The person, the agent and the client software are separate facts: a
// person lets an agent act for them, and the agent is reached through a program that has a name of its own. Package
// identity says which of them it knows; what it doesn't know is empty. ID alone says whose sessions and executions are whose.
type Principal struct {
	ID     string // stable and unique: "local:ann", "key:ci", "https://login.example.com#248289761001"
	Name   string // for people to read, like an e-mail address; proves nothing
	Person string // the ID of the person who is acting, or for whom the agent acts; empty where none is known
	Agent  string // the agent that acts: the name of an API key, the client_id of a token
	Client string // client software, "name/version"; empty where it did not say

	Roles  []string // what the person may do: "viewer", "auditor", "approver", "user", "admin"
	Groups []string // as the issuer names them
	Scopes []string // what the credential was given out for; nil where none bounds it, as for the local user
	Tools  []string // patterns of paths that a credential is bounded to ("github.*"); nil: all
	Chain  []string // who acts for whom, the current actor first (RFC 8693, section 4.1); empty without delegation

	Until time.Time // when the credential that it came with ends; zero: not by itself
}

// A Grant bounds a call that policy allowed.
type Grant struct {
	Tier   Tier    // weakest isolation that a program may run at
	Bounds []Bound // how much may be used over time: all of them hold
}

// A Bound is how much of something a policy lets be used: at once at most Max, and over long times Max in a Window. The
// words are those of package limit.
type Bound struct {
	Policy string        // the id of the policy: each counts for itself
	What   string        // "calls", "egress", "executions", "concurrent", "cpu", "tokens"
	Max    float64       // calls, bytes, executions, seconds of CPU time, tokens
	Window time.Duration // 0 for "concurrent"
	Per    string        // "principal", "upstream", "tool", "all"
}

// State says how an upstream is.
type State string

// The states of an upstream.
const (
	Connecting  State = "connecting"    // the first connection is being made; there are no tools yet
	Ready       State = "ready"         // connected, the list of tools is current
	Degraded    State = "degraded"      // connected, but something is wrong: the list may be stale, or calls fail often
	Down        State = "down"          // not connected; the last good list, if any, is served as stale
	NeedsSignIn State = "needs sign-in" // it asks for credentials: `biplane connect <upstream>`
)

// Health is how an upstream is, and why.
type Health struct {
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // one line for people; empty when Ready
	Stale  bool   `json:"stale,omitempty"`  // the tools are those of an earlier connection
}

// SourceLabels returns the labels that say what data a caller has read.
func SourceLabels() []string { return []string{"confidential", "pii", "untrusted"} }
