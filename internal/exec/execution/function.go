package execution

import (
	"encoding/json"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Function is a prepared program that implements a tool. It runs as a separate execution, without
// session, plan and journal: the call that it answers is recorded like a call of any upstream.
type Function struct {
	Program  *program.Program
	Language string // "typescript" or "python"
	Serving  tool.Serving
	ReadOnly bool      // its tool claims to be read-only, so its calls may not write
	Tier     tool.Tier // the weakest tier at which it may run
	Timeout  time.Duration
	Files    *vfs.Tree // initial ./workspace; changes are dropped
}

// A FunctionResult is the outcome of a function.
type FunctionResult struct {
	Value     json.RawMessage // "null" if Undefined
	Undefined bool
	Blocks    []json.RawMessage // the content blocks that it emitted or returned
	Failure   *Failure          // nil: it returned
	Console   []Line
}
