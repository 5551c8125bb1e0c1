package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/daemon"
)

func serveCommand(a *app) *cobra.Command {
	var listen, mode string
	var unprefixed bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP and the HTTP API on a loopback address",
		Long: `Serves MCP at /mcp, the HTTP API at /api/v1, figures at /metrics and health at /healthz and /readyz, until it is interrupted. There is no
sign-in yet, so it listens on loopback addresses only. The address is printed when it is ready for connections.`,
		Example: `  biplane serve
  biplane serve --listen 127.0.0.1:0 --config team.yaml`,
		Args: none,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.daemonConfig("info")
			if err != nil {
				return err
			}
			if err := setMode(&cfg, mode, unprefixed); err != nil {
				return err
			}
			if cfg.Listen = cfg.Settings.Listen; listen != "" {
				cfg.Listen = listen
			}
			d, err := daemon.New(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer d.Close()
			fmt.Fprintf(a.Out, "http://%s\n", d.Addr())
			return d.Run(cmd.Context())
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "loopback `address` (default: as configured, else 127.0.0.1:8420; port 0: any that is free)")
	addMode(c, &mode, &unprefixed)
	return c
}
