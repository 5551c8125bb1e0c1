// Program enters a sandbox, or is the agent of shells in one (package entry). It is a part of
// biplane that starts faster than all of it: make builds it, and embeds it in biplane.
package main

import (
	"fmt"
	"os"

	_ "github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry" // runs the commands
)

func main() {
	fmt.Fprintln(os.Stderr, "biplane: this program is for internal use: it starts a sandbox")
	os.Exit(1)
}
