package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

func approvalsCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "Show calls that wait for approval, and approve or deny them",
		Long: `When policy requires a person's approval, a call waits until it is approved or denied. Its program is
suspended meanwhile, and continues after the decision, even after a restart. An approval is for one call
with exactly the arguments shown. A request without a decision expires.`,
		Example: `  biplane approvals
  biplane approvals show apr_7k3v...
  biplane approvals approve apr_7k3v... --note "checked with finance"
  biplane approvals deny ex_2c9d...`,
		Args: noArguments,
	}
	list := approvalsListCommand(a)
	c.RunE = list.RunE
	c.Flags().AddFlagSet(list.Flags())
	c.AddCommand(list, approvalsShowCommand(a), decideCommand(a, "approve", "Let calls be made", true),
		decideCommand(a, "deny", "Refuse calls", false))
	return c
}

func approvalsListCommand(a *app) *cobra.Command {
	var output, execution, before string
	var limit int
	var all bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the calls that wait for approval",
		Example: "  biplane approvals list\n  biplane approvals list --all -o json\n  biplane approvals list --all " +
			"--limit 20 --before apr_7k3v...",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 1 || limit > api.MaxApprovals {
				return usageError("--limit must be from 1 to %d, not %d", api.MaxApprovals, limit)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				fair := !all && execution == "" && before == "" && !cmd.Flags().Changed("limit")
				filter := api.ApprovalFilter{Execution: execution, All: all, Before: before, Limit: limit}
				if fair {
					filter.Limit = api.MaxApprovals
				}
				list, err := client.Approvals().List(ctx, filter)
				for some := list; fair && err == nil && len(some) == filter.Limit; list = append(list, some...) {
					filter.Before = some[len(some)-1].ID
					some, err = client.Approvals().List(ctx, filter)
				}
				if err != nil {
					return err
				}
				more := 0
				if fair { // many requests of one principal must not hide the requests of others
					list = queue.Interleave(list, func(r *api.Approval) string { return r.Principal })
					more = max(0, len(list)-limit)
					list = list[:len(list)-more]
				}
				if output != "table" {
					if err := fetchArguments(ctx, client, list); err != nil {
						return err
					}
				}
				return a.printOutput(output, list, func(w io.Writer) {
					tableOfApprovals(w, list, all)
					switch {
					case more > 0:
						fmt.Fprintf(w, "These are the newest of each principal. %d more wait: --limit %d\n",
							more, api.MaxApprovals)
					case !fair && len(list) == limit:
						fmt.Fprintf(w, "There may be older ones: --before %s\n", list[len(list)-1].ID)
					}
				})
			})
		},
	}
	addOutput(c, &output)
	c.Flags().BoolVar(&all, "all", false, "include decided requests")
	c.Flags().StringVar(&execution, "execution", "", "only requests of this execution")
	c.Flags().IntVar(&limit, "limit", 100, "maximum number of requests, newest first, each principal in turn")
	c.Flags().StringVar(&before, "before", "", "only requests older than this `request`")
	return c
}

func tableOfApprovals(w io.Writer, list []api.Approval, all bool) {
	if len(list) == 0 {
		fmt.Fprintln(w, "No calls are waiting for approval.")
		return
	}
	head := []string{"REQUEST", "TOOL", "ARGUMENTS", "FOR", "REASON", "EXPIRES"}
	if all {
		head = append(head, "STATE", "BY")
	}
	rows := [][]string{head}
	for _, r := range list {
		row := []string{r.ID, r.Tool, shortenLine(argumentsOf(&r), 60), r.Principal, shortenLine(r.Reason, 60),
			formatMoment(r.Expires)}
		if all {
			row = append(row, r.State, r.DecidedBy)
		}
		rows = append(rows, row)
	}
	writeColumns(w, rows...)
}

// argumentsOf returns the arguments of a request, for a list.
func argumentsOf(r *api.Approval) string {
	if r.Kind != api.KindPlan {
		if leftOut(r) {
			return "too long for a list"
		}
		return tool.Visible(r.Arguments)
	}
	var names []string
	for _, w := range r.Writes {
		names = append(names, w.Tool)
	}
	if len(names) == 0 {
		return "a long plan"
	}
	return text.Count(len(names), "call") + ": " + tallyNames(names)
}

// leftOut reports whether a list omitted the arguments of r, which otherwise are an object.
func leftOut(r *api.Approval) bool { return len(r.Arguments) == 0 || string(r.Arguments) == "null" }

// fetchArguments fetches the arguments that a list omitted, since a program that reads the list
// needs them.
func fetchArguments(ctx context.Context, client *api.Client, list []api.Approval) error {
	for i := range list {
		if !leftOut(&list[i]) {
			continue
		}
		r, err := client.Approvals().Get(ctx, list[i].ID)
		if err != nil {
			return err
		}
		list[i].Arguments, list[i].Writes = r.Arguments, r.Writes
	}
	return nil
}

// writesOf writes the calls of a plan. It shortens arguments to most characters if most is not 0.
func writesOf(w io.Writer, writes []api.PlannedWrite, most int) {
	for i, c := range writes {
		args := tool.Visible(c.Arguments)
		if most > 0 {
			args = shortenLine(args, most)
		}
		fmt.Fprintf(w, "  %d. %s %s\n", i+1, cleanLine(c.Tool), args)
		if c.Simulated {
			fmt.Fprintln(w, "     its arguments contain a simulated answer: the call will be refused")
		}
	}
}

func approvalsShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:               "show ID",
		Short:             "Show a request: the call, who makes it, why approval is needed, and the program",
		Example:           "  biplane approvals show apr_7k3v...",
		Args:              exactlyOne("ID", "the id of a request"),
		ValidArgsFunction: completer{a}.completeApprovals,
		RunE: func(cmd *cobra.Command, args []string) error {
			return printOne(a, cmd, output, getterOf((*api.Client).Approvals, api.ApprovalClient.Get), args[0],
				showApproval)
		},
	}
	addOutput(c, &output)
	return c
}

func showApproval(w io.Writer, r *api.Approval) {
	rows := [][]string{{"request", r.ID}, {"state", r.State}, {"tool", r.Tool}, {"reason", r.Reason},
		{"policy", r.Policy}, {"for", r.Principal}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("person", r.Person)
	add("agent", r.Agent)
	add("client", r.Client)
	add("execution", r.Execution)
	add("data read", strings.Join(r.Labels, ", "))
	add("approvers", strings.Join(r.Approvers, ", "))
	add("asked", formatMoment(r.Created))
	add("expires", formatMoment(r.Expires))
	if r.DecidedBy != "" {
		add("decided", formatMoment(r.Decided)+" by "+r.DecidedBy)
	}
	add("note", r.Note)
	writeColumns(w, rows...)
	if r.Kind == api.KindPlan {
		fmt.Fprintf(w, "\nall that the program writes, as it is sent:\n")
		writesOf(w, r.Writes, 0)
	} else {
		fmt.Fprintf(w, "\narguments, as they are sent:\n%s\n", tool.Visible(r.Arguments))
	}
	if len(r.Findings) > 0 {
		fmt.Fprintf(w, "\nlikely faults in the program:\n")
		for _, f := range r.Findings {
			fmt.Fprintf(w, "  %s\n", cleanLine(describeFinding(f)))
		}
	}
	if r.Program != "" {
		fmt.Fprintf(w, "\nthe program that asks:\n%s\n", stripControls(strings.TrimRight(r.Program, "\n")))
	}
}

// describeFinding returns a finding as one line.
func describeFinding(f api.ProgramFinding) string {
	if f.Line == 0 {
		return f.Rule + ": " + f.Message
	}
	return fmt.Sprintf("%s at line %d: %s", f.Rule, f.Line, f.Message)
}

// decideCommand returns a command that decides requests, or all pending requests of an execution.
func decideCommand(a *app, verb, what string, approve bool) *cobra.Command {
	var output, note string
	c := &cobra.Command{
		Use:   verb + " ID...",
		Short: what,
		Long: what +
			": each ID is a request, or an execution, which stands for all of its pending requests.",
		Example: "  biplane approvals " + verb + " apr_7k3v... apr_9x2m...\n  biplane approvals " + verb +
			" ex_2c9d... --note \"as agreed\"",
		Args:              atLeastOne("ID", "the id of a request or of an execution"),
		ValidArgsFunction: completer{a}.completeApprovals,
		RunE: func(cmd *cobra.Command, args []string) error {
			done := []api.Approval{}
			decide := func(ctx context.Context, client *api.Client) error {
				ids, err := requestIDs(ctx, client, args)
				if err != nil {
					return err
				}
				var errs []error
				for _, id := range ids {
					r, err := client.Approvals().Get(ctx, id)
					if err == nil {
						r, err = client.Approvals().Decide(ctx, id, api.Decision{Approve: approve, Digest: r.Digest,
							Note: note})
					}
					if err != nil {
						errs = append(errs, err)
						continue
					}
					done = append(done, *r)
				}
				err = a.printOutput(output, done, func(w io.Writer) {
					for _, r := range done {
						fmt.Fprintf(w, "%s: %s %s\n", r.ID, cleanLine(r.Tool), r.State)
					}
				})
				return errors.Join(append(errs, err)...)
			}
			return a.attachedUntil(cmd.Context(), true, nil, decide,
				func(ctx context.Context, client *api.Client) error {
					return a.describeDecisions(context.WithoutCancel(ctx), client, done)
				})
		},
	}
	addOutput(c, &output)
	c.Flags().StringVar(&note, "note", "", "a note for the record and the agent")
	return c
}

// describeDecisions reports the outcome of decided requests: the state of their executions. For an
// approved call that has not been made, it says how to make it.
func (a *app) describeDecisions(ctx context.Context, client *api.Client, decided []api.Approval) error {
	said := map[string]bool{}
	for _, r := range decided {
		if r.Execution == "" {
			if r.State == api.ApprovalApproved {
				fmt.Fprintf(a.Err, "%s: the call is made when the client that asked makes it again\n", r.ID)
			}
			continue
		}
		now, err := client.Approvals().Get(ctx, r.ID)
		if err != nil {
			return err
		}
		if now.State == api.ApprovalApproved {
			fmt.Fprintf(a.Err, "%s: approved, and not made yet. biplane serve, mcp or run makes the call when it "+
				"next runs; to have it made now: biplane executions watch %s\n", r.ID, r.Execution)
		}
		if said[r.Execution] {
			continue
		}
		said[r.Execution] = true
		d, err := client.Journal(ctx, r.Execution)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Err, executionLine(d))
	}
	return nil
}

// executionLine returns the state of an execution as one line.
func executionLine(d *api.ExecutionDetail) string {
	text := fmt.Sprintf("execution %s: %s", d.ID, d.State)
	if d.Problem != "" {
		text += ": " + shortenLine(d.Problem, 200)
	}
	return text + fmt.Sprintf(" (biplane executions show %s)", d.ID)
}

// requestIDs returns the requests that args name.
func requestIDs(ctx context.Context, client *api.Client, args []string) (ids []string, _ error) {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "ex_") {
			ids = append(ids, arg)
			continue
		}
		all, err := client.Approvals().ListFor(ctx, arg, false)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, &api.Error{Kind: api.NotFound, Message: "no call of execution " + arg + " waits for approval"}
		}
		for _, r := range all {
			ids = append(ids, r.ID)
		}
	}
	return ids, nil
}

// completeApprovals completes the id of a pending request.
func (a completer) completeApprovals(cmd *cobra.Command, args []string,
	prefix string) (out []string, _ cobra.ShellCompDirective) {
	a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
		all, err := client.Approvals().ListFor(ctx, "", false)
		for _, r := range all {
			if strings.HasPrefix(r.ID, prefix) {
				out = append(out, r.ID+"\t"+r.Tool)
			}
		}
		return err
	})
	return out, cobra.ShellCompDirectiveNoFileComp
}
