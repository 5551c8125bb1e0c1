// Package tool defines the types that all other packages share: a Tool, a Call of it, the Result of
// a call, the Principal on whose behalf it is made, the Grant that bounds it, the Tier of isolation
// it ran at, the Error that ends it, and the one-method interface Caller, through which all of them
// pass.
//
// It knows nothing of MCP, sandboxes or policy, and imports only the standard library.
package tool

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// A Caller calls tools. It is to this program what http.Handler is to a web server: upstreams, the
// gateway, the executor, the catalog's search and every wrapper (retry, limit, record, trace) are
// Callers.
//
// Call returns an error if the call could not be made or its outcome is unknown. errors.As always
// finds an *Error in it. If a tool ran and reports failure, Call returns a Result with IsError set
// and a nil error. Implementations are safe for concurrent use, and return soon after ctx is done.
type Caller interface {
	Call(ctx context.Context, c *Call) (*Result, error)
}

// CallerFunc is an adapter that makes a function a Caller.
type CallerFunc func(ctx context.Context, c *Call) (*Result, error)

// Call calls f.
func (f CallerFunc) Call(ctx context.Context, c *Call) (*Result, error) { return f(ctx, c) }

// A Tool is a tool of an upstream.
type Tool struct {
	Upstream     string          // name of the upstream, as configured
	Name         string          // exact name at the upstream
	Title        string          // for display; may be empty
	Description  string          // may be empty
	InputSchema  json.RawMessage // JSON Schema of the arguments object; never empty
	OutputSchema json.RawMessage // JSON Schema of the structured result; nil if the upstream declares none
	Annotations  Annotations
	Raw          json.RawMessage // definition as sent by the upstream, byte for byte; nil for Biplane's own tools
	// Hidden holds a few of the hidden characters that were removed from the definition.
	Hidden []rune
	// Method is the MCP method that a call of the tool sends, and whose result is the structured
	// result: ReadResource, for example. It is empty for tools that the upstream lists.
	Method string
	// Personal means that the upstream makes calls of the tool with the credentials of the calling
	// principal.
	Personal bool
	// Judge decides which calls only read. Nil: Annotations hold for every call.
	Judge CallJudge
}

// A CallJudge judges single calls of a tool whose effect depends on its arguments. The tool's
// Annotations describe the calls that write. Implementations are comparable.
type CallJudge interface {
	// OnlyReads reports whether a call with these arguments only reads: false if that is unknown.
	OnlyReads(arguments json.RawMessage) bool
	// RenamesFields reports whether the result of a call with these arguments has fields under
	// other names than those of the tool's server.
	RenamesFields(arguments json.RawMessage) bool
}

// ForCall returns the tool as it applies to a call with the given arguments.
func (t *Tool) ForCall(arguments json.RawMessage) *Tool {
	if t == nil || t.Judge == nil || !t.Judge.OnlyReads(arguments) {
		return t
	}
	return t.AsReader()
}

// AsReader returns a copy of the tool, as it applies to calls that only read.
func (t *Tool) AsReader() *Tool {
	yes, no := true, false
	own := *t
	own.Annotations.ReadOnly, own.Annotations.Destructive, own.Annotations.Idempotent = &yes, &no, &yes
	return &own
}

// Path returns the unique name of the tool in the catalog: "<upstream>.<name>".
func (t *Tool) Path() string { return t.Upstream + "." + t.Name }

// Digest returns the SHA-256 of the tool's description and schemas, in hexadecimal.
func (t *Tool) Digest() string {
	h := sha256.New()
	for _, part := range []string{t.Upstream, t.Name, t.Description, string(t.InputSchema), string(t.OutputSchema),
		string(t.Raw)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Annotations are an upstream's own hints about a tool (MCP ToolAnnotations). They must not be
// trusted for more than a default; nil means that the upstream did not say.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Reads reports whether the tool claims to be read-only.
func (a *Annotations) Reads() bool { return a.ReadOnly != nil && *a.ReadOnly }

// Repeats reports whether an interrupted call may be retried: the tool is read-only or idempotent.
func (a *Annotations) Repeats() bool { return a.Reads() || a.Idempotent != nil && *a.Idempotent }

// A Call is a call of a tool.
type Call struct {
	ID        string          // unique in the record; set by the gateway if empty
	Path      string          // the tool as named by the caller: exact path, safe name or composed name
	Tool      *Tool           // the tool that Path resolved to; set by the gateway
	Arguments json.RawMessage // a JSON object, byte for byte as it came; nil means {}
	Principal Principal
	Grant     Grant // limits; set by the gateway
	// Labels are the labels of the data that the caller has read, sorted: its arguments may derive
	// from it.
	Labels []string
	By     *Program // the program that makes the call; nil for a call from outside
	// Place is the call's place among the calls of the same caller to the same session; nil: no
	// order.
	Place *Place
	// InPlace means that the caller asks the person immediately: an execution that waits for people
	// is answered without delay.
	InPlace bool
	// Observer is notified of what happens to the call. It may be nil: use Observe.
	Observer Observer
}

// A Program has the fields of a call that only calls of programs have.
type Program struct {
	Execution string // its execution; empty for a call from outside, and for one of Sandbox
	// Sandbox is the id of the sandbox of one's own, or of the hosted server, whose processes make
	// a connection; otherwise empty.
	Sandbox  string
	Digest   string // of the program's code
	Language string // "typescript", "python" or "bash"
	Session  string // name of its session; empty if there is none
	Tier     Tier   // of its sandbox
	// Findings are the findings of its review; must not be modified.
	Findings []Finding
	// Again is the ID of this call's record in an earlier process, if the execution was resumed and
	// repeats it; otherwise empty.
	Again string
	// Attempt means that the call is not to be made: the program was rejected, or fails earlier.
	// The gateway records it as denied if the principal can't see the tool, and returns an error.
	Attempt bool
	// Plan carries out the plan (package plan) in the call's arguments after a person has approved
	// it. It is set in the single call by which an execution asks about its plan, instead of a tool
	// of the catalog.
	Plan Caller
	// Planner decides what becomes of the program's calls that may write. It is set if the program
	// is being planned or carries out an approved plan. Nil: the calls are sent.
	Planner Planner
	// Unattended means that no one is asked: a call that needs approval is rejected.
	Unattended bool
	// Serving is set if the program implements a tool of a folder, or is a hosted server; nil: it
	// is an agent's program.
	Serving *Serving
}

// A Serving describes the tool that a program implements, or the hosted server that it is.
type Serving struct {
	// Tools are the paths of the tools under way, the outermost first: the last one is the
	// program's, and each was called by the program of the one before.
	Tools []string
	// Hosts are the network hosts that the configuration grants to the program, in lower case. It
	// reaches no others.
	Hosts []string
	// Grantor names what grants the hosts, for the record: "folders.local".
	Grantor string
}

// A Planner decides what is done instead of sending a call of a program.
type Planner interface {
	// TakeOver is called by the gateway for each call that is not denied and may write. c is the
	// call as resolved, and policies is the version of the policies. An error rejects the call.
	TakeOver(c *Call, policies string) (*Instead, error)
}

// FromProgram returns the program that makes the call, or the zero Program for a call from outside.
func (c *Call) FromProgram() Program {
	if c.By == nil {
		return Program{}
	}
	return *c.By
}

// A Place is a call's place in an order. Calls that need no order don't take theirs.
type Place struct {
	Come <-chan struct{} // closed when no earlier call holds a place
	// Take claims the place. The caller must call leave, even before Come is closed. Calling leave
	// again has no effect.
	Take func() (leave func())
}

// An Instead is the outcome of a call that was taken over.
type Instead struct {
	Result    *Result         // its result: nothing is sent. Nil: the call is made
	Arguments json.RawMessage // arguments to send, byte for byte
	Reason    string          // for the record
}

// A Hold describes a call's wait for a person.
type Hold struct {
	Request string // id of the approval request
	Reason  string // why a person is asked, in one line
	Expires time.Time
}

// Progress is the progress of a call, in units chosen by the tool. Total is 0 if unknown.
type Progress struct {
	Done    float64
	Total   float64
	Message string
}

// A Log is a message that a tool logged while a call ran.
type Log struct {
	Level string          // "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
	Raw   json.RawMessage // an object in the form of MCP's LoggingMessageNotificationParams, byte for byte
}

// A Principal identifies who a call is made for. The person, the agent and the client software are
// separate: a person lets an agent act for them, and the agent uses client software, which has its
// own name. Package identity determines which of them are known; unknown ones are empty. Only ID
// determines the ownership of sessions and executions.
type Principal struct {
	ID     string // stable and unique: "local:ann", "key:ci", "https://login.example.com#248289761001"
	Name   string // for display, like an e-mail address; not proof of identity
	Person string // ID of the person who acts, or for whom the agent acts; empty if unknown
	Agent  string // acting agent: the name of an API key, the client_id of a token
	Client string // client software, "name/version"; empty if unknown
	// Profile is the endpoint through which the request came, which limits the tools; empty: none.
	Profile string

	Roles  []string // roles of the person: "viewer", "auditor", "approver", "user", "admin"
	Groups []string // as named by the issuer
	Scopes []string // scopes of the credential; nil if it has no such limit, as for the local user
	Tools  []string // patterns of the paths that a credential is limited to ("github.*"); nil: all
	Chain  []string // chain of delegation, the current actor first (RFC 8693, section 4.1); empty without delegation

	Until time.Time // when its credential expires; zero: never
}

// AppendKey appends a key that differs for principals that differ in anything but Until.
func (p *Principal) AppendKey(b []byte) []byte {
	b = AppendTexts(b, p.ID, p.Name, p.Person, p.Agent, p.Client, p.Profile)
	for _, list := range [...][]string{p.Roles, p.Groups, p.Scopes, p.Tools, p.Chain} {
		b = AppendTexts(b, list...)
	}
	return b
}

// AppendTexts appends texts to a key, so that different lists of texts make different keys. Nil
// differs from an empty list.
func AppendTexts(key []byte, texts ...string) []byte {
	n := uint64(0)
	if texts != nil {
		n = uint64(len(texts)) + 1
	}
	key = binary.AppendUvarint(key, n)
	for _, s := range texts {
		key = append(binary.AppendUvarint(key, uint64(len(s))), s...)
	}
	return key
}

// A Grant holds the limits of a call that policy allowed.
type Grant struct {
	Tier   Tier    // weakest allowed isolation of programs
	Bounds []Bound // limits on use over time: all of them apply
}

// A Bound limits the use of something by policy: at most Max at once, or at most Max per Window.
// Package limit defines the names.
type Bound struct {
	Policy string        // ID of the policy: each policy counts separately
	What   string        // "calls", "egress", "executions", "concurrent", "cpu", "tokens"
	Max    float64       // calls, bytes, executions, seconds of CPU time, tokens
	Window time.Duration // 0 for "concurrent"
	Per    string        // "principal", "upstream", "tool", "all"
}

// A State is the state of an upstream.
type State string

// The states of an upstream.
const (
	Connecting  State = "connecting"    // the first connection is being made; there are no tools yet
	Ready       State = "ready"         // connected, and the list of tools is current
	Degraded    State = "degraded"      // connected with problems: the list may be stale, or calls fail often
	Down        State = "down"          // not connected; the last good list, if any, is served as stale
	NeedsSignIn State = "needs sign-in" // credentials are required: `biplane connect <upstream>`
)

// Health is the state of an upstream and its reason.
type Health struct {
	State  State  `json:"state"`
	Reason string `json:"reason,omitempty"` // one line for display; empty if Ready
	Stale  bool   `json:"stale,omitempty"`  // the tools are from an earlier connection
}

// LabelUntrusted is the label of content that anyone may have written, such as answers of hosts.
const LabelUntrusted = "untrusted"

// SourceLabels returns the labels that describe the origin of data that a caller has read.
func SourceLabels() []string { return []string{"confidential", "pii", LabelUntrusted} }
