package cli

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/lab/bench"
	"github.com/biplane-dev/biplane/internal/lab/demo"
)

func benchCommand(a *app) *cobra.Command {
	var output string
	var asJSON, tiers, upstreams bool
	var gateways []string
	cfg := bench.Config{ServeArgs: []string{"demo", "serve"}, EngineArgs: []string{engineName}, Version: a.Version}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the headline figures, side by side in one run",
		Long: `Measures this binary on this machine, offline, in about ten minutes. It measures:

- process start, memory, and programs over stdio and HTTP
- tool calls from inside a program and directly
- the engine alone and in its child process: fresh sandboxes, calls, suspend, resume, fork
- process sandboxes: started ahead, cold, frozen
- programs that only compute, search among 10,000 tools, the record, and what a model reads.

Each figure is a median with its p99, next to its goal and to yardsticks. These are Node, Deno,
Python and bubblewrap if they are installed, and any MCP server named with --gateway. The command uses no
configuration, and leaves nothing behind. Only process_pandas needs an image with pandas in the data folder.
On a shared machine, compare figures within one run only.

For a gateway, it measures the handshake, the size of tools/list, and the cheapest call. That is 1+1 in a
tool that runs code, or else a tool whose name says that it only reads. If the gateway has "biplane demo
serve bench x" as its MCP server, it also measures calls through it, one after the other and from 16
clients at once. Biplane in mode direct is measured in the same way.

--upstreams measures instead what Biplane saves with the servers of your configuration, without a model: the
tokens of their definitions and of Biplane's, how often search finds the tool that a question is about (made
from the tools' own names and descriptions), and how long an agent waits. It calls none of their tools.

--json prints {"figures": [{"name", "unit", "median", "p99", "n"}], "yardsticks": [...]}. A figure that
could not be measured is null and has a "why".`,
		Example: `  biplane bench
  biplane bench --only engine --only child
  biplane bench --only execute --gateway 'other=npx -y other-gateway --stdio'
  biplane bench --only execute --gateway other=http://127.0.0.1:8811/mcp
  biplane bench --json > figures.json
  biplane bench --upstreams
  biplane bench --upstreams -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				output = "json"
			}
			if err := checkOutput(output); err != nil {
				return err
			}
			if upstreams {
				return benchUpstreams(cmd.Context(), a, output, cfg.Quick)
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
			dir, err := config.DataFolder(a.dataDir)
			if err != nil {
				return err
			}
			cfg.Images = daemon.ImageFolder(dir)
			if tiers {
				cfg.Only = append(cfg.Only, "tiers")
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
	f.BoolVar(&tiers, "tiers", false, "the same as --only tiers: measure process sandboxes")
	f.BoolVar(&upstreams, "upstreams", false, "measure the saving with the servers of your configuration")
	f.BoolVar(&cfg.Quick, "quick", false,
		"run a few rounds only: shows that everything works, without reliable figures")
	f.StringArrayVar(&cfg.Only, "only", nil, "measure this `group` only; may be repeated")
	f.StringArrayVar(&gateways, "gateway", nil,
		"also measure another MCP server, `name=command` args... or name=http://...; may be repeated")
	completeWords(c, "only", bench.Groups()...)
	return c
}

// benchUpstreams measures the saving with the servers of the configuration. It starts an agent's
// session first, so that one process answers that and the requests over the API.
func benchUpstreams(ctx context.Context, a *app, output string, quick bool) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := []string{self}
	for flag, value := range map[string]string{"--config": a.config, "--data-dir": a.dataDir} {
		if value != "" {
			command = append(command, flag, value)
		}
	}
	agent, err := demo.Connect(ctx, append(command, "mcp"))
	if err != nil {
		return err
	}
	defer agent.Close()
	return a.withClient(ctx, func(ctx context.Context, client *api.Client) error {
		r, err := bench.MeasureUpstreams(ctx, bench.UpstreamsConfig{Client: client, Quick: quick}, agent)
		if err != nil {
			return err
		}
		return a.printOutput(output, r, func(w io.Writer) { r.WriteReport(w) })
	})
}
