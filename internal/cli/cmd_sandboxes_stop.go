package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func sandboxesStopCommand(a *app) *cobra.Command {
	var signal int
	c := &cobra.Command{
		Use:   "stop NAME PROCESS",
		Short: "Stop a background process of a sandbox",
		Long: `Sends SIGTERM to a background process and to what it started, and SIGKILL if it has not ended after a
moment. "biplane sandboxes logs NAME" lists the processes.`,
		Example: "  biplane sandboxes stop work 1\n  biplane sandboxes stop work 1 --signal 1",
		Args:    exactlyTwo("NAME", "PROCESS", "a sandbox, and the number of a process in it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := parseProcess("stop", args[1])
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o := api.SandboxOperation{Process: n, Signal: signal}
				v, err := c.OwnSandboxes().UseSandbox(ctx, args[0], "stop", o)
				switch {
				case err != nil:
					return err
				case v.Process != nil && v.Process.Exit != nil:
					fmt.Fprintf(a.Out, "process %d has ended\n", n)
				default:
					fmt.Fprintf(a.Out, "process %d runs\n", n)
				}
				return nil
			})
		},
	}
	c.Flags().IntVar(&signal, "signal", 0, "send this signal by its `number`, and don't wait for the end")
	return c
}

// parseProcess parses the number of a process in a sandbox, an argument of a command.
func parseProcess(command, arg string) (int, error) {
	n, err := strconv.Atoi(arg)
	if err != nil {
		return 0, usageError("%s: PROCESS must be a number, not %q", command, arg)
	}
	return n, nil
}
