// Package engineproc turns this program into the process around the embedded engine, if it was
// started by the hidden command for that. Package ahead starts such a process for commands that
// will need one.
//
// Both do that in an init, which otherwise only the sandboxes of package process use. An engine's
// process needs a tenth of a gateway's code, and Go initializes a package as soon as its imports
// are. So the process serves before the gateway's packages (schemas, the database, the compiler)
// are initialized, in a third of the time, and holds none of their data. And it starts while the
// gateway's own packages are initialized. Other commands are not affected.
package engineproc

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/biplane-dev/biplane/internal/base/stack"
	"github.com/biplane-dev/biplane/internal/exec/engineproc/ahead"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
)

// Command is the argument that runs this program as such a process. The arguments after it come
// from sandbox/child, which starts it.
const Command = ahead.Command

func init() {
	switch {
	case len(os.Args) > 2 && os.Args[1] == Command:
		delayGC()
		// On a separate goroutine: the initializing one is bound to its thread, and would wake
		// slowly.
		go func() {
			stack.Grow()
			if err := Main(os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, "biplane: "+err.Error())
				os.Exit(1)
			}
			os.Exit(0)
		}()
		select {}
	case ahead.Needed():
		delayGC()
	}
}

// delayGC delays garbage collection until the process is ready: most data allocated at the start
// is permanent.
func delayGC() {
	usual := debug.SetGCPercent(400)
	time.AfterFunc(100*time.Millisecond, func() { debug.SetGCPercent(usual) })
}

// Ahead returns the process started with this one to the first caller, if this program was started
// to run programs, and nil otherwise. The caller closes it, or passes it to a child.Driver.
func Ahead() *launch.EarlyProcess { return ahead.Process() }

// Main runs the process; args is the arguments after Command. It returns when the parent process
// has disconnected, or immediately if there is none.
func Main(args []string) error {
	return child.Main(args, func() (sandbox.Driver, error) { return wasm.New(wasm.Config{Relief: true}) })
}
