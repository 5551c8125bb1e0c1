// Package ahead begins the process around the engine with the program itself, where its command is one that runs programs: milliseconds
// before the packages that will speak to that process are initialized. Package engineproc says why this is done in an init. It
// imports next to nothing, so that Go comes to it early.
package ahead

import (
	"os"
	"slices"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/stack"
)

// Command is the argument that makes this program the process around the engine.
const Command = "__engine"

// needy are the commands that run programs.
var needy = []string{"run", "mcp", "serve"}

// process is what was begun, until somebody takes it over.
var process atomic.Pointer[launch.Begun]

func init() {
	if Needed() {
		process.Store(launch.Begin([]string{Command}))
		stack.GrowMost() // for what is initialized after this, and the command itself
	}
}

// Needed reports whether this program was begun to run programs.
func Needed() bool { return len(os.Args) > 1 && slices.Contains(needy, os.Args[1]) }

// Process gives the process that was begun, to whoever asks first; nil where none was. Whoever has it closes it.
func Process() *launch.Begun { return process.Swap(nil) }
