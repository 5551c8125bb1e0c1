package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

// executionStates are the states by which a list can be filtered.
var executionStates = []string{api.StateRunning, api.StateWaiting, api.StateDone, api.StateFailed, api.StateInterrupted}

func executionsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "executions",
		Short: "Show programs that ran, and every call they made",
		Long: `Each run of a program is an execution. Its journal holds the program, every call with
its arguments and answer, the console, the value and the way it ended. "biplane replay" runs it again
from the journal.`,
		Example: `  biplane executions
  biplane executions list --state failed --since 24h
  biplane executions show ex_4kd2m5x7q3na6tpw8zrb
  biplane executions watch
  biplane executions stop ex_4kd2m5x7q3na6tpw8zrb
  biplane executions diff ex_4kd2m5x7q3na6tpw8zrb ex_c7yq2n4v8sjh3dmx5tgp`,
		Args: noArguments,
	}
	list := executionsListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, executionsShowCommand(a), executionsWatchCommand(a), executionsStopCommand(a),
		executionsDiffCommand(a))
	return c
}

func executionsListCommand(a *app) *cobra.Command {
	var output, since string
	var f api.ExecutionFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "List executions, newest first",
		Example: `  biplane executions list
  biplane executions list --state running,waiting
  biplane executions list --session work --since 7d --limit 200 -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range f.States {
				if !slices.Contains(executionStates, s) {
					return usageError("state %q is not one of %s", s, strings.Join(executionStates, ", "))
				}
			}
			if f.Limit < 1 || f.Limit > api.MaxExecutions {
				return usageError("limit %d is invalid: it must be from 1 to %d", f.Limit, api.MaxExecutions)
			}
			var err error
			if f.Since, err = parseMoment(since, time.Now()); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				page, err := client.Executions(ctx, f)
				if err != nil {
					return err
				}
				if err := a.printOutput(output, page.Executions,
					func(w io.Writer) { tableOfExecutions(w, page.Executions, f) }); err != nil {
					return err
				}
				if page.Next != "" {
					fmt.Fprintf(a.Err, "there are older ones: --before %s\n", cleanLine(page.Next))
				}
				return nil
			})
		},
	}
	fs := c.Flags()
	fs.StringSliceVar(&f.States, "state", nil, "only executions in these `states`: "+
		strings.Join(executionStates, ", "))
	fs.StringVar(&f.Session, "session", "", "only executions of the session with this `name`")
	fs.StringVar(&since, "since", "", "only executions started since this `time`: 90m, 24h or 7d ago, a day "+
		"(2026-01-31) or a moment (2026-01-31T09:00:00Z)")
	fs.IntVar(&f.Limit, "limit", 50, "maximum number of executions")
	fs.StringVar(&f.Before, "before", "", "continue a list, from the `mark` at its end")
	addOutput(c, &output)
	completeWords(c, "state", executionStates...)
	if err := c.RegisterFlagCompletionFunc("session", completer{a}.completeSessions(2)); err != nil {
		panic(err) // unknown flag: a mistake in this package
	}
	return c
}

// parseMoment parses a time: a duration before now, a day in the user's time zone, or a moment (RFC
// 3339). It returns the zero time for an empty text.
func parseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ago := text
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n < 100_000 {
			ago = strconv.Itoa(24*n) + "h"
		}
	}
	if d, err := time.ParseDuration(ago); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05",
		"2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError("the time %q can't be read: write 90m, 24h or 7d for so long ago, 2026-01-31 for "+
		"a day, or 2026-01-31T09:00:00Z for a moment", text)
}

func tableOfExecutions(w io.Writer, all []api.ExecutionInfo, f api.ExecutionFilter) {
	switch {
	case len(all) > 0:
	case len(f.States) > 0:
		fmt.Fprintf(w, "No executions that are %s: biplane executions list shows all.\n",
			strings.Join(f.States, " or "))
		return
	case f.Session != "" || f.Before != "" || !f.Since.IsZero():
		fmt.Fprintln(w, "No matching executions: biplane executions list shows all.")
		return
	default:
		fmt.Fprintln(w, "No executions: biplane run starts one.")
		return
	}
	rows := [][]string{{"EXECUTION", "STATE", "FOR", "SESSION", "LANGUAGE", "CALLS", "STARTED", "TOOK", "PROBLEM"}}
	for _, e := range all {
		rows = append(rows, []string{e.ID, e.State, e.Principal, orDash(e.Session), e.Language, strconv.Itoa(e.Calls),
			formatMoment(e.Started), formatTook(e.MS), shortenLine(e.Problem, 60)})
	}
	writeColumns(w, rows...)
}

// formatTook formats milliseconds.
func formatTook(ms int64) string {
	if ms < 10_000 {
		return strconv.FormatInt(ms, 10) + " ms"
	}
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

func executionsShowCommand(a *app) *cobra.Command {
	var output string
	var n int
	c := &cobra.Command{
		Use:   "show EXECUTION",
		Short: "Show an execution: its program, its calls, its console and its value",
		Long: `Shows an execution from its journal. Calls that ran at the same time are grouped. "+12 ms" is the start
of a call, relative to the start of the execution. With --call it shows the full arguments and result of
one call.`,
		Example: `  biplane executions show ex_4kd2m5x7q3na6tpw8zrb
  biplane executions show ex_4kd2m5x7q3na6tpw8zrb --call 3
  biplane executions show ex_4kd2m5x7q3na6tpw8zrb -o json`,
		Args:              exactlyOne("EXECUTION", "the id of an execution"),
		ValidArgsFunction: completer{a}.completeExecutions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("call") && n < 1 {
				return usageError("call %d is invalid: calls are numbered from 1", n)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if n > 0 {
					c, err := client.Call(ctx, args[0], n)
					if err != nil {
						return err
					}
					return a.printOutput(output, c, func(w io.Writer) { showCall(w, c) })
				}
				d, err := client.Journal(ctx, args[0])
				if err != nil {
					return err
				}
				return a.printOutput(output, d, func(w io.Writer) { showExecution(w, d) })
			})
		},
	}
	c.Flags().IntVar(&n, "call", 0, "show only the call with this `number`, with its full arguments and result")
	addOutput(c, &output)
	return c
}

func executionsWatchCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "watch [EXECUTION]",
		Short: "Follow an execution, or all running ones, call by call",
		Long: `Prints a line when a call starts or ends, and when the state of an execution changes. With EXECUTION it
ends with that execution: exit code 0 means success, 1 anything else. Without one it continues until it
is interrupted. With -o json each line is an object, with -o yaml each document is one.

If no process runs EXECUTION, this command runs it while it is watched.`,
		Example:           "  biplane executions watch\n  biplane executions watch ex_4kd2m5x7q3na6tpw8zrb",
		Args:              atMost(1, "one EXECUTION"),
		ValidArgsFunction: completer{a}.completeExecutions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			w := &watcher{app: a, output: output, seen: map[string]*watched{}}
			err := a.withEngine(cmd.Context(), len(args) > 0, nil,
				func(ctx context.Context, client *api.Client) error { return w.followAll(ctx, client, args) })
			if !w.left {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				return w.printLast(ctx, client, args)
			})
		},
	}
	addOutput(c, &output)
	return c
}

func executionsStopCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "stop EXECUTION",
		Short: "Stop a running or waiting execution",
		Long: `Stops a program that runs, or that waits for its turn, a tool or a person. The program has then failed,
and its session is restored to its state before the program. The effects of its calls remain, and a call
in progress may still take effect.`,
		Example:           "  biplane executions stop ex_4kd2m5x7q3na6tpw8zrb",
		Args:              exactlyOne("EXECUTION", "the id of an execution"),
		ValidArgsFunction: completer{a}.completeExecutions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				if err := client.StopExecution(ctx, args[0]); err != nil {
					return err
				}
				return a.printOutput(output, map[string]string{"stopped": args[0]},
					func(w io.Writer) { fmt.Fprintf(w, "execution %s is stopped\n", cleanLine(args[0])) })
			})
		},
	}
	addOutput(c, &output)
	return c
}

func executionsDiffCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two executions: their programs, calls, consoles and values",
		Long: `Compares two executions. Lines of only the first are marked with -, lines of only the second with +. Two
calls are equal if their tool, arguments and outcome are. The exit code is 0 if there is no difference,
and 1 otherwise.`,
		Example:           "  biplane executions diff ex_4kd2m5x7q3na6tpw8zrb ex_c7yq2n4v8sjh3dmx5tgp",
		Args:              exactlyTwo("A", "B", "the ids of two executions"),
		ValidArgsFunction: completer{a}.completeExecutions(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				first, err := client.Journal(ctx, args[0])
				if err != nil {
					return err
				}
				second, err := client.Journal(ctx, args[1])
				if err != nil {
					return err
				}
				d := compareExecutions(first, second)
				if err := a.printOutput(output, d, func(w io.Writer) { showDifference(w, d) }); err != nil {
					return err
				}
				if !d.Same {
					return failSilently(exitFailed)
				}
				return nil
			})
		},
	}
	addOutput(c, &output)
	return c
}

// completeExecutions completes the ids of executions in the first n arguments.
func (a completer) completeExecutions(n int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		var out []string
		if len(args) >= n {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
			page, err := client.Executions(ctx, api.ExecutionFilter{Limit: 100})
			if err != nil {
				return err
			}
			for _, e := range page.Executions {
				if strings.HasPrefix(e.ID, prefix) {
					what := e.State + " " + formatMoment(e.Started)
					if e.Session != "" {
						what += ", session " + e.Session
					}
					out = append(out, cobra.CompletionWithDesc(e.ID, what))
				}
			}
			return nil
		})
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// A watcher prints the changes of executions.
type watcher struct {
	*app
	output string // as -o
	seen   map[string]*watched
	// requests has the pending requests that were printed; nil: they are not followed.
	requests map[string]api.Approval
	left     bool // the process that answered is gone; its executions are still in the data folder
}

// A watched is the last printed state of an execution.
type watched struct {
	state string
	calls []string // the states of its calls
}

// An event is one line of `watch -o json`.
type event struct {
	Time      time.Time          `json:"time"`
	Execution string             `json:"id"`
	State     string             `json:"state"`
	Call      *api.ExecutionCall `json:"call,omitempty"` // that started or ended
	Problem   string             `json:"problem,omitempty"`
	Approval  *api.Approval      `json:"approval,omitempty"` // a request that came or was decided
}

// followAll follows the named execution, or all.
func (w *watcher) followAll(ctx context.Context, client *api.Client, args []string) error {
	if len(args) == 0 {
		return w.noteLoss(ctx, w.followRunning(ctx, client))
	}
	d, err := w.followOne(ctx, client, args[0])
	if err != nil || ctx.Err() != nil {
		return w.noteLoss(ctx, err)
	}
	if d.State != api.StateDone {
		return failSilently(exitFailed)
	}
	return nil
}

// noteLoss records in w.left whether err means that the process that answered is gone. It returns
// nil if ctx is done, since an interruption is not an error.
func (w *watcher) noteLoss(ctx context.Context, err error) error {
	var e *api.Error
	w.left = ctx.Err() == nil && errors.As(err, &e) && e.Kind == api.Unavailable && len(w.seen) > 0
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// printLast prints the final state of the followed executions when the process that ran them is
// gone, as when biplane run ends. It checks only once: to keep watching would hold the data folder
// and block the next biplane serve.
func (w *watcher) printLast(ctx context.Context, client *api.Client, args []string) error {
	code := 0
	for _, id := range slices.Sorted(maps.Keys(w.seen)) {
		if !isRunning(w.seen[id].state) {
			continue
		}
		d, err := client.Journal(ctx, id)
		if err != nil {
			return err
		}
		if err := w.printChanges(d); err != nil {
			return err
		}
		switch {
		case isRunning(d.State):
			fmt.Fprintf(w.Err, "biplane: the process that ran %s has exited: it is resumed, or ended, when biplane "+
				"serve, mcp or run starts\n", id)
			code = exitUnable
		case len(args) > 0 && d.State != api.StateDone && code == 0:
			code = exitFailed
		}
	}
	if len(args) == 0 {
		fmt.Fprintln(w.Err, "biplane: the process that answered has exited")
		code = exitUnable
	}
	if code != 0 {
		return failSilently(code)
	}
	return nil
}

// followOne follows an execution to its end.
func (w *watcher) followOne(ctx context.Context, client *api.Client, id string) (*api.ExecutionDetail, error) {
	d, err := client.Journal(ctx, id)
	for {
		if err != nil {
			return nil, err
		}
		if err := w.printChanges(d); err != nil {
			return nil, err
		}
		if !isRunning(d.State) {
			return d, nil
		}
		d, err = client.Watch(ctx, id, d.Version)
	}
}

func isRunning(state string) bool { return state == api.StateRunning || state == api.StateWaiting }

// watchEvery is the polling interval for new executions.
const watchEvery = 200 * time.Millisecond

// followRunning follows all running executions, and any that start later, until ctx is done. It
// also follows requests for approval if w.requests is not nil.
func (w *watcher) followRunning(ctx context.Context, client *api.Client) error {
	since := time.Now()
	running := map[string]bool{}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	fmt.Fprintln(w.Err, "waiting for executions, until interrupted")
	for {
		under, err := client.Executions(ctx, api.ExecutionFilter{States: []string{api.StateRunning, api.StateWaiting},
			Limit: api.MaxExecutions})
		if err != nil {
			return err
		}
		fresh, err := client.Executions(ctx, api.ExecutionFilter{Since: since, Limit: api.MaxExecutions})
		if err != nil {
			return err
		}
		for _, e := range append(under.Executions, fresh.Executions...) {
			if _, known := w.seen[e.ID]; !known || isRunning(e.State) {
				running[e.ID] = true
			}
		}
		if err := w.printRequests(ctx, client); err != nil {
			return err
		}
		for id := range running {
			d, err := client.Journal(ctx, id)
			if isGone(err) {
				delete(running, id)
				continue
			} else if err != nil {
				return err
			}
			if err := w.printChanges(d); err != nil {
				return err
			}
			if !isRunning(d.State) {
				delete(running, id)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// isGone reports whether err means that an execution is no longer stored.
func isGone(err error) bool {
	var e *api.Error
	return errors.As(err, &e) && e.Kind == api.NotFound
}

// printChanges prints the changes of an execution since it was last seen.
func (w *watcher) printChanges(d *api.ExecutionDetail) error {
	known := w.seen[d.ID]
	if known == nil {
		known = &watched{}
		w.seen[d.ID] = known
		if isRunning(d.State) {
			known.state = d.State
			if err := w.printEvent(event{Time: d.Started, Execution: d.ID, State: d.State},
				"begun"+inSession(d.Session)); err != nil {
				return err
			}
		}
	}
	for i := range d.Calls {
		c := &d.Calls[i]
		if i == len(known.calls) {
			known.calls = append(known.calls, "")
		}
		if known.calls[i] == c.State {
			continue
		}
		known.calls[i] = c.State
		at := c.Started
		if c.State != api.CallPending {
			at = at.Add(time.Duration(c.MS) * time.Millisecond)
		}
		if err := w.printEvent(event{Time: at, Execution: d.ID, State: d.State, Call: c}, callText(c)); err != nil {
			return err
		}
	}
	if known.state == d.State {
		return nil
	}
	known.state = d.State
	at := time.Now().UTC()
	if d.Ended != nil {
		at = *d.Ended
	}
	text := d.State
	if !isRunning(d.State) {
		text += " after " + formatTook(d.MS)
	}
	if d.Problem != "" {
		text += ": " + shortenLine(d.Problem, 200)
	}
	return w.printEvent(event{Time: at, Execution: d.ID, State: d.State, Problem: d.Problem}, text)
}

func inSession(name string) string {
	if name == "" {
		return ""
	}
	return " in session " + name
}

func (w *watcher) printEvent(e event, text string) error {
	if w.output != "json" && w.output != "yaml" {
		_, err := fmt.Fprintf(w.Out, "%s %s %s\n", e.Time.Local().Format("15:04:05.000"),
			cleanLine(e.Execution), cleanLine(text))
		return err
	}
	if w.output == "yaml" {
		if _, err := io.WriteString(w.Out, "---\n"); err != nil {
			return err
		}
		return w.printYAML(e)
	}
	line, err := lineOf(e)
	if err != nil {
		return err
	}
	_, err = w.Out.Write(line)
	return err
}
