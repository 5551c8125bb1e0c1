// Package entry turns a process into a sandbox, for package process: it makes the private root,
// arms the protections, and executes the agent. It and the agent of shells are all that the small
// program in folder program has.
package entry

import (
	"fmt"
	"os"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
)

// Command is the argument that makes this program enter a sandbox.
const Command = "__sandbox"

// MachineRuntime is the Spec.Runtime of machines, which have no language.
const MachineRuntime = "machine"

// RunCommand runs a command that starts or serves a sandbox, and returns its exit code. args are
// the arguments of this program. It reports false if they don't begin with such a command.
func RunCommand(args []string) (code int, ok bool) {
	if len(args) == 1 && args[0] == Command {
		fmt.Fprintln(os.Stderr, "biplane: "+EnterSandbox().Error()) // it returns only an error
		return 1, true
	}
	return shell.RunCommand(args)
}
