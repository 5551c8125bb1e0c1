package cli

import (
	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/daemon"
)

// engineName is the command that runs this program as the process around the embedded engine.
// Package daemon handles it before main starts. This command only runs if a user types it.
const engineName = daemon.EngineCommand

// engineArgs returns the arguments that start such a process.
func engineArgs() []string { return []string{engineName} }

func engineCommand(*app) *cobra.Command {
	return &cobra.Command{
		Use:                engineName,
		Short:              "Run the embedded engine (used by Biplane itself)",
		Example:            "  (Biplane starts it, and communicates with it over a socket)",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return daemon.Engine(args) },
	}
}
