// Program enters a sandbox, or is the agent of shells in one (package entry). It is a part of
// biplane that starts faster than all of it: make builds it, and embeds it in biplane.
//
// Go's runtime doesn't look for changes of the number of processors: it would stop the agent for
// that while it starts.
//
//go:debug updatemaxprocs=0
package main

import (
	"fmt"
	"os"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
)

// main doesn't run the command while packages are initialized, as package process does: until then
// Go binds this goroutine to its thread, and each other goroutine needs a new one.
func main() {
	code, ok := entry.RunCommand(os.Args[1:])
	if !ok {
		fmt.Fprintln(os.Stderr, "biplane: this program is for internal use: it starts a sandbox")
		code = 1
	}
	os.Exit(code)
}
