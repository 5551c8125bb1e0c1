package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/bench"
)

func benchCommand(a *app) *cobra.Command {
	var output string
	cfg := bench.Config{ServeArgs: []string{"demo", "serve"}, Version: a.Version}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the headline figures, side by side in one run",
		Long: `Measures this binary on this machine, offline, in under half a minute: the start of a process, memory, programs, calls from
inside a program and directly, calls in parallel and one after the other, search among 10,000 tools, the record, sandboxes,
and what an agent reads of the tools. Reads no configuration, and leaves nothing behind. On a shared machine figures are to be compared
within one run.`,
		Example: `  biplane bench
  biplane bench -o json > figures.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return usage("output %q is not one of table, json", output)
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			cfg.Biplane, cfg.Progress = []string{self}, a.Err
			r, err := bench.Run(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			return a.print(output, r, func(w io.Writer) { r.Write(w) })
		},
	}
	addOutput(c, &output)
	c.Flags().BoolVar(&cfg.Quick, "quick", false, "few rounds: shows that all works, and gives no figures to rely on")
	return c
}
