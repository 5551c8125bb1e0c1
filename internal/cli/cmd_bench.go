package cli

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/lab/bench"
)

func benchCommand(a *app) *cobra.Command {
	var output string
	var asJSON bool
	var gateways []string
	cfg := bench.Config{ServeArgs: []string{"demo", "serve"}, EngineArgs: []string{engineName}, Version: a.Version}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the headline figures, side by side in one run",
		Long: `Measures this binary on this machine, offline, in about ten minutes: process start, programs over stdio and HTTP, tool calls
from inside a program and directly, the engine alone and in its child process (fresh sandboxes, calls, suspend, resume, fork),
memory, programs that only compute, search among 10,000 tools, the record, and what a model reads. Each figure is a median
with its p99, next to its goal and to yardsticks: Node, Deno and Python if they are installed, and any MCP server named with
--gateway. Of such a server it measures the handshake, the size of tools/list, and the cheapest call: 1+1 in a tool that runs
code, or else a tool whose name says that it only reads. Uses no configuration, and leaves nothing behind. On a shared
machine, compare figures within one run only.

--json prints {"figures": [{"name", "unit", "median", "p99", "n"}], "yardsticks": [...]}. A figure that could not be measured is null and has a "why".`,
		Example: `  biplane bench
  biplane bench --only engine --only child
  biplane bench --gateway 'other=npx -y other-gateway --stdio'
  biplane bench --json > figures.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				output = "json"
			}
			if output != "table" && output != "json" {
				return usageError("output %q is not one of table, json", output)
			}
			for _, s := range gateways {
				g, err := bench.ParseGateway(s)
				if err != nil {
					return err
				}
				cfg.Gateways = append(cfg.Gateways, g)
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
			return a.printOutput(output, r, func(w io.Writer) { r.Write(w) })
		},
	}
	addOutput(c, &output)
	f := c.Flags()
	f.BoolVar(&asJSON, "json", false, "the same as -o json")
	f.BoolVar(&cfg.Quick, "quick", false,
		"run a few rounds only: shows that everything works, without reliable figures")
	f.StringArrayVar(&cfg.Only, "only", nil, "measure this `group` only; may be repeated")
	f.StringArrayVar(&gateways, "gateway", nil,
		"also measure another MCP server over stdio, `name=command args...`; may be repeated")
	completeWords(c, "only", bench.Groups()...)
	return c
}
