// Package engineproc makes this program the process around the embedded engine, when it was begun by the hidden command that
// says so. Package ahead, below it, begins such a process for commands that will need one.
//
// Both do that in their init, which the rest of this program has none of, and for one reason: an engine's process needs a tenth
// of what a gateway is made of, and Go initializes a package as soon as its own imports are. So the process serves before the
// packages of the gateway (schemas, the database, the compiler) have begun, in a third of the time, and holds nothing of what
// they would make; and it gets ready while the gateway's own packages do. A program that was begun by any other command is
// not touched.
package engineproc

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/biplane-dev/biplane/internal/engineproc/ahead"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/child"
	"github.com/biplane-dev/biplane/internal/sandbox/child/launch"
	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/stack"
)

// Command is the argument that makes this program such a process. More follow it, from whoever begins it: sandbox/child.
const Command = ahead.Command

func init() {
	switch {
	case len(os.Args) > 2 && os.Args[1] == Command:
		unhurried()
		// On a goroutine of its own: the one that initializes is bound to its thread, and would be slow to wake.
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
		unhurried()
	}
}

// unhurried puts the first collections of garbage off until the process is ready: what a start makes is there to stay.
func unhurried() {
	usual := debug.SetGCPercent(400)
	time.AfterFunc(100*time.Millisecond, func() { debug.SetGCPercent(usual) })
}

// Ahead gives the process that was begun with this one, to whoever asks first, if this program was begun to run programs; nil
// otherwise. Whoever has it closes it, or gives it to a child.Driver.
func Ahead() *launch.Begun { return ahead.Process() }

// Main is the process: args are what follows Command. It returns when the process that began it is gone, or at once where
// none has.
func Main(args []string) error {
	return child.Main(args, func() (sandbox.Driver, error) { return wasm.New(wasm.Config{Relief: true}) })
}
