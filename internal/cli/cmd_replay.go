package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

func replayCommand(a *app) *cobra.Command {
	var output, file string
	var until int
	var reads bool
	c := &cobra.Command{
		Use:   "replay EXECUTION",
		Short: "Run an execution again, offline, from its journal",
		Long: `Runs the program of an execution again with its recorded inputs: the results of its calls in their
order, the time and the random numbers. Nothing is sent anywhere. With the same build of the engine, the
value and the console are the same, byte for byte. With another build they may differ, and the output
says so.

With --until it stops at a call, and shows the state at that point.

With --program a changed program runs against the recorded calls: a call of the same tool with the same
arguments is answered from the journal, in whatever order the program makes its calls. Each recorded
call answers once. The first call that isn't in the journal ends the program; its line is shown. With
--reads such a call is made now if it only reads and policy allows it without approval. The execution
must be your own, and have ended. Nothing is written to its journal.

The exit code is 0 if everything was as recorded, or if all calls of a changed program were found. Otherwise it is 1.`,
		Example: `  biplane replay ex_4kd2m5x7q3na6tpw8zrb
  biplane replay ex_4kd2m5x7q3na6tpw8zrb --until 3
  biplane replay ex_4kd2m5x7q3na6tpw8zrb --program fixed.ts -o json
  biplane replay ex_4kd2m5x7q3na6tpw8zrb --program fixed.ts --reads`,
		Args:              exactlyOne("EXECUTION", "the id of an execution"),
		ValidArgsFunction: completer{a}.completeExecutions(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			req := api.ReplayRequest{Until: until, Reads: reads}
			if err := readReplay(a, cmd, file, &req); err != nil {
				return err
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
	f.BoolVar(&reads, "reads", false,
		"with --program: make calls that are not recorded, if they only read")
	addOutput(c, &output)
	return c
}

// readReplay checks the flags of replay, and reads the changed program, if there is one.
func readReplay(a *app, cmd *cobra.Command, file string, req *api.ReplayRequest) error {
	changed := cmd.Flags().Changed("program")
	switch {
	case cmd.Flags().Changed("until") && req.Until < 1:
		return usageError("call %d is invalid: calls are numbered from 1, as executions show does", req.Until)
	case req.Reads && !changed:
		return usageError("--reads needs --program: a replay of the recorded program makes no calls")
	case !changed:
		return nil
	}
	var run api.RunRequest
	if err := a.readProgram(cmd.Context(), []string{file}, &run); err != nil {
		return err
	}
	if req.Program = run.Code; strings.TrimSpace(req.Program) == "" {
		return usageError("the program in %s is empty", file)
	}
	return nil
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
		fmt.Fprintln(a.Err, cleanLine(callText(&c)+describeAnswer(&c, req)))
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
	if n := len(r.Left); n > 0 {
		var names []string
		for i := range r.Left[:min(n, maxLeft)] {
			names = append(names, fmt.Sprintf("%s (call %d)", r.Left[i].Tool, r.Left[i].Call))
		}
		if n > maxLeft {
			names = append(names, "...")
		}
		fmt.Fprintln(a.Err, cleanLine(fmt.Sprintf("it did not make %s of the execution: %s", text.Count(n, "call"),
			strings.Join(names, ", "))))
	}
	fmt.Fprintln(a.Err, cleanLine(describeReplay(r, req)))
	return nil
}

// maxLeft is the number of recorded calls that are named when a program does not make them.
const maxLeft = 5

// describeAnswer describes how a call of a changed program was answered.
func describeAnswer(c *api.ExecutionCall, req api.ReplayRequest) (out string) {
	if req.Program == "" {
		return ""
	}
	if c.Line > 0 {
		out = fmt.Sprintf(", line %d", c.Line)
	}
	switch {
	case c.Live:
		out += ", made now"
	case c.Recorded > 0:
		out += fmt.Sprintf(", as recorded in call %d", c.Recorded)
	}
	return out
}

// describeTrial describes the result of a changed program that ended.
func describeTrial(r *api.Replay) string {
	live := 0
	for i := range r.Calls {
		if r.Calls[i].Live {
			live++
		}
	}
	out := "all calls of this program are in the journal"
	if live > 0 {
		out = text.Count(live, "call") + " of this program made now, the others are in the journal"
	}
	if len(r.Changes) == 0 {
		return out + "; its result is as recorded"
	}
	return out + "; changed: " + strings.Join(r.Changes, ", ")
}

// describeReplay describes the result of a replay in one line.
func describeReplay(r *api.Replay, req api.ReplayRequest) string {
	at := fmt.Sprintf("at call %d", len(r.Calls))
	switch {
	case r.State == api.ReplayDiverged:
		if n := len(r.Calls); n > 0 && r.Calls[n-1].Line > 0 {
			at += fmt.Sprintf(", line %d", r.Calls[n-1].Line)
		}
		return "it diverges " + at + ": " + r.Differs
	case r.Differs != "":
		return "it differs from the recording: " + r.Differs
	case r.State == api.ReplayStopped:
		return "stopped " + at
	case r.State == api.ReplayCut:
		return "the journal ends here: the program was stopped from outside"
	case req.Program != "":
		return describeTrial(r)
	case !r.Same:
		return "it is not byte for byte identical to the recording"
	}
	return "byte for byte identical to the recording"
}
