package cli

import (
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/lab/demo"
)

func demoCommand(a *app) *cobra.Command {
	var output string
	cfg := demo.Config{ServeArgs: []string{"demo", "serve"}}
	c := &cobra.Command{
		Use:   "demo",
		Short: "See Biplane work on this machine, offline, in under a minute",
		Long: `Starts two real MCP servers (a customer database, and an API that changes accounts) behind Biplane.
Scripted agents do one job in three ways: tool by tool, with parallel calls, and as one program. Prints
what a model would have read and written in each, how long it took, and which of these figures are
measured or assumed. Needs no network, no model and no account, and leaves nothing behind.`,
		Example: `  biplane demo
  biplane demo -o json --turn-latency 3s`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if cfg.TurnLatency <= 0 || cfg.WriteSpeed <= 0 {
				return usageError("--turn-latency and --tokens-per-second are more than 0")
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Biplane, cfg.Progress = []string{self}, a.Err
			r, err := demo.Run(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.printOutput(output, r, func(w io.Writer) { r.Write(w) })
		},
	}
	addOutput(c, &output)
	c.Flags().DurationVar(&cfg.TurnLatency, "turn-latency", 1500*time.Millisecond,
		"assumed time of a model to its first token")
	c.Flags().Float64Var(&cfg.WriteSpeed, "tokens-per-second", 70, "assumed output speed of a model")
	c.AddCommand(demoServeCommand(a))
	return c
}

// demoServeCommand returns the command that runs one of the demonstration's MCP servers.
func demoServeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    "serve KIND DATABASE",
		Short:  "One of the demonstration's MCP servers, over stdio",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return demo.Serve(cmd.Context(), args[0], args[1], a.In, a.Out)
		},
	}
}
