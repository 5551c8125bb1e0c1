package mcpserver

import (
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/tool"
)

// ownTools has Biplane's own tools, by the name that agents see. Its methods read the calls and the
// answers of those about executions: execute and resume.
type ownTools map[string]*tool.Tool

// metaExecution is the key in _meta under which execute and resume identify their execution.
const metaExecution = "biplane.dev/execution"

// waitingExecution returns the id of the execution that waits for people, according to the answer
// of Biplane's own execute or resume; otherwise it is empty.
func (o ownTools) waitingExecution(c *tool.Call, res *tool.Result) string {
	id, state := o.executionOf(c, res)
	if state != "waiting" {
		return ""
	}
	return id
}

// ongoingExecution returns the id of the execution that has not ended, according to the answer of
// Biplane's own execute or resume; otherwise it is empty.
func (o ownTools) ongoingExecution(c *tool.Call, res *tool.Result) string {
	id, state := o.executionOf(c, res)
	if state != "waiting" && state != "running" && state != "queued" {
		return ""
	}
	return id
}

// executionOf returns the execution and its state in the answer of Biplane's own execute or resume.
func (o ownTools) executionOf(c *tool.Call, res *tool.Result) (id, state string) {
	if res == nil || c.Path != o.pathOf("execute") && c.Path != o.pathOf("resume") {
		return "", ""
	}
	var v struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var e struct{ ID, State string }
	if json.Unmarshal(res.Raw, &v) != nil || json.Unmarshal(v.Meta[metaExecution], &e) != nil {
		return "", ""
	}
	return e.ID, e.State
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
