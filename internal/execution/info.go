package execution

import (
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Info is an execution as lists show it.
type Info struct {
	ID        string        `json:"id"`
	State     journal.State `json:"state"`   // "running", "waiting", "done", "failed", "interrupted"
	Session   string        `json:"session"` // empty: none
	Language  string        `json:"language"`
	Started   time.Time     `json:"started"`
	Ended     time.Time     `json:"ended,omitzero"`
	MS        int64         `json:"ms"`    // from its start to its end, or to now
	Calls     int           `json:"calls"` // how many
	Tier      tool.Tier     `json:"tier"`
	Engine    string        `json:"engine"`
	Principal string        `json:"principal"`
	Client    string        `json:"client,omitempty"`
	Bytes     int64         `json:"bytes"`                    // of its journal
	After     string        `json:"after,omitempty"`          // the execution that it corrects
	Why       string        `json:"why,omitempty"`            // why it was interrupted
	Lost      string        `json:"not_replayable,omitempty"` // why it can't be replayed
}

// Details are all that is known of an execution.
type Details struct {
	Info
	Calls   []journal.Call  `json:"calls"`
	Program string          `json:"program"` // as the agent sent it
	Value   json.RawMessage `json:"value"`   // null where there is none, or not yet
	Error   *Failure        `json:"error"`
	Console []Line          `json:"console"`
	Notes   []string        `json:"notes,omitempty"`
	Labels  []string        `json:"labels,omitempty"` // of what it had read, and whoever sent it
}

// ReplayOptions say how an execution is replayed. The zero value runs it to its end, as it was.
type ReplayOptions struct {
	Until   int    // stop when the program makes this call (journal.Call.N, from 1); 0: at its end
	Program string // run this program instead, against the recorded calls; empty: the same one
}

// A Replayed is what a replay came to.
type Replayed struct {
	Execution string          `json:"execution"`
	State     string          `json:"state"` // "done", "failed", "stopped" (at Until), "diverged", or "cut" (it was stopped from outside, and the journal ends there)
	Value     json.RawMessage `json:"value"`
	Error     *Failure        `json:"error"`
	Console   []Line          `json:"console"`
	Calls     []journal.Call  `json:"calls"`             // that the program made in the replay; of the last one of a stopped or diverged replay nothing was answered
	Same      bool            `json:"same"`              // the guest said the same bytes as then
	Differs   string          `json:"differs,omitempty"` // where it first did something else
	Notes     []string        `json:"notes,omitempty"`   // as: that another build of the engine can't promise the same bytes
}
