// Package api declares the requests and responses of Biplane's HTTP API (/api/v1), and a client for
// it.
//
// All bodies are JSON. A response that is not 2xx is a Problem.
package api

import (
	"encoding/json"
	"strings"
	"time"
)

// Prefix is the path prefix of the API.
const Prefix = "/api/v1"

// IdempotencyHeader names the header of a key that makes a request that creates something safe to
// repeat: the same request with the same key gets the first one's answer. See WithKey.
const IdempotencyHeader = "Idempotency-Key"

// The kinds of errors. Execution.Error has more: what the program threw, or the limit that ended
// it.
const (
	Invalid     = "invalid"     // the request is wrong: change it
	NotFound    = "not_found"   // the named object does not exist
	Conflict    = "conflict"    // not possible in the current state
	Denied      = "denied"      // a policy or a person refused
	Limit       = "limit"       // a limit was reached: ask for less
	Timeout     = "timeout"     // it took too long; whether it took effect may be unknown
	Unavailable = "unavailable" // the other side can't be reached now: try again later
	Canceled    = "canceled"    // the caller canceled the request
	Internal    = "internal"    // a bug in Biplane
)

// An Error reports why a request failed.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// A Problem is the body of a response that is not 2xx, of type application/problem+json (RFC 9457).
// The member error has the same content for clients that read only that.
type Problem struct {
	Type   string `json:"type"`   // the address of an explanation of the kind
	Title  string `json:"title"`  // of the kind
	Status int    `json:"status"` // of the response
	Detail string `json:"detail"` // Error.Message
	Error  Error  `json:"error"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// A Status describes the process that owns a data folder.
type Status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	Config    string    `json:"config"`     // path of the configuration; empty if there is none
	ConfigSum string    `json:"config_sum"` // SHA-256 of the configuration as it was read
	DataDir   string    `json:"data_dir"`
	Listen    string    `json:"listen,omitempty"` // address of `biplane serve`; empty if it doesn't listen
	Mode      string    `json:"mode"`
	Policy    string    `json:"policy"`
	// PolicyVersion is a digest of the policies in force. PolicyProblem says why newer ones are not
	// in force.
	PolicyVersion string `json:"policy_version,omitempty"`
	PolicyProblem string `json:"policy_problem,omitempty"`
	Tier          string `json:"tier"`       // weakest isolation that programs run at
	Executions    int    `json:"executions"` // running or queued
	Upstreams     int    `json:"upstreams"`
	Tools         int    `json:"tools"`
	// Warnings are unknown names in the configuration and the policies. They are reported once the
	// upstreams have listed their tools.
	Warnings []string `json:"warnings,omitempty"`
	// Reload is the result of the last reload of the configuration; nil if it has not changed.
	Reload *Reload `json:"reload,omitempty"`
	// Checkpoints are the sinks that the checkpoints of the audit log are sent to.
	Checkpoints []AuditSink `json:"checkpoints,omitempty"`
}

// A Reload is the result of reading the configuration again.
type Reload struct {
	Time time.Time `json:"time"`
	// Problem says why the file is not in force; the previous configuration stays.
	Problem string `json:"problem,omitempty"`
	// Restart lists the changed parts of the file that take effect at the next start.
	Restart []string `json:"restart,omitempty"`
}

// An Upstream is a source of tools and its current state.
type Upstream struct {
	Name      string   `json:"name"`
	Namespace string   `json:"namespace"` // its name in programs
	Type      string   `json:"type"`      // "stdio", "http", "sse"
	Target    string   `json:"target"`    // the command or the address, without credentials
	State     string   `json:"state"`     // "connecting", "ready", "degraded", "down", "needs sign-in"
	Reason    string   `json:"reason,omitempty"`
	Stale     bool     `json:"stale,omitempty"` // the tools are those of an earlier connection
	Tools     int      `json:"tools"`
	Broken    []Broken `json:"broken,omitempty"`
	Protocol  string   `json:"protocol,omitempty"` // MCP revision
	Server    string   `json:"server,omitempty"`   // the name that the server reports
	Stderr    []string `json:"stderr,omitempty"`   // last lines, oldest first
	// Weaker holds the hints of its tools that a person has yet to accept, at most 1,000.
	Weaker []WeakerHints `json:"weaker,omitempty"`
	// Definitions holds notices about the definitions of its tools, at most 1,000.
	Definitions []DefinitionNotice `json:"definitions,omitempty"`
	// Sandbox is the sandbox that a server of type stdio runs in; nil: it is a child process.
	Sandbox *ServerSandbox `json:"sandbox,omitempty"`
}

// A ServerSandbox describes the sandbox of an MCP server.
type ServerSandbox struct {
	Tier    string   `json:"tier"`
	Image   string   `json:"image,omitempty"`   // empty: the host's programs
	Network []string `json:"network,omitempty"` // hosts that it may reach
	Missing []string `json:"missing,omitempty"` // protections that this host lacks, and their substitutes
}

// DescribeSandbox describes the sandbox in one line.
func (b *ServerSandbox) DescribeSandbox() string {
	text := "in a sandbox of tier " + b.Tier
	if b.Image != "" {
		text += " with image " + b.Image
	}
	if len(b.Network) == 0 {
		text += ", without a network"
	} else {
		text += ", which reaches " + strings.Join(b.Network, ", ")
	}
	if len(b.Missing) > 0 {
		text += "; this host lacks " + strings.Join(b.Missing, "; ")
	}
	return text
}

// A DefinitionNotice says why a person should look at the definition of a tool.
type DefinitionNotice struct {
	Path        string    `json:"path"`             // of the tool
	Change      string    `json:"change,omitempty"` // "new" or "changed" since it was accepted; empty: neither
	Diff        string    `json:"diff,omitempty"`   // the change as a unified diff; printable
	Findings    []Finding `json:"findings,omitempty"`
	Quarantined bool      `json:"quarantined,omitempty"` // the tool can't be found or called
	Claim       string    `json:"claim,omitempty"`       // identifies what can be accepted; empty: nothing
}

// A Finding is a suspicious part of a definition. Its texts are printable.
type Finding struct {
	Kind  string `json:"kind"`  // "instructions", "hidden", "lookalike", "secret", "unscanned"
	Where string `json:"where"` // "inputSchema.properties.note.description"
	Text  string `json:"text"`  // what was found
}

// WeakerHints are hints of a server that make a tool look more harmless than when it was first
// seen. They are ignored until a person accepts them.
type WeakerHints struct {
	Path    string   `json:"path"`    // of the tool, as programs write it
	Changes []string `json:"changes"` // "readOnlyHint: true (was false)"
	Claim   string   `json:"claim"`   // identifies the current hints
}

// A Broken is a tool that was left out, with the reason.
type Broken struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}

// A Tool is one entry of the list of tools.
type Tool struct {
	Path        string `json:"path"`     // as programs write it: "github.list_issues"
	Upstream    string `json:"upstream"` // exact name
	Name        string `json:"name"`     // exact name at the upstream
	Listed      string `json:"listed"`   // name in direct mode
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	// ReadOnly is the upstream's own hint, as far as it is accepted; absent if it sent none.
	ReadOnly *bool `json:"read_only,omitempty"`
	// Weaker holds hints that a person has yet to accept; nil if there are none.
	Weaker *WeakerHints `json:"weaker,omitempty"`
}

// A ToolDetail is the full description of a tool.
type ToolDetail struct {
	Tool
	Signature    string          `json:"signature"` // TypeScript
	Example      string          `json:"example"`
	ResultNote   string          `json:"result_note,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
	// Observed describes the results so far, if the tool declares no output schema.
	Observed *ObservedResult `json:"observed,omitempty"`
}

// An ObservedResult describes the results that a tool has returned so far.
type ObservedResult struct {
	Results int             `json:"results"` // that were read
	Version int             `json:"version"` // counts the definitions of the tool whose results were observed
	Schema  json.RawMessage `json:"schema"`  // JSON Schema
}

// A Hit is a tool that a search found.
type Hit struct {
	ToolDetail
	Score float64  `json:"score"`
	Also  []string `json:"also,omitempty"` // paths of the same tool at other upstreams
}

// Hits are the results of a search, best first.
type Hits struct {
	Hits []Hit  `json:"hits"`
	Text string `json:"text"` // what the search tool returns to agents
}

// A RunRequest asks for an execution.
type RunRequest struct {
	Code           string  `json:"code"`
	Language       string  `json:"language,omitempty"`
	Session        string  `json:"session,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	// After is an earlier execution that this program corrects. Calls that the earlier one made are
	// answered from its journal.
	After string `json:"after,omitempty"`
	// Mode is "plan" if the program's writes are to be shown to a person, all at once, before any
	// of them is made.
	Mode string `json:"mode,omitempty"`
	// Tier is the weakest tier of the sandbox; empty: as policy says. Policy may require a stronger
	// one.
	Tier string `json:"tier,omitempty"`
	// Image is the image of the sandbox; empty: the host's programs, or what the imports need.
	Image string `json:"image,omitempty"`
	// NoWait asks for a response within 50 seconds, even if the program has not ended.
	NoWait bool `json:"no_wait,omitempty"`
	// Tokens asks for Execution.Tokens, which take a moment to count.
	Tokens bool `json:"tokens,omitempty"`
}

// An Execution is one run of a program.
type Execution struct {
	ID      string          `json:"execution"`
	State   string          `json:"state"` // "queued", "running", "done", "failed"
	Value   json.RawMessage `json:"value"` // null if there is none
	Error   *ProgramError   `json:"error"` // null unless failed
	Console []ConsoleLine   `json:"console"`
	Calls   []CallLine      `json:"calls"`
	Notes   []string        `json:"notes,omitempty"` // things to know: calls never awaited, doubts about the program
	Tier    string          `json:"tier"`
	Image   string          `json:"image,omitempty"`   // image of the sandbox; empty: the default
	Missing []string        `json:"missing,omitempty"` // sandbox protections that are not available on the host
	Session string          `json:"session"`
	Labels  []string        `json:"labels,omitempty"` // of the data it had read, and of its sender
	// why the session had to be rebuilt by running its earlier programs again
	Rebuilt string `json:"rebuilt,omitempty"`
	// what the session lost, if its sandbox can't be stored
	SessionNote string  `json:"session_note,omitempty"`
	MS          int64   `json:"ms"`               // wall time
	Tokens      *Tokens `json:"tokens,omitempty"` // if they were asked for
}

// A ProgramError reports why a program failed.
type ProgramError struct {
	Kind string `json:"kind"`
	// Limit is the limit that ended it: "memory", "cpu", "time", "stack", "output", "calls",
	// "fan_out", "files", ...
	Limit   string `json:"limit,omitempty"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // 1-based, in the program as it was sent
	Column  int    `json:"column,omitempty"`
	Frame   string `json:"frame,omitempty"` // the lines around it
	Hint    string `json:"hint,omitempty"`  // how to fix it
}

// A ConsoleLine is a line that a program logged.
type ConsoleLine struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// A CallLine is a call that a program made.
type CallLine struct {
	Tool  string `json:"tool"`
	MS    int64  `json:"ms"`
	Bytes int    `json:"bytes"`
	Error string `json:"error,omitempty"`
	From  string `json:"from,omitempty"` // the execution whose journal answered it; the call was not made again
}

// Tokens count what an execution cost the model and what it saved.
type Tokens struct {
	Returned int `json:"returned"` // in the response
	KeptOut  int `json:"kept_out"` // in the results of calls that stayed in the sandbox
}

// A Capability describes what one kind of sandbox supports on this host.
type Capability struct {
	Driver   string            `json:"driver"`
	Tier     string            `json:"tier"`
	Engine   string            `json:"engine"`
	Runtimes []string          `json:"runtimes"`
	Details  map[string]string `json:"details,omitempty"`
	Missing  []string          `json:"missing,omitempty"` // protections that are not available on this host
	// Unavailable maps runtimes that can't run on this host to the reason.
	Unavailable map[string]string `json:"unavailable,omitempty"`
	// Reason says why it can't run here. If it is set, the fields above are empty, except Driver.
	Reason string `json:"reason,omitempty"`
}
