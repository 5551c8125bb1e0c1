// Package ahead starts the engine's process together with the program itself, if the command runs
// programs. That is milliseconds before the packages that communicate with that process are
// initialized. Package engineproc explains why this happens in an init. The package imports almost
// nothing, so that Go initializes it early.
package ahead

import (
	"os"
	"slices"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
)

// Command is the argument that makes this program the process around the engine.
const Command = "__engine"

// needy lists the commands that run programs.
var needy = []string{"run", "mcp", "serve"}

// process is the started process until a caller claims it.
var process atomic.Pointer[launch.EarlyProcess]

func init() {
	if Needed() {
		process.Store(launch.Begin([]string{Command}))
		stack.GrowMost() // for later initialization, and the command itself
	}
}

// Needed reports whether this program was started to run programs.
func Needed() bool { return len(os.Args) > 1 && slices.Contains(needy, os.Args[1]) }

// Process returns the started process to the first caller, or nil if there is none. The caller
// closes it.
func Process() *launch.EarlyProcess { return process.Swap(nil) }
