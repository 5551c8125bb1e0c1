package cli

import (
	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/daemon"
)

// engineName is the command that makes this program a process around the embedded engine. It isn't
// for people; what comes here is one who typed it.
const engineName = daemon.EngineCommand

// engineArgs are the arguments by which Biplane begins such a process.
func engineArgs() []string { return []string{engineName} }

func engineCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use:                engineName,
		Short:              "Run the embedded engine (used by Biplane itself)",
		Example:            "  (Biplane begins it, and speaks to it over a socket)",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return daemon.Engine(args) },
	}
}
