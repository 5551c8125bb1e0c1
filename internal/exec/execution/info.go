package execution

import (
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Info describes an execution in lists.
type Info struct {
	ID        string        `json:"id"`
	State     journal.State `json:"state"`   // "running", "waiting", "done", "failed", "interrupted"
	Session   string        `json:"session"` // empty: none
	Language  string        `json:"language"`
	Started   time.Time     `json:"started"`
	Ended     time.Time     `json:"ended,omitzero"`
	MS        int64         `json:"ms"`    // from its start to its end, or until now
	Calls     int           `json:"calls"` // number of calls
	Tier      tool.Tier     `json:"tier"`
	Engine    string        `json:"engine"`
	Principal string        `json:"principal"`
	Client    string        `json:"client,omitempty"`
	Bytes     int64         `json:"bytes"`                    // size of its journal
	After     string        `json:"after,omitempty"`          // the execution that it corrects
	Why       string        `json:"why,omitempty"`            // why it was interrupted
	Lost      string        `json:"not_replayable,omitempty"` // why it can't be replayed
}

// Details contain all that is known about an execution.
type Details struct {
	Info
	Calls   []journal.Call  `json:"calls"`
	Program string          `json:"program"` // as sent by the agent
	Value   json.RawMessage `json:"value"`   // null if there is none or none yet
	Error   *Failure        `json:"error"`
	Console []Line          `json:"console"`
	Notes   []string        `json:"notes,omitempty"`
	Labels  []string        `json:"labels,omitempty"` // labels of the data that it or its submitter had read
}

// ReplayOptions control a replay. The zero value replays an execution to its end.
type ReplayOptions struct {
	Until   int    // stop when the program makes this call (journal.Call.N, from 1); 0: don't stop
	Program string // run this program instead, against the recorded calls; empty: the original one
	Reads   bool   // with Program: make calls that are not recorded and only read
}

// A Replayed is the result of a replay.
type Replayed struct {
	Execution string `json:"execution"`
	// State is "done", "failed", "stopped" (at Until), "diverged", or "cut" (the execution was
	// stopped from outside, and the journal ends there).
	State   string          `json:"state"`
	Value   json.RawMessage `json:"value"`
	Error   *Failure        `json:"error"`
	Console []Line          `json:"console"`
	// Calls are the calls that the program made in the replay. The last one of a stopped or
	// diverged replay was not answered.
	Calls   []journal.Call `json:"calls"`
	Same    bool           `json:"same"`              // the guest's output was byte-identical
	Differs string         `json:"differs,omitempty"` // first difference
	Left    []journal.Call `json:"left,omitempty"`    // recorded calls that another program did not make
	// Changes are what is not as in the execution: "state", "value", "error" or "console". They are
	// set for another program that ended.
	Changes []string `json:"changes,omitempty"`
	// Notes are remarks, for example that another build of the engine can't guarantee identical
	// bytes.
	Notes []string `json:"notes,omitempty"`
}
