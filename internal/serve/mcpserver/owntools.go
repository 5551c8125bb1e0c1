package mcpserver

import (
	"encoding/json"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// ownTools has Biplane's own tools, by the name that agents see. Its methods read the calls and the
// answers of those about executions: execute and resume.
type ownTools map[string]*tool.Tool

// metaExecution is the key in _meta under which execute and resume identify their execution.
const metaExecution = "biplane.dev/execution"

// The states of an execution that has not ended. A waiting one waits for people.
const (
	waiting = "waiting"
	running = "running"
	queued  = "queued"
)

// executionIn returns the id of the execution in the answer of Biplane's own execute or resume, if
// it is in one of the states; otherwise it is empty.
func (o ownTools) executionIn(c *tool.Call, res *tool.Result, states ...string) (id string) {
	if res == nil || c.Path != o.pathOf("execute") && c.Path != o.pathOf("resume") {
		return ""
	}
	var v struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var e struct{ ID, State string }
	if json.Unmarshal(res.Raw, &v) != nil || json.Unmarshal(v.Meta[metaExecution], &e) != nil ||
		!slices.Contains(states, e.State) {
		return ""
	}
	return e.ID
}

// resumedExecution returns the execution that c resumes, or the empty string for other calls.
func (o ownTools) resumedExecution(c *tool.Call) string {
	var a struct{ Execution string }
	if c.Path != o.pathOf("resume") || json.Unmarshal(c.Arguments, &a) != nil {
		return ""
	}
	return a.Execution
}

// newResume returns a copy of c that resumes an execution.
func (o ownTools) newResume(c *tool.Call, execution string) *tool.Call {
	args, err := tool.Marshal(map[string]string{"execution": execution})
	if err != nil {
		panic(err) // strings can always be marshaled
	}
	next := *c
	next.ID, next.Path, next.Arguments, next.InPlace = "", o.pathOf("resume"), args, false
	return &next
}

// pathOf returns the path of one of Biplane's own tools, or the empty string if it is not offered.
func (o ownTools) pathOf(name string) string {
	if t := o[name]; t != nil {
		return t.Path()
	}
	return ""
}
