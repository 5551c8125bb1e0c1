package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
)

func replayCommand(a *app) *cobra.Command {
	var output, file string
	var until int
	c := &cobra.Command{
		Use:   "replay EXECUTION",
		Short: "Run an execution again, offline, from its journal",
		Long: `Runs the program of an execution again with its recorded inputs: the results of its calls in their order, the time and the
random numbers. Nothing is sent anywhere. With the same build of the engine, the value and the console are the same, byte for
byte. With another build they may differ, and the output says so.

With --until it stops at a call, and shows the state at that point. With --program a changed program runs against the recorded
calls: a call of the same tool with the same arguments is answered from the journal. The first call that isn't in the journal
ends the program.

The exit code is 0 if everything was as recorded, or if all calls of a changed program were found. Otherwise it is 1.`,
		Example: `  biplane replay ex_4kd2m5x7q3na6tpw8zrb
  biplane replay ex_4kd2m5x7q3na6tpw8zrb --until 3
  biplane replay ex_4kd2m5x7q3na6tpw8zrb --program fixed.ts -o json`,
		Args:              exactly("EXECUTION", "the id of an execution"),
		ValidArgsFunction: a.completeExecutions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.ReplayRequest{Until: until}
			if cmd.Flags().Changed("until") && until < 1 {
				return usage("call %d is invalid: calls are numbered from 1, as executions show does", until)
			}
			if cmd.Flags().Changed("program") {
				var run api.RunRequest
				if err := a.program(cmd.Context(), []string{file}, &run); err != nil {
					return err
				}
				if req.Program = run.Code; strings.TrimSpace(req.Program) == "" {
					return usage("the program in %s is empty", file)
				}
			}
			return a.with(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				r, err := client.Replay(ctx, args[0], req)
				if err != nil {
					return err
				}
				return a.replayed(output, r, req)
			})
		},
	}
	f := c.Flags()
	f.IntVar(&until, "until", 0, "stop at the call with this `number`")
	f.StringVar(&file, "program", "", "run the program in this `file` instead of the recorded one; - for standard input")
	addOutput(c, &output)
	return c
}

// replayed prints the result of a replay, and returns a failure if it differs from the recording.
func (a *app) replayed(output string, r *api.Replay, req api.ReplayRequest) error {
	switch output {
	case "json":
		if err := a.json(r); err != nil {
			return err
		}
	case "table":
		if err := a.replayText(r, req); err != nil {
			return err
		}
	default:
		return usage("output %q is not one of table, json", output)
	}
	if r.Differs != "" || r.State == api.ReplayDiverged || r.State == api.ReplayFailed && !r.Same {
		return told(exitFailed)
	}
	return nil
}

// replayText prints a replay as run prints an execution, with a verdict.
func (a *app) replayText(r *api.Replay, req api.ReplayRequest) error {
	for _, l := range r.Console {
		lines(a.Err, clean(l.Level)+": ", safe(l.Text))
	}
	for _, c := range r.Calls {
		fmt.Fprintln(a.Err, clean(callText(&c)))
	}
	switch {
	case r.Error != nil:
		fmt.Fprintln(a.Err, safe(failureText(r.Error)))
	case r.State == api.ReplayDone:
		value, err := compact(r.Value)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Out, value)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(a.Err, safe(n))
	}
	fmt.Fprintln(a.Err, clean(verdict(r, req)))
	return nil
}

// verdict describes the result of a replay in one line.
func verdict(r *api.Replay, req api.ReplayRequest) string {
	at := fmt.Sprintf("at call %d", len(r.Calls))
	switch {
	case r.State == api.ReplayDiverged:
		return "it diverges " + at + ": " + r.Differs
	case r.Differs != "":
		return "it differs from the recording: " + r.Differs
	case r.State == api.ReplayStopped:
		return "stopped " + at
	case r.State == api.ReplayCut:
		return "the journal ends here: the program was stopped from outside"
	case req.Program != "":
		return "all calls of this program are in the journal"
	case !r.Same:
		return "it is not byte for byte identical to the recording"
	}
	return "byte for byte identical to the recording"
}
