package cli

import (
	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/daemon"
)

func mcpCommand(a *app) *cobra.Command {
	var mode string
	var unprefixed bool
	var profile string
	var folder folderFlags
	c := &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP over stdio, as started by an agent's client",
		Long: `Serves MCP over standard input and output, until the input ends. An agent sees three tools: search finds
tools, execute runs a program against them, and resume waits for a program that takes long.

If a biplane process with the same configuration is already running, it handles the messages. When it
ends, this process takes over.`,
		Example: `  biplane mcp --config .mcp.json
  biplane mcp --profile support
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
			if err := checkPrefixFlag(cfg); err != nil {
				return err
			}
			if profile != "" && !cfg.Settings.HasProfile(profile) {
				return usageError("there is no profile %q in the configuration: add it to profiles", profile)
			}
			cfg.Profile = profile
			return daemon.ServeMCP(cmd.Context(), cfg, a.In, a.Out)
		},
	}
	addMode(c, &mode, &unprefixed)
	addFolderFlags(c, &folder)
	c.Flags().StringVar(&profile, "profile", "",
		"offer the tools of this profile only (see profiles in the configuration)")
	if err := c.RegisterFlagCompletionFunc("profile", completer{a}.completeProfiles); err != nil {
		panic(err) // unknown flag: a mistake in this package
	}
	return c
}

// completeProfiles completes the names of profiles in the configuration.
func (a completer) completeProfiles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if cfg, err := a.daemonConfig("error"); err == nil {
		for _, p := range cfg.Settings.Profiles {
			names = append(names, p.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// addMode adds the flags that select what agents see.
func addMode(c *cobra.Command, mode *string, unprefixed *bool) {
	c.Flags().StringVar(mode, "mode", "", "what agents see: code, direct or auto (default: as configured)")
	c.Flags().BoolVar(unprefixed, "unprefixed", false,
		"in mode direct, omit the upstream's name from tool names that are unique without it")
	completeWords(c, "mode", "code", "direct", "auto")
}

// checkPrefixFlag refuses --unprefixed where it would change nothing.
func checkPrefixFlag(cfg daemon.Config) error {
	if cfg.Unprefixed && cfg.Settings.Mode == "code" {
		return usageError("--unprefixed is for mode direct, and the mode is code: add --mode direct")
	}
	return nil
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
