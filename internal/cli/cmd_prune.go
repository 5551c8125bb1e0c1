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

// A prunedKind is the result of biplane prune for one kind of data.
type prunedKind struct {
	Kind     string    `json:"kind"`
	Before   time.Time `json:"before"`
	Count    int64     `json:"count"` // removed, or to be removed in a dry run
	DryRun   bool      `json:"dry_run"`
	Segments []string  `json:"segments,omitempty"` // files that leaves of the audit log were moved to
}

func pruneCommand(a *app) *cobra.Command {
	ages := map[string]*string{}
	var dryRun bool
	var output string
	c := &cobra.Command{
		Use:   "prune",
		Short: "Delete old executions, journals, sessions, usage and files, and archive the old audit log",
		Long: `Deletes data that is older than the given ages, also while a process uses the data folder:
executions that have ended, the journals of such executions, sessions that no program uses, usage, and files of
servers in sandboxes that are no longer in the configuration. Kinds without an age stay. An age is a duration
such as 90d or 12h; 0 means everything until now. Each step is on record before it is made.

The audit log is never deleted. --audit moves its old entries to signed files in the folder "archive" of the
data folder. Lists, proofs and biplane audit verify read them there. They may be moved elsewhere; verify then
names the missing ones.`,
		Example: `  biplane prune --executions 90d --sessions 180d --dry-run
  biplane prune --journals 30d --usage 400d --audit 365d`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			todo, err := parseAges(ages, time.Now())
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				for i := range todo {
					todo[i].DryRun = dryRun
					if err := pruneKind(ctx, client, &todo[i], a.Err); err != nil {
						return err
					}
				}
				return a.printOutput(output, todo, func(w io.Writer) { printPruneTable(w, todo) })
			})
		},
	}
	for _, k := range api.PruneKinds {
		ages[k] = c.Flags().String(k, "", pruneHelp[k])
	}
	c.Flags().BoolVar(&dryRun, "dry-run", false, "count, and change nothing")
	addOutput(c, &output)
	return c
}

// pruneHelp describes the flags, by kind.
var pruneHelp = map[string]string{
	api.PruneExecutions: "delete executions that ended longer ago than this `age`, such as 90d",
	api.PruneJournals:   "delete the journals of executions that ended longer ago than this `age`",
	api.PruneSessions:   "end sessions that were last used longer ago than this `age`",
	api.PruneUsage:      "delete usage from longer ago than this `age`",
	api.PruneServers:    "delete files of removed servers in sandboxes that ran longer ago than this `age`",
	api.PruneAudit:      "archive entries of the audit log from longer ago than this `age`",
}

// parseAges returns the data to prune, in the order of api.PruneKinds.
func parseAges(ages map[string]*string, now time.Time) (todo []prunedKind, err error) {
	for _, k := range api.PruneKinds {
		if *ages[k] == "" {
			continue
		}
		var seconds int64
		if *ages[k] != "0" {
			if seconds, err = secondsOf("--"+k, *ages[k]); err != nil {
				return nil, err
			}
		}
		todo = append(todo, prunedKind{Kind: k, Before: now.Add(-time.Duration(seconds) * time.Second).UTC()})
	}
	if len(todo) == 0 {
		return nil, usageError("say what is old: --executions 90d, --journals, --sessions, --usage, " +
			"--servers or --audit")
	}
	return todo, nil
}

// pruneKind prunes one kind step by step, with its progress on a terminal.
func pruneKind(ctx context.Context, client *api.Client, k *prunedKind, progress io.Writer) error {
	shown := false
	for {
		s, err := client.PruneData(ctx, api.PruneRequest{Kind: k.Kind, Before: k.Before, DryRun: k.DryRun})
		if err != nil {
			return err
		}
		k.Count += s.Removed
		if s.Segment != "" {
			k.Segments = append(k.Segments, s.Segment)
		}
		if k.DryRun {
			k.Count = s.Left
		}
		if k.DryRun || s.Left == 0 {
			if shown {
				fmt.Fprintln(progress)
			}
			return nil
		}
		if isTerminal(progress) {
			fmt.Fprintf(progress, "\r%s: %d of %d", k.Kind, k.Count, k.Count+s.Left)
			shown = true
		}
	}
}

func printPruneTable(w io.Writer, all []prunedKind) {
	what := "REMOVED"
	if all[0].DryRun {
		what = "WOULD REMOVE"
	}
	rows := [][]string{{"KIND", "BEFORE", what, "ARCHIVED IN"}}
	for _, k := range all {
		in := ""
		if n := len(k.Segments); n > 0 {
			in = k.Segments[0]
			if n > 1 {
				in += " to " + k.Segments[n-1]
			}
		}
		rows = append(rows, []string{k.Kind, formatMoment(k.Before), strconv.FormatInt(k.Count, 10), in})
	}
	writeColumns(w, rows...)
}
