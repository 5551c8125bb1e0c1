package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func sandboxesPreviewCommand(a *app) *cobra.Command {
	var output string
	var expires time.Duration
	c := &cobra.Command{
		Use:   "preview NAME [PORT]",
		Short: "Open a port of a sandbox in a browser, or list its ports",
		Long: `Prints a link that opens a server of the sandbox in a browser. Anyone who has the link can use it until
it expires. Previews are off unless the configuration sets sandboxes.previews, and need "biplane serve".
Pages must use relative addresses.`,
		Example: `  biplane sandboxes exec work --background -- python3 -m http.server 8000
  biplane sandboxes preview work
  biplane sandboxes preview work 8000 --expires 15m`,
		Args: oneOrTwo("NAME", "the name of a sandbox"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				client := c.OwnSandboxes()
				if len(args) == 1 {
					v, err := client.UseSandbox(ctx, args[0], "ports", api.SandboxOperation{})
					if err != nil {
						return err
					}
					return a.printOutput(output, v.Ports, func(w io.Writer) { tableOfPorts(w, v.Ports) })
				}
				port, err := strconv.Atoi(args[1])
				if err != nil || port < 1 || port > 65535 {
					return usageError("preview: PORT must be from 1 to 65535, not %q", args[1])
				}
				v, err := client.UseSandbox(ctx, args[0], "preview", api.SandboxOperation{Port: port,
					ExpiresSeconds: expires.Seconds()})
				if err != nil {
					return err
				}
				return a.printOutput(output, v, func(w io.Writer) { fmt.Fprintln(w, v.URL) })
			})
		},
	}
	c.Flags().DurationVar(&expires, "expires", 0, "the link is valid for this `time` (default 1h)")
	addOutput(c, &output)
	return c
}

func tableOfPorts(w io.Writer, ports []api.SandboxPort) {
	rows := [][]string{{"PORT", "ADDRESS"}}
	for _, p := range ports {
		rows = append(rows, []string{strconv.Itoa(p.Port), p.Address})
	}
	writeColumns(w, rows...)
}
