package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func notifyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "notify",
		Short: "Show and test the channels that notices are sent to",
		Long: `Notices tell people what needs them: calls that wait for approval, requests that expired, quarantined
tools, paused upstreams, and checkpoints that can't be sent. The channels are in the configuration, in
notify.`,
		Example: "  biplane notify list\n  biplane notify test",
		Args:    noArguments,
		RunE:    showHelp,
	}
	c.AddCommand(notifyListCommand(a), notifyTestCommand(a))
	return c
}

func notifyListCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the channels, and what they sent since the process started",
		Example: "  biplane notify list -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAll(a, cmd, output, listChannels, channelTable)
		},
	}
	addOutput(c, &output)
	return c
}

func listChannels(c *api.Client, ctx context.Context) ([]api.NoticeChannel, error) {
	return c.Notices().ListChannels(ctx)
}

func channelTable(w io.Writer, all []api.NoticeChannel) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no channels: add notify to the configuration")
		return
	}
	rows := [][]string{{"channel", "place", "sent", "waiting", "dropped", "last error"}}
	for _, c := range all {
		rows = append(rows, []string{c.Name, c.Place, fmt.Sprint(c.Sent), fmt.Sprint(c.Waiting), fmt.Sprint(c.Dropped),
			c.Error})
	}
	writeColumns(w, rows...)
}

func notifyTestCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "test [CHANNEL]",
		Short:   "Send a test to all channels, or to one",
		Example: "  biplane notify test\n  biplane notify test mail",
		Args:    atMost(1, "one CHANNEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.Notices().SendTest(ctx, name)
				if err != nil {
					return err
				}
				if err := a.printOutput(output, all, func(w io.Writer) { testResults(w, all) }); err != nil {
					return err
				}
				for _, c := range all {
					if c.Error != "" {
						return failSilently(exitUnable)
					}
				}
				return nil
			})
		},
	}
	addOutput(c, &output)
	return c
}

// testResults prints the result of a test of each channel.
func testResults(w io.Writer, all []api.NoticeChannel) {
	for _, c := range all {
		result := "sent"
		if c.Error != "" {
			result = c.Error
		}
		fmt.Fprintf(w, "%s (%s): %s\n", cleanLine(c.Name), cleanLine(c.Place), cleanLine(result))
	}
}
