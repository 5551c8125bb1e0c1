package executor

import (
	"context"
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Tools answers an Executor's questions about tools.
type Tools interface {
	// ToolFiles returns the read-only files of a principal's programs, from path (such as
	// "tools/github/index.ts") to content.
	ToolFiles(tool.Principal) map[string]string
	// FindTool returns the tool with a path, or nil if it is currently unknown.
	FindTool(path string) *tool.Tool
	// DescribeDoubt returns a note on the arguments of a call that was made, such as names that the
	// tool doesn't declare; empty: none.
	DescribeDoubt(path string, args json.RawMessage) string
	// PlainForm returns the plain form of a call that may be written in another form. The plain
	// form is the path of the tool, and one object with named arguments. A call without a plain
	// form is returned unchanged.
	PlainForm(who tool.Principal, path string, args json.RawMessage) (string, json.RawMessage)
	// AddFlags adds flags to the arguments of a call. Their values have the types of the tool's
	// schema.
	AddFlags(who tool.Principal, path string, args json.RawMessage, flags []sandbox.Flag) json.RawMessage
}

// NoTools are Tools that are all unknown. Other Tools embed it.
type NoTools struct{}

// ToolFiles returns nil.
func (NoTools) ToolFiles(tool.Principal) map[string]string { return nil }

// FindTool returns nil.
func (NoTools) FindTool(string) *tool.Tool { return nil }

// DescribeDoubt returns "".
func (NoTools) DescribeDoubt(string, json.RawMessage) string { return "" }

// PlainForm returns the call as written.
func (NoTools) PlainForm(_ tool.Principal, path string, args json.RawMessage) (string, json.RawMessage) {
	return path, args
}

// AddFlags returns the arguments without flags.
func (NoTools) AddFlags(_ tool.Principal, _ string, args json.RawMessage, _ []sandbox.Flag) json.RawMessage {
	return args
}

// A Supervisor admits executions and records their ends.
type Supervisor interface {
	// AdmitExecution returns an error if a call of execute may not begin an execution. Otherwise
	// done is called with the execution when it ends. done may be nil.
	AdmitExecution(context.Context, *tool.Call) (done func(*execution.Execution), err error)
	// AdmitProgram returns an error if the program of an execute call may not run, because of what
	// the review found in it. It is called before the program runs, and only if there are findings.
	AdmitProgram(c *tool.Call, execution string, findings []tool.Finding) error
	// AdmitImage returns an error if the program of an execute call may not run with an image. The
	// call names that image; as the agent made it, it named none.
	AdmitImage(c *tool.Call, execution, image string) error
	// AdmitMove returns an error if the session of an execute call may not move to processes, for
	// a program that can only run there. The call names the tier.
	AdmitMove(c *tool.Call, execution, session string) error
	// AdmitTrial returns an error if a program that is tried against the journal of an execution
	// may not make calls. c is the call of execute that would run the program.
	AdmitTrial(c *tool.Call, execution string, findings []tool.Finding) error
	// ReadmitExecution is called for each execution that continues after a restart, with the
	// execute call that began it. done is called when it ends. It may be nil.
	ReadmitExecution(*tool.Call) (done func(*execution.Execution))
	// RecordStart is called when an execution begins here.
	RecordStart(execution string, p tool.Principal)
	// RecordEnd is called with each execution that has ended here, before its answer is returned.
	RecordEnd(*execution.Execution)
}

// Unsupervised admits all executions. Other Supervisors embed it.
type Unsupervised struct{}

// AdmitExecution returns nil.
func (Unsupervised) AdmitExecution(context.Context, *tool.Call) (func(*execution.Execution), error) {
	return nil, nil
}

// AdmitImage returns nil.
func (Unsupervised) AdmitImage(*tool.Call, string, string) error { return nil }

// AdmitMove returns nil.
func (Unsupervised) AdmitMove(*tool.Call, string, string) error { return nil }

// AdmitProgram returns nil.
func (Unsupervised) AdmitProgram(*tool.Call, string, []tool.Finding) error { return nil }

// AdmitTrial returns nil.
func (Unsupervised) AdmitTrial(*tool.Call, string, []tool.Finding) error { return nil }

// ReadmitExecution returns nil.
func (Unsupervised) ReadmitExecution(*tool.Call) func(*execution.Execution) { return nil }

// RecordStart does nothing.
func (Unsupervised) RecordStart(string, tool.Principal) {}

// RecordEnd does nothing.
func (Unsupervised) RecordEnd(*execution.Execution) {}

// Control is an Executor's view of the control plane.
type Control interface {
	// RecordedCalls returns the audit records of the calls of an execution that began at the given
	// time, newest first. It is used when the execution is recovered.
	RecordedCalls(ctx context.Context, execution string, began time.Time) ([]Recorded, error)
	// ApprovalPage returns the URL where a person decides a request, or all requests that an
	// execution waits for; empty: decisions are possible only on the command line.
	ApprovalPage(id string) string
	// MayReadAll reports whether a principal may read and replay the executions of others.
	MayReadAll(tool.Principal) bool
}

// NoControl has no records and no pages. Other Controls embed it.
type NoControl struct{}

// RecordedCalls returns no records.
func (NoControl) RecordedCalls(context.Context, string, time.Time) ([]Recorded, error) {
	return nil, nil
}

// ApprovalPage returns "".
func (NoControl) ApprovalPage(string) string { return "" }

// MayReadAll returns false.
func (NoControl) MayReadAll(tool.Principal) bool { return false }
