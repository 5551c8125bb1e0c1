package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/internal/daemon"
)

func serveCommand(a *app) *cobra.Command {
	var listen, mode string
	var unprefixed bool
	var folder folderFlags
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve MCP and the HTTP API to agents",
		Long: `Serves until it is interrupted: MCP at /mcp, the HTTP API at /api/v1, the page of
approvals at /approvals, metrics at /metrics, and health at /healthz and /readyz. The address is printed
when it is ready for connections.

If the configuration file changes, or on SIGHUP, the changes take effect without an interruption:
upstreams, policies and limits. The log and biplane status name those that need a restart, and say why
an invalid file is not applied.

Without sign-in it listens on loopback addresses only. With auth in the configuration every client needs
an API key (biplane keys) or an access token. It then may listen on other addresses too, provided that
tls is configured.`,
		Example: `  biplane serve
  biplane serve --listen 127.0.0.1:0 --config team.yaml
  biplane serve --tools ./tools --direct`,
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
			if cfg.Listen = cfg.Settings.Listen; listen != "" {
				cfg.Listen = listen
			}
			svc := &service{cfg.Log}
			a.signals.acceptReloads()
			cfg.Source = &settingsSource{app: a, folder: &folder, mode: mode, unprefixed: unprefixed, service: svc}
			d, err := daemon.New(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			defer d.Close()
			fmt.Fprintln(a.Out, d.URL())
			svc.notifyState("READY=1")
			context.AfterFunc(cmd.Context(), func() { svc.notifyState("STOPPING=1") })
			var watchdog sync.WaitGroup
			defer watchdog.Wait()
			alive, stop := context.WithCancel(cmd.Context())
			defer stop()
			watchdog.Go(func() { svc.keepAlive(alive, d.Client()) })
			return d.Run(cmd.Context())
		},
	}
	c.Flags().StringVar(&listen, "listen", "",
		"`address` (default: as configured, else 127.0.0.1:8420; port 0: any that is free)")
	addMode(c, &mode, &unprefixed)
	addFolderFlags(c, &folder)
	return c
}
