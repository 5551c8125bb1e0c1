package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func logsCommand(a *app) *cobra.Command {
	var output, upstream string
	var follow bool
	var last int
	c := &cobra.Command{
		Use:   "logs",
		Short: "Show the log of the running process",
		Long: `Shows the newest lines of the log of the process that owns the data folder, such as "biplane mcp" of
an agent, or "biplane serve". It keeps 2,000 lines of level info and above, without secrets. With
--upstream it shows what a server wrote last to its standard error.

It needs a process that runs: without one there is no log.`,
		Example: "  biplane logs\n  biplane logs --follow\n  biplane logs --last 20 -o json\n" +
			"  biplane logs --upstream github",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if last < 1 {
				return usageError("--last is %d: it must be more than 0", last)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				status, err := client.Status(ctx)
				if err != nil {
					return err
				}
				if isThisProcess(status) {
					return &api.Error{Kind: api.NotFound,
						Message: "no process runs that has a log: start biplane serve, or an agent with biplane mcp"}
				}
				p := logPrinter{a, client, output}
				if upstream != "" {
					return p.printStderr(ctx, upstream)
				}
				return p.printLog(ctx, last, follow)
			})
		},
	}
	addOutput(c, &output)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print new lines as they come, until interrupted")
	c.Flags().IntVar(&last, "last", 100, "maximum number of lines to begin with")
	c.Flags().StringVar(&upstream, "upstream", "", "show the standard error of this `upstream`")
	return c
}

// A logPrinter prints logs in a form of output.
type logPrinter struct {
	*app
	client *api.Client
	output string
}

// printLog prints the last lines, and new ones if follow is set.
func (p logPrinter) printLog(ctx context.Context, last int, follow bool) error {
	lines, err := p.client.ReadLogs(ctx, 0, false)
	if err != nil {
		return err
	}
	lines = lines[max(0, len(lines)-last):]
	if !follow {
		return p.printOutput(p.output, lines, func(w io.Writer) { writeLog(w, lines) })
	}
	var at int64
	for {
		for _, l := range lines {
			at = l.Line
			if err := p.printLine(l); err != nil {
				return err
			}
		}
		if lines, err = p.client.ReadLogs(ctx, at, true); ctx.Err() != nil {
			return nil // interrupted
		} else if err != nil {
			return err
		}
	}
}

// printLine prints one line of a log that is followed.
func (p logPrinter) printLine(l api.LogLine) error {
	switch p.output {
	case "json":
		line, err := lineOf(l)
		if err == nil {
			_, err = p.Out.Write(line)
		}
		return err
	case "yaml":
		fmt.Fprintln(p.Out, "---")
		return p.printYAML(l)
	}
	writeLog(p.Out, []api.LogLine{l})
	return nil
}

func writeLog(w io.Writer, lines []api.LogLine) {
	for _, l := range lines {
		fmt.Fprintf(w, "%s %-5s %s\n", formatMoment(l.Time), cleanLine(l.Level), cleanLine(l.Text))
	}
}

// printStderr prints the last lines that an upstream wrote to its standard error.
func (p logPrinter) printStderr(ctx context.Context, name string) error {
	all, err := p.client.Upstreams(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, u := range all {
		if u.Name != name {
			names = append(names, u.Name)
			continue
		}
		lines := u.Stderr
		if lines == nil {
			lines = []string{}
		}
		return p.printOutput(p.output, lines, func(w io.Writer) {
			for _, l := range lines {
				fmt.Fprintln(w, cleanLine(l))
			}
		})
	}
	return &api.Error{Kind: api.NotFound, Message: fmt.Sprintf("no upstream %q: the configuration has %s", name,
		strings.Join(names, ", "))}
}
