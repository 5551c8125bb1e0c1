package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func sandboxesRemoveCommand(a *app) *cobra.Command {
	var o api.SandboxOperation
	c := &cobra.Command{
		Use:   "rm NAME:PATH",
		Short: "Remove a file of a sandbox",
		Long: `Removes a file, or a folder with -r. It also works in a sandbox that runs no command because its files
exceed a limit.`,
		Example: `  biplane sandboxes rm work:data.csv
  biplane sandboxes rm -r work:build`,
		Args: exactlyOne("NAME:PATH", "a file or folder of a sandbox"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name, file := splitPlace(args[0])
			if name == "" || file == "" {
				return usageError("rm: write NAME:PATH: biplane sandboxes rm work:data.csv")
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, c *api.Client) error {
				o.Path = file
				_, err := c.OwnSandboxes().UseSandbox(ctx, name, "remove", o)
				return err
			})
		},
	}
	c.Flags().BoolVarP(&o.Recursive, "recursive", "r", false, "remove a folder with all that is in it")
	return c
}
