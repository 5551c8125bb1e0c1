// Package execution says what an execution is and came to: the shape in which it is told of (Execution, Info, Details), and the texts that
// an agent reads of it.
package execution

import (
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// State says how far an execution is.
type State string

// The states of an execution.
const (
	Queued  State = "queued"  // waiting for its turn
	Running State = "running" // under way
	Waiting State = "waiting" // it only waits for calls, and is suspended meanwhile
	Done    State = "done"    // it ended well
	Failed  State = "failed"  // it ended with an error

	Interrupted State = "interrupted" // biplane ended while it ran, and it could not go on
)

// An Execution is one run of a program, in the shape that `biplane run --json` prints.
type Execution struct {
	ID      string          `json:"execution"`
	State   State           `json:"state"`
	Value   json.RawMessage `json:"value"` // null when there is none
	Error   *Failure        `json:"error"`
	Console []Line          `json:"console"`
	Calls   []Call          `json:"calls"`
	Notes   []string        `json:"notes,omitempty"` // what the agent should know: calls never awaited, doubts about the program
	Tier    tool.Tier       `json:"tier"`
	Missing []string        `json:"missing,omitempty"` // protections of the sandbox that are not armed on this host
	Session string          `json:"session"`
	Labels  []string        `json:"labels,omitempty"`  // of what it had read, and whoever sent it
	Rebuilt string          `json:"rebuilt,omitempty"` // why its session had to be rebuilt, by running its earlier programs again
	MS      int64           `json:"ms"`                // wall time so far
	Tokens  Tokens          `json:"tokens"`            // filled in by Count

	Undefined bool           `json:"-"` // the program ended well, without a value
	Language  string         `json:"-"` // "typescript" or "python"; empty: not known
	Principal tool.Principal `json:"-"`
	Started   time.Time      `json:"-"`
	GoesOn    bool           `json:"-"` // it was stopped with its process, and is taken up by the next one
	Journaled bool           `json:"-"` // its calls are kept, so that a later execution can continue after it

	Real   json.RawMessage `json:"-"` // the value as the program gave it, where Value has tokens for personal data
	Logged int             `json:"-"` // bytes of all that the program logged, what is not kept included
	Run    Run             `json:"-"` // nil: it is not of this process
}

// A Run is what this process has of an execution beside what it is told of.
type Run interface {
	CPU() time.Duration
	Count() (Tokens, error)
}

// A Failure is why a program failed.
type Failure struct {
	// Kind is a tool.Kind for what a tool or a limit did ("failed" where a tool ran and reported failure); else
	// "syntax", "check", "language", "empty" (the text is no program), "exception" (the program threw) or "stalled"
	// (it waited for what can't come).
	Kind    string `json:"kind"`
	Limit   string `json:"limit,omitempty"` // which bound ended it, one of those below; its Kind is then tool.Limit, or tool.Timeout of TimeLimit
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`   // in the agent's own text, from 1
	Column  int    `json:"column,omitempty"` // in characters, from 1
	Frame   string `json:"frame,omitempty"`  // the lines around it
	Hint    string `json:"hint,omitempty"`   // what to do about it

	Text string `json:"-"` // what the agent reads, where that is more than the above
	More int    `json:"-"` // of the last notes, how many tell the places of further problems, which Text has
}

// A Line is one line that the program logged.
type Line struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// A Call is one call that a program made.
type Call struct {
	Tool  string `json:"tool"`            // the path, as the program named it
	MS    int64  `json:"ms"`              // wall time, queueing included
	Bytes int    `json:"bytes"`           // of the result
	Error string `json:"error,omitempty"` // empty when it went well; begins with NotMade where nothing was sent
	From  string `json:"from,omitempty"`  // the execution whose journal answered it: it was not made again

	Args    string        `json:"-"` // the beginning of the arguments
	Pending bool          `json:"-"` // not answered
	Unsent  bool          `json:"-"` // it ended before anything reached the tool, so it surely had no effect
	Reads   bool          `json:"-"` // the tool is known to change nothing
	Report  string        `json:"-"` // what the tool said last of its progress
	Begun   time.Time     `json:"-"`
	Took    time.Duration `json:"-"`
	Note    *journal.Call `json:"-"` // as the journal has it
}

// NotMade begins Call.Error of a call that was refused before anything was sent: its arguments were wrong, there is
// no such tool, policy denied it, its upstream was down.
const NotMade = "not made: "

// Tokens is what the agent was spared, counted by o200k_base: for other models an estimate.
type Tokens struct {
	Returned int `json:"returned"` // of the answer
	KeptOut  int `json:"kept_out"` // of tool results that the agent would have read, had it made the calls itself
}

// CPU is the CPU time of the program, once it has ended; 0 where the driver doesn't tell.
func (e *Execution) CPU() time.Duration {
	if e.Run == nil {
		return 0
	}
	return e.Run.CPU()
}

// Count fills in Tokens. It is the first to load the tokenizer's tables, and reads every result the program saw, so
// it is for those who want the figures; a second Count costs nothing.
func (e *Execution) Count() (Tokens, error) {
	if e.Run == nil {
		return e.Tokens, nil
	}
	t, err := e.Run.Count()
	if err == nil {
		e.Tokens = t
	}
	return t, err
}

// Whole is the value as the program gave it: later programs compute on that.
func (e *Execution) Whole() json.RawMessage {
	if e.Real != nil {
		return e.Real
	}
	return e.Value
}
