package sandbox

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/tool"
)

// The guest protocol: each side writes messages, each a JSON object on one line that ends with a
// newline. The host starts a program with one Run. While it runs, the guest writes Calls, Files,
// Consoles and Timers in any order, with any number pending. It ends the program with exactly one
// Done or Fail. The host answers each Call and File with one Answer that has the same ID, in any
// order. It sends a Wake when a Timer expires. After it has read Done or Fail, it ends the stream
// (io.EOF) or, in a session, starts the next program with another Run.
//
// A guest that can't continue without an answer (a synchronous file function, or a call in a
// language without await there) may ask instead (Cmd.Ask). The question is a GuestMessage with a
// Call, File or Sleep, and the answer a HostMessage with an Answer.
//
// The guest is deterministic: its only inputs are the host's lines and the answers to its
// questions, including time and randomness. The same lines and answers in the same order produce
// the same output lines and the same state.
//
// Values are encoded as JSON. Integers beyond 2^53, which a JavaScript number can't hold, are
// written unchanged. Both sides read and write such integers exactly (BigInt in JavaScript).

// A HostMessage is a message from the host to the guest. Exactly one field besides At is set.
type HostMessage struct {
	// At is the time of day in milliseconds since the epoch. The guest's clocks show it while it
	// handles the message. It never goes back: if At is earlier than the guest's clock, the clock
	// stays.
	At     int64   `json:"at,omitempty"`
	Run    *Run    `json:"run,omitempty"`
	Answer *Answer `json:"answer,omitempty"`
	Wake   *Wake   `json:"wake,omitempty"`
}

// Run starts a program.
type Run struct {
	// in "js" a script whose completion value is a function: the program's value is its awaited
	// result; in "python" the program's text
	Code string `json:"code"`
	Name string `json:"name"` // file name in stack traces
	// in "python": number of lines of the agent's text before Code; stack traces count them
	Line int `json:"line,omitempty"`
	// 64 hexadecimal digits that seed all of the program's randomness; absent only if none is
	// needed
	Seed string `json:"seed,omitempty"`
	// Session marks the program as part of a session: the state of earlier programs (pending
	// timers, promises, declarations) is available to it, and its own state is kept.
	Session bool `json:"session,omitempty"`
	// Namespaces are the globals through which the program calls tools: safe upstream name to safe
	// member names. Unlisted members may still be called: the host decides.
	Namespaces map[string][]string `json:"namespaces,omitempty"`
	// Aliases are further globals: other names for a namespace ("github") or a tool
	// ("github.list_issues").
	Aliases map[string]string `json:"aliases,omitempty"`
	// Whole lists the namespaces with a complete member list: any other name is not one of their
	// tools.
	Whole []string `json:"whole,omitempty"`
	// Files are further source files of a compiled program, by path: its clients of tools.
	Files map[string]string `json:"files,omitempty"`
}

// Answer ends a Call or a File of the guest.
type Answer struct {
	ID    int64           `json:"id"`
	Value json.RawMessage `json:"value,omitempty"` // absent means undefined
	Error *GuestError     `json:"error,omitempty"`
}

// Wake reports that the guest's last Timer expired.
type Wake struct{}

// A GuestMessage is a message from the guest to the host. Exactly one field is set.
type GuestMessage struct {
	Call    *GuestCall `json:"call,omitempty"`
	File    *File      `json:"file,omitempty"`
	Sleep   *Sleep     `json:"sleep,omitempty"` // only through Cmd.Ask
	Timer   *Timer     `json:"timer,omitempty"`
	Console *Console   `json:"console,omitempty"`
	Emit    *Emit      `json:"emit,omitempty"`
	Done    *Done      `json:"done,omitempty"`
	Fail    *Fail      `json:"fail,omitempty"`
	// Hold means that the guest blocks until the host's next line, because of a call that isn't
	// awaited in a language without await there. Until then its state can't be kept (Cmd.Keep).
	Hold bool `json:"hold,omitempty"`
}

// Timer requests one Wake in MS milliseconds and replaces any earlier request. If MS is negative,
// there is no Wake. A Run cancels earlier requests.
type Timer struct {
	MS float64 `json:"ms"`
}

// Sleep asks to block for MS milliseconds.
type Sleep struct {
	MS float64 `json:"ms"`
}

// GuestCall requests a tool call.
type GuestCall struct {
	ID int64 `json:"id"`
	// "github.list_issues" (safe), "github.list-issues" (exact), or another form
	Path string          `json:"path"`
	Args json.RawMessage `json:"args,omitempty"` // absent means {}; an array holds arguments by position
	// Flags are arguments as written on a command line, in addition to Args. The host knows their
	// types.
	Flags Flags  `json:"flags,omitempty"`
	Stack string `json:"stack,omitempty"` // where in the program the call was made
}

// A Flag is an argument of a call as written on a command line: --limit 3.
type Flag struct {
	Name  string  `json:"name"`
	Value *string `json:"value,omitempty"` // nil: none was given
}

// Flags are at most 65,536 flags.
type Flags []Flag

// UnmarshalJSON decodes flags. Programs can write guest messages, in which each flag needs far more
// memory than its bytes.
func (f *Flags) UnmarshalJSON(data []byte) (err error) {
	*f, err = jsonvalue.DecodeList[Flag](data, 1<<16)
	return err
}

// File requests an operation on the virtual file system.
type File = tool.FileOp

// NoteLevel is the Console.Level of the runtime's notes to the agent about a program.
const NoteLevel = "note"

// Console is one line logged by the program, or a note of the runtime.
type Console struct {
	// "log", "info", "warn", "error", "debug"; NoteLevel: a note for the agent, not logged by the
	// program
	Level string `json:"level"`
	Text  string `json:"text"`
}

// Emit sends the agent an additional result: a handle (an image, audio or resource returned by a
// tool) or, if there is no such handle, a file by its path, as an embedded resource.
type Emit struct {
	Handle string `json:"handle"`
}

// Done reports that the program ended successfully.
type Done struct {
	Value json.RawMessage `json:"value,omitempty"` // absent means undefined
	// calls that the program never awaited; the runtime awaited them at its end
	Unawaited CallIDs `json:"unawaited,omitempty"`
}

// CallIDs are at most 1,048,576 ids of calls: more than a program can make.
type CallIDs []int64

// UnmarshalJSON decodes ids.
func (c *CallIDs) UnmarshalJSON(data []byte) (err error) {
	*c, err = jsonvalue.DecodeList[int64](data, 1<<20)
	return err
}

// Fail reports that the program ended with an uncaught error, or can never end.
type Fail struct {
	Error GuestError `json:"error"`
}

// A GuestError is an error passed into or out of the guest. Passed in, it becomes a thrown
// ToolError. Passed out, it is the error that the program threw.
type GuestError struct {
	Name    string `json:"name,omitempty"` // "TypeError", "ToolError", ...
	Message string `json:"message"`
	// a tool.Kind; "stalled" if the program waits for something that can't happen
	Kind     string `json:"kind,omitempty"`
	Code     string `json:"code,omitempty"` // for a File: "ENOENT", "EEXIST", "EROFS", ...
	Upstream string `json:"upstream,omitempty"`
	Tool     string `json:"tool,omitempty"`
	Stack    string `json:"stack,omitempty"`
	// structured content of a failed tool's result; only passed in
	Data json.RawMessage `json:"data,omitempty"`
}
