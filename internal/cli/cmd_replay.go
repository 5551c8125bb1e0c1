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
		Long: `Runs the program of an execution again with its recorded inputs: the results of its calls in their
order, the time and the random numbers. Nothing is sent anywhere. With the same build of the engine, the
value and the console are the same, byte for byte. With another build they may differ, and the output
says so.

With --until it stops at a call, and shows the state at that point. With --program a changed program
runs against the recorded calls: a call of the same tool with the same arguments is answered from the
journal. The first call that isn't in the journal ends the program.

The exit code is 0 if everything was as recorded, or if all calls of a changed program were found. Otherwise it is 1.`,
		Example: `  biplane replay ex_4kd2m5x7q3na6tpw8zrb
  biplane replay ex_4kd2m5x7q3na6tpw8zrb --until 3
  biplane replay ex_4kd2m5x7q3na6tpw8zrb --program fixed.ts -o json`,
		Args:              exactlyOne("EXECUTION", "the id of an execution"),
		ValidArgsFunction: a.completeExecutions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.ReplayRequest{Until: until}
			if cmd.Flags().Changed("until") && until < 1 {
				return usageError("call %d is invalid: calls are numbered from 1, as executions show does", until)
			}
			if cmd.Flags().Changed("program") {
				var run api.RunRequest
				if err := a.readProgram(cmd.Context(), []string{file}, &run); err != nil {
					return err
				}
				if req.Program = run.Code; strings.TrimSpace(req.Program) == "" {
					return usageError("the program in %s is empty", file)
				}
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				r, err := client.Replay(ctx, args[0], req)
				if err != nil {
					return err
				}
				return a.printReplay(output, r, req)
			})
		},
	}
	f := c.Flags()
	f.IntVar(&until, "until", 0, "stop at the call with this `number`")
	f.StringVar(&file, "program", "",
		"run the program in this `file` instead of the recorded one; - for standard input")
	addOutput(c, &output)
	return c
}

// printReplay prints the result of a replay, and returns a failure if it differs from the
// recording.
func (a *app) printReplay(output string, r *api.Replay, req api.ReplayRequest) error {
	err := checkOutput(output)
	switch {
	case err != nil:
	case output == "table":
		err = a.replayText(r, req)
	default:
		err = a.printData(output, r)
	}
	if err != nil {
		return err
	}
	if r.Differs != "" || r.State == api.ReplayDiverged || r.State == api.ReplayFailed && !r.Same {
		return failSilently(exitFailed)
	}
	return nil
}

// replayText prints a replay as run prints an execution, with a verdict.
func (a *app) replayText(r *api.Replay, req api.ReplayRequest) error {
	for _, l := range r.Console {
		writeLines(a.Err, cleanLine(l.Level)+": ", stripControls(l.Text))
	}
	for _, c := range r.Calls {
		fmt.Fprintln(a.Err, cleanLine(callText(&c)))
	}
	switch {
	case r.Error != nil:
		fmt.Fprintln(a.Err, stripControls(failureText(r.Error)))
	case r.State == api.ReplayDone:
		value, err := compactValue(r.Value)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Out, value)
	}
	for _, n := range r.Notes {
		fmt.Fprintln(a.Err, stripControls(n))
	}
	fmt.Fprintln(a.Err, cleanLine(describeReplay(r, req)))
	return nil
}

// describeReplay describes the result of a replay in one line.
func describeReplay(r *api.Replay, req api.ReplayRequest) string {
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
