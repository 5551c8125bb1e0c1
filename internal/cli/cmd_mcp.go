package cli

import (
	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/daemon"
)

func mcpCommand(a *app) *cobra.Command {
	var mode string
	var unprefixed bool
	var folder folderFlags
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP over stdio, as started by an agent's client",
		Long: `Serves MCP over standard input and output, until the input ends. An agent sees three tools: search finds
tools, execute runs a program against them, and resume waits for a program that takes long.

If a biplane process with the same configuration is already running, it handles the messages. When it
ends, this process takes over.`,
		Example: `  biplane mcp --config .mcp.json
  biplane mcp --tools ./tools --direct
  claude mcp add biplane -- biplane mcp --config ~/.mcp.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.daemonConfig("info")
			if err != nil {
				return err
			}
			cfg.Recover = true
			if err := applyFolderFlags(&cfg, &folder, &mode, &unprefixed); err != nil {
				return err
			}
			if err := setMode(&cfg, mode, unprefixed); err != nil {
				return err
			}
			return daemon.ServeMCP(cmd.Context(), cfg, a.In, a.Out)
		},
	}
	addMode(c, &mode, &unprefixed)
	addFolderFlags(c, &folder)
	return c
}

// addMode adds the flags that select what agents see.
func addMode(c *cobra.Command, mode *string, unprefixed *bool) {
	c.Flags().StringVar(mode, "mode", "", "what agents see: code, direct or auto (default: as configured)")
	c.Flags().BoolVar(unprefixed, "unprefixed", false,
		"in mode direct, omit the upstream's name from tool names that are unique without it")
	completeWords(c, "mode", "code", "direct", "auto")
}

func setMode(cfg *daemon.Config, mode string, unprefixed bool) error {
	switch mode {
	case "":
	case "code", "direct", "auto":
		cfg.Settings.Mode = mode
	default:
		return usageError("mode %q is not one of code, direct, auto", mode)
	}
	cfg.Unprefixed = unprefixed
	return nil
}
