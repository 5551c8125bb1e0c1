// Package execution describes executions and their results: the forms in which they are reported
// (Execution, Info, Details), and the texts for agents.
package execution

import (
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A State is the state of an execution.
type State string

// The states of an execution.
const (
	Queued  State = "queued"  // waiting for its turn
	Running State = "running" // in progress
	Waiting State = "waiting" // waiting only for calls, and suspended in the meantime
	Done    State = "done"    // ended successfully
	Failed  State = "failed"  // ended with an error

	Interrupted State = "interrupted" // biplane exited while it ran, and it could not be resumed
)

// An Execution is one run of a program, in the form that `biplane run --json` prints.
type Execution struct {
	ID      string          `json:"execution"`
	State   State           `json:"state"`
	Value   json.RawMessage `json:"value"` // null if there is none
	Error   *Failure        `json:"error"`
	Console []Line          `json:"console"`
	Calls   []Call          `json:"calls"`
	// Notes are hints for the agent: calls never awaited, doubts about the program.
	Notes   []string  `json:"notes,omitempty"`
	Tier    tool.Tier `json:"tier"`
	Image   string    `json:"image,omitempty"`   // image of its sandbox; empty: the default
	Missing []string  `json:"missing,omitempty"` // protections of the sandbox that are unavailable on this host
	Session string    `json:"session"`
	Labels  []string  `json:"labels,omitempty"` // labels of the data that it or its submitter had read
	// Rebuilt is why its session had to be rebuilt by replaying its earlier programs.
	Rebuilt string `json:"rebuilt,omitempty"`
	// SessionNote names what its session lost, if that ran in a sandbox that can't be stored.
	SessionNote string `json:"session_note,omitempty"`
	MS          int64  `json:"ms"`     // wall time so far
	Tokens      Tokens `json:"tokens"` // set by Count

	Undefined bool           `json:"-"` // the program succeeded without a value
	Language  string         `json:"-"` // "typescript", "python", "bash", "go"; empty: unknown
	Principal tool.Principal `json:"-"`
	Started   time.Time      `json:"-"`
	GoesOn    bool           `json:"-"` // it was stopped with its process, and the next one resumes it
	Journaled bool           `json:"-"` // its calls are stored, so that a later execution can continue after it

	Real   json.RawMessage `json:"-"` // the original value, if Value has tokens for personal data
	Logged int             `json:"-"` // bytes of everything that the program logged, including what was discarded
	Run    Run             `json:"-"` // nil: it did not run in this process
}

// A Run is an execution's state in this process that is not part of its report.
type Run interface {
	CPU() time.Duration
	Count() (Tokens, error)
}

// A Failure explains why a program failed.
type Failure struct {
	// Kind is a tool.Kind if a tool or a limit ended the program ("failed" if a tool reported
	// failure). Otherwise it is "syntax", "check", "language", "empty" (the text is not a valid
	// program), "exception" (the program threw) or "stalled" (it waited for something that can't
	// happen).
	Kind string `json:"kind"`
	// Limit is the limit that ended it, one of those below. Kind is then tool.Limit, or
	// tool.Timeout for TimeLimit.
	Limit   string `json:"limit,omitempty"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"`   // in the agent's text, from 1
	Column  int    `json:"column,omitempty"` // in characters, from 1
	Frame   string `json:"frame,omitempty"`  // the surrounding lines
	Hint    string `json:"hint,omitempty"`   // how to fix it

	Text string `json:"-"` // text for the agent, if it is more than the above
	More int    `json:"-"` // number of notes at the end that report further problems, which Text includes
}

// A Line is one logged line.
type Line struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// A Call is one call made by a program.
type Call struct {
	Tool  string `json:"tool"`            // path, as named by the program
	MS    int64  `json:"ms"`              // wall time, including queueing
	Bytes int    `json:"bytes"`           // size of the result
	Error string `json:"error,omitempty"` // empty on success; starts with NotMade if nothing was sent
	From  string `json:"from,omitempty"`  // execution whose journal answered it instead of the tool

	Args    string        `json:"-"` // start of the arguments
	Pending bool          `json:"-"` // no result yet
	Unsent  bool          `json:"-"` // it ended before anything reached the tool, so it certainly had no effect
	Reads   bool          `json:"-"` // the tool is known to be read-only
	Report  string        `json:"-"` // last progress message of the tool
	Begun   time.Time     `json:"-"`
	Took    time.Duration `json:"-"`
	Note    *journal.Call `json:"-"` // its entry in the journal
}

// NotMade is the prefix of Call.Error for a call that was rejected before anything was sent: its
// arguments were invalid, there is no such tool, policy denied it, or its upstream was down.
const NotMade = "not made: "

// Tokens are the tokens that the agent was spared, counted with o200k_base: an estimate for other
// models.
type Tokens struct {
	Returned int `json:"returned"` // tokens of the answer
	// KeptOut counts the tokens of tool results that the agent would have read if it had made the
	// calls itself.
	KeptOut int `json:"kept_out"`
}

// CPU returns the CPU time of the program after it has ended, or 0 if the driver doesn't report it.
func (e *Execution) CPU() time.Duration {
	if e.Run == nil {
		return 0
	}
	return e.Run.CPU()
}

// Count sets Tokens. It loads the tokenizer's tables if necessary, and reads every result that the
// program received, so call it only if the numbers are needed. Later calls of Count cost nothing.
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

// Whole returns the original value of the program, which later programs use.
func (e *Execution) Whole() json.RawMessage {
	if e.Real != nil {
		return e.Real
	}
	return e.Value
}
