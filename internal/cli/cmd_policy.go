package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/tool"
)

func policyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Check, test and try out policies before they take effect",
		Long: `Policies define who may call which tools, and when a person must approve. They are written in Cedar, in
a folder named by the configuration (policy: ./policies). Three policies are built in: open, read-only
and ask-for-writes.`,
		Example: `  biplane policy show read-only > policies/base.cedar
  biplane policy check ./policies
  biplane policy explain github.create_issue '{"repo": "a/b"}'`,
		Args: noArguments,
		RunE: showHelp,
	}
	c.AddCommand(policyShowCommand(a), policyCheckCommand(a), policySchemaCommand(a), policyTestCommand(a),
		policyExplainCommand(a), policyReplayCommand(a))
	return c
}

func policyShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "show [NAME]",
		Short:   "Print a built-in policy, as a starting point; without a name, list them",
		Example: "  biplane policy show ask-for-writes > policies/base.cedar\n  biplane policy show -o json",
		Args:    atMost(1, "one NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			if name == "" {
				return a.printOutput(output, policy.Starters(), func(w io.Writer) {
					for _, n := range policy.Starters() {
						fmt.Fprintln(w, n)
					}
				})
			}
			f, ok := policy.Starter(name)
			if !ok {
				return tool.Errorf(tool.NotFound, "there is no starter policy %q: it is one of %s", text.Clip(name, 40),
					strings.Join(policy.Starters(), ", "))
			}
			return a.printOutput(output, api.PolicyFile{Name: f.Name, Text: string(f.Text)}, func(w io.Writer) {
				fmt.Fprintf(w, "%s", f.Text)
			})
		},
	}
	addOutput(c, &output)
	return c
}

// policyFiles reads the policies of a folder; nil if dir is empty.
func policyFiles(dir string) ([]api.PolicyFile, error) {
	if dir == "" {
		return nil, nil
	}
	files, err := config.ReadPolicies(dir)
	if err != nil {
		return nil, err
	}
	out := []api.PolicyFile{}
	for _, f := range files {
		out = append(out, api.PolicyFile{Name: f.Name, Text: string(f.Text)})
	}
	return out, nil
}

func policyCheckCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "check [DIR]",
		Short: "Report every error in policies: unknown names, types, tools and arguments",
		Long: `Checks the policies of a folder, or those in effect, against the known tools. It checks
the names and types of entities, actions and attributes, the names of tools and upstreams, and the names
and types of arguments.`,
		Example: "  biplane policy check\n  biplane policy check ./policies -o json",
		Args:    atMost(1, "one DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			}
			files, err := policyFiles(dir)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				r, err := client.Policies().Check(ctx, files)
				if err != nil {
					return err
				}
				if err := a.printOutput(output, r, func(w io.Writer) { showReport(w, r, dir) }); err != nil {
					return err
				}
				if len(r.Problems) > 0 {
					return failSilently(exitUsage)
				}
				return nil
			})
		},
	}
	addOutput(c, &output)
	return c
}

func showReport(w io.Writer, r *api.PolicyReport, dir string) {
	line := func(mark string, p api.PolicyProblem) {
		at := filepath.Join(dir, p.File)
		if p.Line > 0 {
			at += fmt.Sprintf(":%d:%d", p.Line, p.Column)
		}
		fmt.Fprintln(w, stripControls(at+": "+mark+p.Message))
	}
	for _, p := range r.Problems {
		line("", p)
	}
	for _, p := range r.Warnings {
		line("warning: ", p)
	}
	if len(r.Problems) == 0 {
		fmt.Fprintf(w, "%s, version %s, checked against %s: good\n",
			strings.Replace(text.Count(r.Policies, "policy"), "policys", "policies", 1), r.Version,
			text.Count(r.Tools, "tool"))
	}
}

func policySchemaCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the Cedar schema that policies can use here",
		Example: "  biplane policy schema > biplane.cedarschema",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				s, err := client.Policies().ReadSchema(ctx)
				if err == nil {
					fmt.Fprint(a.Out, stripControls(s))
				}
				return err
			})
		},
	}
}

func policyTestCommand(a *app) *cobra.Command {
	var output string
	var update bool
	c := &cobra.Command{
		Use:   "test DIR",
		Short: "Run the test cases of a folder: calls and their expected decisions",
		Long: `Runs the cases in DIR/*.txtar against the policies in DIR/*.cedar, without any upstream. A file of cases
is a txtar archive with tools.json, a list of tools, and cases:

  as ann in dev with client=claude/1.0
  call shop.refund {"id": 1, "amount": 20}
    ask writes [approvers]
  see shop.refund
    yes`,
		Example: "  biplane policy test ./policies\n  biplane policy test ./policies --update",
		Args:    exactlyOne("DIR", "the folder with policies and cases"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := config.Load(a.config, daemon.StrongestTier())
			if err != nil {
				return err
			}
			results, err := runCases(s, args[0], update)
			if err != nil {
				return err
			}
			failed := slices.ContainsFunc(results, func(r policy.CaseResult) bool { return !r.OK })
			if err := a.printOutput(output, results, func(w io.Writer) { showCases(w, results) }); err != nil {
				return err
			}
			if failed && !update {
				return failSilently(exitFailed)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&update, "update", false, "write the actual decisions into the files of cases")
	addOutput(c, &output)
	return c
}

func runCases(s *config.Config, dir string, update bool) ([]policy.CaseResult, error) {
	files, err := policyFiles(dir)
	if err != nil {
		return nil, err
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(names) == 0 {
		return nil, usageError("%s has no case file: write one, DIR/something.txtar (biplane policy test --help)", dir)
	}
	cfg := policy.Config{Rules: s.Tools, Tier: s.Sandbox.Tier, Strongest: s.Sandbox.Strongest}
	for _, f := range files {
		cfg.Files = append(cfg.Files, policy.File{Name: f.Name, Text: []byte(f.Text)})
	}
	all := []policy.CaseResult{}
	for _, name := range names {
		archive, err := os.ReadFile(name)
		if err != nil {
			return nil, usageError("%s", err)
		}
		results, now, err := policy.Cases(name, archive, cfg)
		if err != nil {
			return nil, err
		}
		if update {
			if err := os.WriteFile(name, now, 0o644); err != nil {
				return nil, &api.Error{Kind: api.Unavailable, Message: err.Error()}
			}
		}
		all = append(all, results...)
	}
	return all, nil
}

func showCases(w io.Writer, results []policy.CaseResult) {
	good := 0
	for _, r := range results {
		if r.OK {
			good++
			continue
		}
		want := r.Want
		if want == "" {
			want = "(nothing is said)"
		}
		fmt.Fprintln(w, stripControls(fmt.Sprintf("%s:%d: %s\n  wanted %s\n  got    %s", r.File, r.Line, r.Case,
			want, r.Got)))
	}
	fmt.Fprintf(w, "%d of %s passed\n", good, text.Count(len(results), "case"))
}

func policyExplainCommand(a *app) *cobra.Command {
	var output, dir, at string
	var q api.PolicyQuestion
	c := &cobra.Command{
		Use:   "explain TOOL [ARGUMENTS]",
		Short: "Decide on a call without making it, and show which policy decided and what would change that",
		Example: `  biplane policy explain github.create_issue '{"repo": "a/b", "title": "x"}'
  biplane policy explain shop.refund '{"id": 1, "amount": 20}' --as key:ci --group dev --policy ./policies
  biplane policy explain write '{"path": "workspace/data.csv"}'
  biplane policy explain mail.send --reveal email
  biplane policy explain biplane.fetch '{"url": "https://api.example.com/"}'`,
		Args: oneOrTwo("TOOL", "the path of a tool"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			q.Tool = args[0]
			if len(args) > 1 {
				q.Arguments = json.RawMessage(args[1])
				if !json.Valid(q.Arguments) {
					return usageError("the arguments are not JSON: %s", shortenLine(args[1], 60))
				}
			}
			if at != "" {
				if q.Time, err = time.Parse(time.RFC3339, at); err != nil {
					return usageError("--at %s is not a time such as 2026-03-02T22:15:00+01:00", shortenLine(at, 40))
				}
			}
			if q.Files, err = policyFiles(dir); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				x, err := client.Policies().Explain(ctx, q)
				if err != nil {
					return err
				}
				return a.printOutput(output, x, func(w io.Writer) { showAnswer(w, x) })
			})
		},
		ValidArgsFunction: completer{a}.completePaths,
	}
	f, p := c.Flags(), &q.Principal
	f.StringVar(&dir, "policy", "", "use the policies of this `folder` instead of those in effect")
	f.StringVar(&p.ID, "as", "", "`id` of the caller (default the local user)")
	f.StringSliceVar(&p.Groups, "group", nil, "a group of the caller")
	f.StringSliceVar(&p.Roles, "role", nil, "a role of the caller")
	f.StringSliceVar(&p.Scopes, "scope", nil, "a scope of the caller's key or token")
	f.StringVar(&p.Agent, "agent", "", "the agent that acts")
	f.StringVar(&p.Client, "client", "", "the client software, name/version")
	f.BoolVar(&q.Program, "program", false, "the call comes from inside a program")
	f.StringVar(&q.Upstream, "from", "",
		"the folder of tools, or the server in a sandbox, whose program makes the request (an `upstream`)")
	f.StringSliceVar(&q.Labels, "labels", nil, "labels of the data read before: confidential, pii, untrusted")
	f.StringSliceVar(&q.Reveal, "reveal", nil,
		"instead of the call, decide whether the tool may receive personal data of these `kinds` (email, card, ...)")
	f.StringVar(&at, "at", "", "the `time` of the call (RFC 3339; default now)")
	addOutput(c, &output)
	return c
}

// tracesShown is the maximum number of non-matching policies that are shown.
const tracesShown = 5

func showAnswer(w io.Writer, x *api.PolicyAnswer) {
	rows := [][]string{{"tool", x.Tool}, {"effect", x.Effect}, {"policy", x.Policy}, {"reason", x.Reason}}
	if len(x.Approvers) > 0 {
		rows = append(rows, []string{"approvers", strings.Join(x.Approvers, ", ")})
	}
	for _, l := range x.Limits {
		rows = append(rows, []string{"limit", l})
	}
	writeColumns(w, append(rows, []string{"shown", strconv.FormatBool(x.Shown)}, []string{"version", x.Version})...)
	if x.Change != "" {
		fmt.Fprintln(w, "\n"+stripControls(x.Change))
	}
	left := 0
	for i, t := range x.Policies {
		if i == 0 {
			fmt.Fprintln(w)
		}
		if !t.Holds && left == tracesShown {
			fmt.Fprintf(w, "and %d more that do not hold\n", len(x.Policies)-i)
			return
		}
		says := "holds"
		if !t.Holds {
			left++
			says = "does not hold: " + strings.Join(t.Missing, "; ")
		}
		fmt.Fprintln(w, stripControls(fmt.Sprintf("%s %s (%s:%d) %s", t.Effect, t.ID, t.File, t.Line, says)))
	}
}

func policyReplayCommand(a *app) *cobra.Command {
	var output, dir, since string
	c := &cobra.Command{
		Use:   "replay",
		Short: "Decide on recorded calls again, and show which decisions would change",
		Long: `Decides on each recorded call again, under the policies of a folder (or those in effect) and with
today's tools, and shows what would change. Calls without the arguments that a policy needs can't be
decided; they are counted.`,
		Example: "  biplane policy replay --since 7d --policy ./policies",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ago, err := pastDays(since)
			if err != nil {
				return err
			}
			files, err := policyFiles(dir)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				r, err := client.Policies().Replay(ctx, api.PolicyReplayRequest{Files: files,
					Since: time.Now().Add(-ago)})
				if err != nil {
					return err
				}
				return a.printOutput(output, r, func(w io.Writer) { showReplay(w, r) })
			})
		},
	}
	c.Flags().StringVar(&since, "since", "7d", "start of the period, like 7d or 12h ago")
	c.Flags().StringVar(&dir, "policy", "", "use the policies of this `folder` instead of those in effect")
	addOutput(c, &output)
	return c
}

// pastDays parses a duration like 7d or 12h.
func pastDays(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var days int
		if days, err = strconv.Atoi(n); err == nil && days > 36500 {
			err = errors.New("too long")
		}
		d = time.Duration(days) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return 0, usageError("--since %s is not a duration such as 7d or 12h", shortenLine(s, 40))
	}
	return d, nil
}

func showReplay(w io.Writer, r *api.PolicyReplay) {
	if len(r.Changed) > 0 {
		rows := [][]string{{"CALLS", "TOOL", "PRINCIPAL", "WAS", "WOULD BE", "POLICY", "REASON", "RECORD"}}
		for _, c := range r.Changed {
			rows = append(rows, []string{strconv.Itoa(c.Calls), c.Tool, c.Principal, c.From, c.To, c.Policy,
				shortenLine(c.Reason, 60), c.Record})
		}
		writeColumns(w, rows...)
		fmt.Fprintln(w)
	}
	changed, unknown := 0, 0
	for _, c := range r.Changed {
		changed += c.Calls
	}
	for _, u := range r.Undecided {
		unknown += u.Calls
		fmt.Fprintln(w, stripControls(fmt.Sprintf("%s undecided: %s (as %s)", text.Count(u.Calls, "call"),
			u.Reason, u.Record)))
	}
	fmt.Fprintf(w, "%s on record: %d would be decided differently, %d the same, %d undecided\n",
		text.Count(r.Calls, "call"), changed, r.Same, unknown)
	if r.More {
		fmt.Fprintln(w, "the record has more calls than were checked: use a shorter period")
	}
}
