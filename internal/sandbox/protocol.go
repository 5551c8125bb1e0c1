package sandbox

import "encoding/json"

// The guest protocol: each side writes messages, each one JSON object on a line of its own ('\n' ends it and is
// nowhere inside). The host begins a program with one Run; the guest writes Calls, Files, Consoles and Timers as the
// program runs, in any order and any number at once, and ends it with exactly one Done or Fail. The host answers each
// Call and File by one Answer with the same ID, in any order, and a Timer by one Wake when its time has come. When it has
// read Done or Fail it ends the stream (io.EOF), or, in a session, begins the next program with another Run.
//
// A guest that can't go on without an answer (a synchronous function for files, a call in a language that has no await
// there) may ask instead (Cmd.Ask): the question is a GuestMessage, of Call, File or Sleep, the answer a HostMessage with
// an Answer.
//
// The guest is deterministic: all that it hears of the outside are the lines of the host and the answers to what it
// asks, time and randomness included. The same lines and answers in the same order bring about the same lines of its own, and
// leave the same state.
//
// Values cross as JSON. Where they hold integers beyond 2^53 (which a JavaScript number can't), they are written as
// they are: both sides read and write such integers exactly (BigInt in JavaScript).

// A HostMessage is what the host writes to the guest. Exactly one field beside At is set.
type HostMessage struct {
	// At is the time of day in milliseconds since the epoch: what the guest's clocks show while it deals with the message.
	// It never goes back: where At is earlier than what the guest's clock shows, the clock stays.
	At     int64   `json:"at,omitempty"`
	Run    *Run    `json:"run,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Wake   *Wake   `json:"wake,omitempty"`
}

// Run starts a program.
type Run struct {
	Code string `json:"code"`           // in "js" a script whose completion value is a function, the value of the program is what its call gives, awaited; in "python" the text of the program
	Name string `json:"name"`           // file name in stack traces
	Line int    `json:"line,omitempty"` // in "python": how many lines of the agent's text stand before Code; stack traces count them
	Seed string `json:"seed,omitempty"` // 64 hexadecimal digits: all of the program's randomness comes of it; absent only where nothing needs any
	// Session says that this program is one of a session's: what the programs before it left (timers that have not gone
	// off, promises, declarations) is there, and what it leaves will be.
	Session bool `json:"session,omitempty"`
	// Namespaces are the globals through which the program reaches tools: safe upstream name to safe member names.
	// A member that is not listed may be called all the same: the host decides.
	Namespaces map[string][]string `json:"namespaces,omitempty"`
	// Aliases are further globals: other names for a namespace ("github") or a tool ("github.list_issues").
	Aliases map[string]string `json:"aliases,omitempty"`
	// Whole are the namespaces of which all members are listed: another name is no tool of theirs.
	Whole []string `json:"whole,omitempty"`
}

// Answer ends a Call or a File of the guest.
type Answer struct {
	ID    int64           `json:"id"`
	Value json.RawMessage `json:"value,omitempty"` // absent means undefined
	Error *GuestError     `json:"error,omitempty"`
}

// Wake says that the time of the guest's last Timer has come.
type Wake struct{}

// A GuestMessage is what the guest writes to the host. Exactly one field is set.
type GuestMessage struct {
	Call    *GuestCall `json:"call,omitempty"`
	File    *File      `json:"file,omitempty"`
	Sleep   *Sleep     `json:"sleep,omitempty"` // asked only
	Timer   *Timer     `json:"timer,omitempty"`
	Console *Console   `json:"console,omitempty"`
	Emit    *Emit      `json:"emit,omitempty"`
	Done    *Done      `json:"done,omitempty"`
	Fail    *Fail      `json:"fail,omitempty"`
	// Hold says that the guest stands still until the next line of the host comes (a call that nothing awaits, in a
	// language that has no await there): it can't be kept (Cmd.Keep) before that.
	Hold bool `json:"hold,omitempty"`
}

// Timer asks for one Wake in MS milliseconds, instead of any that was asked for before; negative: none. A Run takes back
// what was asked for before it.
type Timer struct {
	MS float64 `json:"ms"`
}

// Sleep asks to stand still for MS milliseconds.
type Sleep struct {
	MS float64 `json:"ms"`
}

// GuestCall asks for a call of a tool.
type GuestCall struct {
	ID    int64           `json:"id"`
	Path  string          `json:"path"`            // "github.list_issues" (safe), "github.list-issues" (exact), or another form
	Args  json.RawMessage `json:"args,omitempty"`  // absent means {}; an array holds arguments by position
	Stack string          `json:"stack,omitempty"` // where the program made it
}

// File asks for something of the virtual file system: ./tools (read-only), ./skills and ./workspace. What it gives and
// which errors (GuestError.Code has the POSIX name) are those of POSIX; there are no links, owners or permissions.
//
//	"read"     gives the text (bytes that are no UTF-8 become U+FFFD), or with Base64 the bytes; of Offset and Length where given
//	"write"    writes Data; Flag is that of fopen: "w" (empty means that), "wx", "a", "ax", "r+" (in place, at Offset; it must exist)
//	"truncate" sets the length to Offset
//	"list"     gives the names in a directory, sorted, as an array of {"name", "dir"}
//	"stat"     gives {"dir": bool, "size": n, "mtime": ms since the epoch, "readonly": bool}
//	"mkdir"    makes a directory; with Recursive those above it too, and one that exists is no error
//	"rm"       removes a file, with Recursive a directory and all in it; with Force what isn't there is no error
//	"rmdir"    removes an empty directory
//	"rename"   moves Path to To
//	"copy"     copies the file Path to To; with Flag "wx" To must not exist
type File struct {
	ID        int64  `json:"id"`
	Op        string `json:"op"`
	Path      string `json:"path"` // as the program wrote it; relative ones begin at the root, which holds ./tools, ./skills and ./workspace
	To        string `json:"to,omitempty"`
	Data      string `json:"data,omitempty"`   // text, or base64 with Base64
	Base64    bool   `json:"base64,omitempty"` // Data, or the value, is base64
	Handle    string `json:"handle,omitempty"` // "write": the bytes of an image, audio or resource that a tool gave, instead of Data
	Offset    int64  `json:"offset,omitempty"`
	Length    *int64 `json:"length,omitempty"` // "read": at most so many bytes; absent: all
	Flag      string `json:"flag,omitempty"`
	Recursive bool   `json:"recursive,omitempty"`
	Force     bool   `json:"force,omitempty"`
}

// NoteLevel is the Console.Level of what the runtime tells the agent about a program.
const NoteLevel = "note"

// Console is one line that the program logged, or a note of the runtime.
type Console struct {
	Level string `json:"level"` // "log", "info", "warn", "error", "debug"; NoteLevel: a note for the agent, not logged by the program
	Text  string `json:"text"`
}

// Emit gives something to the agent beside the value: a handle (an image, audio or a resource that a tool answered with)
// or, where no such handle is kept, a file by its path, as an embedded resource.
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
	Code     string `json:"code,omitempty"` // of a File: "ENOENT", "EEXIST", "EROFS", ...
	Upstream string `json:"upstream,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Stack    string `json:"stack,omitempty"`
}
