// Biplane lets AI agents do their work by writing programs against all of a team's tools, in a
// sandbox, under the team's policy, on the record. See README.md.
package main

import (
	"os"
	"runtime/debug"

	"github.com/biplane-dev/biplane/internal/cli"
)

// version is set by the linker (-X main.version=v1.2.3). Otherwise the build information is used.
var version string

func main() { os.Exit(run()) }

func run() int {
	if version == "" {
		version = "dev"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
	}
	return cli.Main(cli.Process{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: version})
}
