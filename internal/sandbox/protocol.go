package sandbox

import "encoding/json"

// The guest protocol: each side writes messages, each one JSON object on a line of its own ('\n' ends it and is
// nowhere inside). The host begins with one Run; the guest writes Calls, Files and Consoles as the program runs, in
// any order and any number at once, and ends with exactly one Done or Fail. The host answers each Call and File by
// one Answer with the same ID, in any order. The host hangs up (io.EOF) when it has read Done or Fail.
//
// Values cross as JSON. Where they hold integers beyond 2^53 (which a JavaScript number can't), they are written as
// they are: both sides read and write such integers exactly (BigInt in JavaScript).

// A HostMessage is what the host writes to the guest. Exactly one field is set.
type HostMessage struct {
	Run    *Run    `json:"run,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
}

// Run starts a program.
type Run struct {
	Code string `json:"code"` // a script whose completion value is a function; the value of the program is what its call gives, awaited
	Name string `json:"name"` // file name in stack traces
	// Namespaces are the globals through which the program reaches tools: safe upstream name to safe member names.
	// A member that is not listed may be called all the same: the host decides.
	Namespaces map[string][]string `json:"namespaces,omitempty"`
}

// Answer ends a Call or a File of the guest.
type Answer struct {
	ID    int64           `json:"id"`
	Value json.RawMessage `json:"value,omitempty"` // absent means undefined
	Error *GuestError     `json:"error,omitempty"`
}

// A GuestMessage is what the guest writes to the host. Exactly one field is set.
type GuestMessage struct {
	Call    *GuestCall `json:"call,omitempty"`
	File    *File      `json:"file,omitempty"`
	Console *Console   `json:"console,omitempty"`
	Emit    *Emit      `json:"emit,omitempty"`
	Done    *Done      `json:"done,omitempty"`
	Fail    *Fail      `json:"fail,omitempty"`
}

// GuestCall asks for a call of a tool.
type GuestCall struct {
	ID    int64           `json:"id"`
	Path  string          `json:"path"`            // "github.list_issues" (safe) or "github.list-issues" (exact)
	Args  json.RawMessage `json:"args,omitempty"`  // absent means {}
	Stack string          `json:"stack,omitempty"` // where the program made it
}

// File asks for something of the virtual file system.
type File struct {
	ID   int64  `json:"id"`
	Op   string `json:"op"`   // "read" (value: text), "list" (value: array of names), "stat" (value: {"dir": bool, "size": n})
	Path string `json:"path"` // as the program wrote it
}

// Console is one line that the program logged.
type Console struct {
	Level string `json:"level"` // "log", "info", "warn", "error", "debug"
	Text  string `json:"text"`
}

// Emit gives a handle (an image, audio or a resource that a tool answered with) to the agent.
type Emit struct {
	Handle string `json:"handle"`
}

// Done says that the program ended well.
type Done struct {
	Value     json.RawMessage `json:"value,omitempty"`     // absent means undefined
	Unawaited []int64         `json:"unawaited,omitempty"` // calls that the program never awaited; they were awaited at its end
}

// Fail says that the program ended with an error that it didn't catch, or can never end.
type Fail struct {
	Error GuestError `json:"error"`
}

// A GuestError is an error on its way into or out of the guest. Going in it becomes a thrown ToolError; coming out it
// is what the program threw.
type GuestError struct {
	Name     string `json:"name,omitempty"` // "TypeError", "ToolError", ...
	Message  string `json:"message"`
	Kind     string `json:"kind,omitempty"` // a tool.Kind; "stalled" where the program waits for what can't come
	Upstream string `json:"upstream,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Stack    string `json:"stack,omitempty"`
}
