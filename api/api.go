// Package api is what Biplane's HTTP API (/api/v1) sends and takes, and a client of it.
//
// All bodies are JSON. An answer that is not 2xx holds {"error": {"kind", "message"}}, an Error.
package api

import (
	"encoding/json"
	"time"
)

// Prefix is where the API begins.
const Prefix = "/api/v1"

// The kinds of errors. Execution.Error has more of its own: what the program threw, or the limit that ended it.
const (
	Invalid     = "invalid"     // the request is wrong: change it
	NotFound    = "not_found"   // no such thing
	Conflict    = "conflict"    // not in this state
	Denied      = "denied"      // policy or a person said no
	Limit       = "limit"       // a bound was reached: do less
	Timeout     = "timeout"     // it took too long; whether it took effect may be unknown
	Unavailable = "unavailable" // the other side is not there now: try again later
	Canceled    = "canceled"    // whoever asked no longer wants it
	Internal    = "internal"    // a defect of Biplane
)

// An Error is why a request was not served.
type Error struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Error gives the message.
func (e *Error) Error() string { return e.Message }

// Status is how the process that owns a data folder is.
type Status struct {
	Version   string    `json:"version"`
	PID       int       `json:"pid"`
	Started   time.Time `json:"started"`
	Config    string    `json:"config"`     // path of the configuration; empty when there is none
	ConfigSum string    `json:"config_sum"` // SHA-256 of the configuration as it was read
	DataDir   string    `json:"data_dir"`
	Listen    string    `json:"listen,omitempty"` // address of `biplane serve`; empty when it doesn't listen
	Mode      string    `json:"mode"`
	Policy    string    `json:"policy"`
	// PolicyVersion is a digest of the policies in force; PolicyProblem says why newer ones are not.
	PolicyVersion string `json:"policy_version,omitempty"`
	PolicyProblem string `json:"policy_problem,omitempty"`
	Tier          string `json:"tier"`       // weakest isolation that a program runs at
	Executions    int    `json:"executions"` // under way, or waiting for their turn
	Upstreams     int    `json:"upstreams"`
	Tools         int    `json:"tools"`
	// Warnings are names in the configuration and the policies that mean nothing here, once the upstreams have listed their tools.
	Warnings []string `json:"warnings,omitempty"`
	// Checkpoints are the places that the record's checkpoints are sent to.
	Checkpoints []AuditSink `json:"checkpoints,omitempty"`
}

// An Upstream is a source of tools, and how it is.
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
	Server    string   `json:"server,omitempty"`   // what it calls itself
	Stderr    []string `json:"stderr,omitempty"`   // last lines, oldest first
	// Weaker are hints of its tools that wait for a person, at most 1,000.
	Weaker []WeakerHints `json:"weaker,omitempty"`
}

// WeakerHints are what a server says of a tool that makes it more harmless than when it was first seen. They are not believed until a person
// accepts them.
type WeakerHints struct {
	Path    string   `json:"path"`    // of the tool, as programs write it
	Changes []string `json:"changes"` // "readOnlyHint: true (was false)"
	Claim   string   `json:"claim"`   // identifies what the server says now
}

// Broken is a tool that was left out, and why.
type Broken struct {
	Tool   string `json:"tool"`
	Reason string `json:"reason"`
}

// A Tool is a line of the list of tools.
type Tool struct {
	Path        string `json:"path"`     // as programs write it: "github.list_issues"
	Upstream    string `json:"upstream"` // exact name
	Name        string `json:"name"`     // exact name at the upstream
	Listed      string `json:"listed"`   // name in mode direct
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	ReadOnly    *bool  `json:"read_only,omitempty"` // the upstream's own word, as far as it is believed; absent when it gave none
	// Weaker are hints that wait for a person; nil if none do.
	Weaker *WeakerHints `json:"weaker,omitempty"`
}

// ToolDetail is all that is known of a tool.
type ToolDetail struct {
	Tool
	Signature    string          `json:"signature"` // TypeScript
	Example      string          `json:"example"`
	ResultNote   string          `json:"result_note,omitempty"`
	InputSchema  json.RawMessage `json:"input_schema"`
	OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	Annotations  json.RawMessage `json:"annotations,omitempty"`
}

// A Hit is a tool that a search found, best first.
type Hit struct {
	ToolDetail
	Score float64 `json:"score"`
}

// Hits are what a search found.
type Hits struct {
	Hits []Hit  `json:"hits"`
	Text string `json:"text"` // what the tool `search` gives to agents
}

// RunRequest asks for an execution.
type RunRequest struct {
	Code           string  `json:"code"`
	Language       string  `json:"language,omitempty"`
	Session        string  `json:"session,omitempty"`
	TimeoutSeconds float64 `json:"timeout_seconds,omitempty"`
	// After is an execution of which this is a corrected form: calls that it had made are answered from its journal.
	After string `json:"after,omitempty"`
	// Mode is "plan" where the program's writes are to be shown to a person, all at once, before any of them is made.
	Mode string `json:"mode,omitempty"`
	// NoWait asks for an answer within 50 seconds, whether the program has ended or not.
	NoWait bool `json:"no_wait,omitempty"`
	// Tokens asks for Execution.Tokens to be counted, which takes a moment.
	Tokens bool `json:"tokens,omitempty"`
}

// An Execution is one run of a program.
type Execution struct {
	ID      string          `json:"execution"`
	State   string          `json:"state"` // "queued", "running", "done", "failed"
	Value   json.RawMessage `json:"value"` // null when there is none
	Error   *ProgramError   `json:"error"` // null unless failed
	Console []ConsoleLine   `json:"console"`
	Calls   []CallLine      `json:"calls"`
	Notes   []string        `json:"notes,omitempty"` // what to know: calls never awaited, doubts about the program
	Tier    string          `json:"tier"`
	Missing []string        `json:"missing,omitempty"` // protections of the sandbox that are not armed on that host
	Session string          `json:"session"`
	Labels  []string        `json:"labels,omitempty"`  // of what it had read, and whoever sent it
	Rebuilt string          `json:"rebuilt,omitempty"` // why the session had to be rebuilt, by running its earlier programs again
	MS      int64           `json:"ms"`                // wall time
	Tokens  *Tokens         `json:"tokens,omitempty"`  // where they were asked for
}

// A ProgramError is why a program failed.
type ProgramError struct {
	Kind    string `json:"kind"`
	Limit   string `json:"limit,omitempty"` // which bound ended it: "memory", "cpu", "time", "stack", "output", "calls", "fan_out", "files", ...
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // 1-based, in the program as it was sent
	Column  int    `json:"column,omitempty"`
	Frame   string `json:"frame,omitempty"` // the lines around it
	Hint    string `json:"hint,omitempty"`  // what to do about it
}

// A ConsoleLine is what a program logged.
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
	From  string `json:"from,omitempty"` // the execution from whose journal it was answered, without being made again
}

// Tokens are what an execution cost and spared the model.
type Tokens struct {
	Returned int `json:"returned"` // in the answer
	KeptOut  int `json:"kept_out"` // in the results of calls that stayed in the sandbox
}

// Capability is what one kind of sandbox can do on this host.
type Capability struct {
	Driver   string            `json:"driver"`
	Tier     string            `json:"tier"`
	Engine   string            `json:"engine"`
	Runtimes []string          `json:"runtimes"`
	Details  map[string]string `json:"details,omitempty"`
	Missing  []string          `json:"missing,omitempty"` // protections that are not armed on this host
	Reason   string            `json:"reason,omitempty"`  // why it can't run here; the fields above are then empty but for Driver
}
