package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// The values of the record's filters.
var (
	auditKinds = []string{"call", "execution", "session", "sign-in", "configuration", "policy", "key",
		"approval", "file", "tool", "read", "record"}
	auditOutcomes = []string{"ok", "error", "failed"}
	auditEffects  = []string{"allow", "ask", "deny"}
)

func auditCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Read, verify, prove and export the audit record",
		Long: `Every tool call, allowed or denied, is recorded before and after it is made. So is every execution,
sign-in, change of configuration, policy or keys, and read of the record itself. The record can only
grow. Its entries are the leaves of a Merkle tree with a signed head. "verify" finds entries that were
changed, removed or inserted later. "prove" and "verify --proof" prove offline that a single entry is in
the record.`,
		Example: `  biplane audit list --tool github.delete_repo --since 7d
  biplane audit show RECORD
  biplane audit verify
  biplane audit prove RECORD -o record.proof
  biplane audit verify --proof record.proof --key biplane.key
  biplane audit export --format ocsf --from 2026-10-01 --to 2026-11-01 -o october.jsonl
  biplane audit evidence --from 2026-07-01 --to 2026-10-01 evidence-q3`,
		Args: noArguments,
		RunE: showHelp,
	}
	c.AddCommand(auditListCommand(a), auditShowCommand(a), auditVerifyCommand(a), auditProveCommand(a),
		auditCheckpointCommand(a), auditKeyCommand(a),
		auditExportCommand(a), auditEvidenceCommand(a))
	return c
}

func auditListCommand(a *app) *cobra.Command {
	var output, since, until string
	q := api.AuditQuery{Limit: 50}
	c := &cobra.Command{
		Use:   "list",
		Short: "List records, newest first",
		Long: `Lists the records that match all filters, newest first. A time is a date such as 2026-10-01, a moment
such as "2026-10-01 15:04" (local time) or 2026-10-01T15:04:05+02:00, or a time before now such as 90m,
24h or 7d. This read of the record is recorded, too.

Each record is checked against the tree. A record that was changed, moved or removed is always listed,
with CHANGED as its outcome. The problem is reported on standard error, and the command exits with 1.`,
		Example: `  biplane audit list
  biplane audit list --tool github.delete_repo --since 7d
  biplane audit list --principal local:ann --outcome failed -o json
  biplane audit list --effect deny --since 24h
  biplane audit list --execution EXECUTION`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.Since, err = timeFlag("since", since, time.Local); err != nil {
				return err
			}
			if q.Until, err = timeFlag("until", until, time.Local); err != nil {
				return err
			}
			if err := oneOf("kind", q.Kind, auditKinds); err != nil {
				return err
			}
			if err := oneOf("outcome", q.Outcome, auditOutcomes); err != nil {
				return err
			}
			if err := oneOf("effect", q.Effect, auditEffects); err != nil {
				return err
			}
			if q.Limit < 1 || q.Limit > 1000 {
				return usageError("--limit is from 1 to 1000, not %d", q.Limit)
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.Audit().ListRecords(ctx, q)
				if err != nil {
					return err
				}
				if len(all) == q.Limit {
					defer fmt.Fprintf(a.Err, "biplane: there may be older ones: add --before %s\n", all[len(all)-1].ID)
				}
				if err := a.printOutput(output, all, func(w io.Writer) { tableOfRecords(w, all) }); err != nil {
					return err
				}
				return a.sayProblems(all...)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&q.Tool, "tool", "", "calls of the tool with exactly this `path`")
	f.StringVar(&q.Upstream, "upstream", "", "calls to this `upstream`, and sign-ins to it")
	f.StringVar(&q.Principal, "principal", "", "actions of this `principal`")
	f.StringVar(&q.Execution, "execution", "", "calls of this `execution`, and its end")
	f.StringVar(&q.Kind, "kind", "", "records of this `kind`: "+strings.Join(auditKinds, ", "))
	f.StringVar(&q.Outcome, "outcome", "",
		"`outcome`: ok, error (the tool reported a failure) or failed (denied, or not possible)")
	f.StringVar(&q.Effect, "effect", "", "the policy's `decision`: allow, ask (a person decides) or deny")
	f.StringVar(&since, "since", "", "from this `time` on")
	f.StringVar(&until, "until", "", "before this `time`")
	f.StringVar(&q.Before, "before", "", "only records older than this `record`: the next page")
	f.IntVar(&q.Limit, "limit", q.Limit, "at most `N`, up to 1000")
	completeWords(c, "kind", auditKinds...)
	completeWords(c, "outcome", auditOutcomes...)
	completeWords(c, "effect", auditEffects...)
	addOutput(c, &output)
	completer{a}.completeTool(c, "tool")
	return c
}

// sayProblems reports which records were changed. It returns a failure whose message has been
// printed if there are any.
func (a *app) sayProblems(all ...api.AuditRecord) (err error) {
	changed, absent := false, map[string]int{}
	for i := range all {
		r := &all[i]
		switch {
		case r.Absent != "":
			absent[r.Absent]++
			err = cmp.Or(err, failSilently(exitFailed))
		case r.Problem != "":
			changed = true
			fmt.Fprintf(a.Err, "biplane: record %s does not match what was recorded: %s\n", cleanLine(r.ID),
				cleanLine(r.Problem))
			err = failSilently(exitFailed)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(absent)) {
		fmt.Fprintf(a.Err, "biplane: %s archived in the segment %s, which is missing: put the file back into the "+
			"folder archive of the data folder\n", text.Count(absent[name], "record"), cleanLine(name))
	}
	if changed {
		fmt.Fprintln(a.Err, "biplane: run biplane audit verify, and keep a copy of the data folder; no calls are "+
			"made while the record is invalid")
	}
	return err
}

// oneOf returns an error if a flag's value is not one of the known ones.
func oneOf(flag, word string, known []string) error {
	if word == "" || slices.Contains(known, word) {
		return nil
	}
	return usageError("--%s %q is not one of %s", flag, word, strings.Join(known, ", "))
}

// completeTool sets the exact paths of tools as completions of a flag.
func (a completer) completeTool(c *cobra.Command, flag string) {
	err := c.RegisterFlagCompletionFunc(flag,
		func(cmd *cobra.Command, _ []string, prefix string) (out []string, _ cobra.ShellCompDirective) {
			a.forCompletion(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				all, err := client.Tools(ctx)
				for _, t := range all {
					if path := t.Upstream + "." + t.Name; strings.HasPrefix(path, prefix) {
						out = append(out, path)
					}
				}
				return err
			})
			return out, cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // unknown flag: a mistake in this package
	}
}

// timeForms lists the accepted layouts of a time.
var timeForms = []string{time.RFC3339, time.DateOnly, "2006-01-02 15:04", time.DateTime, "2006-01-02T15:04",
	"2006-01-02T15:04:05"}

// timeFlag parses a time: a date, a moment, or a duration before now. A date or moment without a
// zone is in zone.
func timeFlag(flag, text string, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range timeForms {
		if t, err := time.ParseInLocation(form, text, zone); err == nil {
			return t, nil
		}
	}
	ago := text
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			ago = strconv.FormatUint(24*n, 10) + "h"
		}
	}
	if d, err := time.ParseDuration(ago); err == nil && d >= 0 {
		return time.Now().Add(-d), nil
	}
	zoneName := "UTC"
	if zone == time.Local {
		zoneName = "local time"
	}
	return time.Time{}, usageError(
		"--%s %q is not a time: write it like 2026-10-01, \"2026-10-01 15:04\" (%s), 2026-10-01T15:04:05+02:00, or "+
			"like 24h or 7d ago",
		flag, text, zoneName)
}

func tableOfRecords(w io.Writer, all []api.AuditRecord) {
	if len(all) == 0 {
		fmt.Fprintln(w, "No records fit.")
		return
	}
	rows := [][]string{{"RECORD", "TIME", "KIND", "PRINCIPAL", "WHAT", "DECISION", "OUTCOME", "TOOK"}}
	for _, r := range all {
		outcome, took := r.Outcome, ""
		if r.ErrorKind != "" {
			outcome += ": " + r.ErrorKind
		}
		if r.Problem != "" {
			outcome = "CHANGED"
		}
		if r.Absent != "" {
			outcome = "ARCHIVED"
		}
		if !r.Ended.IsZero() {
			took = (time.Duration(r.Micros) * time.Microsecond).Round(100 * time.Microsecond).String()
		}
		rows = append(rows, []string{r.ID, formatMoment(r.Time), r.Kind, r.Principal,
			shortenLine(describeSubject(&r), 60), r.Effect, outcome, took})
	}
	writeColumns(w, rows...)
}

// describeSubject describes the subject of a record.
func describeSubject(r *api.AuditRecord) string {
	if r.Kind == "call" {
		if r.Execution != "" {
			return r.Tool + " (by " + r.Execution + ")"
		}
		return r.Tool
	}
	var parts []string
	for _, s := range []string{r.Detail["action"], r.Execution, r.Session, r.Upstream, r.Name, r.Tool, r.File} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

func auditShowCommand(a *app) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "show RECORD",
		Short: "Show a record, with the arguments and results that were kept",
		Long: `Shows all that is known of one record. Of arguments and results it shows what the configuration's
retention keeps (audit.arguments, audit.results, audit.keep); digests are always there. This read of the
record is recorded, too. A record that was changed is shown with its problem, without what was kept, and
the command exits with 1.`,
		Example: "  biplane audit show RECORD\n  biplane audit show RECORD -o json",
		Args:    exactlyOne("RECORD", "the id of a record, as audit list shows it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				r, err := client.Audit().ReadRecord(ctx, args[0])
				if err != nil {
					return err
				}
				if err := a.printOutput(output, r, func(w io.Writer) { showRecord(w, r) }); err != nil {
					return err
				}
				return a.sayProblems(*r)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	addOutput(c, &output)
	return c
}

func showRecord(w io.Writer, r *api.AuditRecord) {
	rows := [][]string{}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("PROBLEM", r.Problem)
	add("record", r.ID)
	add("kind", r.Kind)
	add("time", r.Time.UTC().Format(time.RFC3339Nano))
	add("principal", r.Principal)
	add("client", r.Client)
	add("tool", r.Tool)
	add("upstream", r.Upstream)
	add("execution", r.Execution)
	add("call", r.Call)
	add("session", r.Session)
	add("file", r.File)
	add("name", r.Name)
	if r.Effect != "" {
		add("decision", r.Effect+" by policy "+r.Policy+": "+r.Reason)
	}
	outcome := r.Outcome
	if r.ErrorKind != "" {
		outcome += ": " + r.ErrorKind
	}
	add("outcome", outcome)
	if !r.Ended.IsZero() {
		add("ended", r.Ended.UTC().Format(time.RFC3339Nano)+", after "+
			(time.Duration(r.Micros)*time.Microsecond).String())
	}
	for _, k := range slices.Sorted(maps.Keys(r.Detail)) {
		add(k, r.Detail[k])
	}
	for _, p := range []struct {
		name string
		of   *api.AuditPayload
	}{{"arguments", r.Arguments}, {"result", r.Result}, {"error", r.Error}} {
		if p.of != nil {
			add(p.name, bytesText(p.of.Size)+", "+p.of.Digest)
		}
	}
	for _, l := range r.Leaves {
		add("leaf "+strconv.FormatInt(l.Seq, 10), leafPart(l.Leaf))
	}
	writeColumns(w, rows...)
	showKept(w, "arguments", r.Arguments)
	showKept(w, "result", r.Result)
	showKept(w, "error", r.Error)
}

// leafPart returns which part of a record a leaf is.
func leafPart(leaf string) string {
	var v struct {
		Part string `json:"part"`
	}
	if json.Unmarshal([]byte(leaf), &v) != nil {
		return "not readable"
	}
	return v.Part
}

func showKept(w io.Writer, name string, p *api.AuditPayload) {
	switch {
	case p == nil:
	case p.Gone:
		fmt.Fprintf(w, "\n%s: was stored and is missing (biplane audit verify reports it unless retention deleted it)\n", name)
	case p.Text != "" && p.Whole:
		fmt.Fprintf(w, "\n%s:\n%s\n", name, stripControls(p.Text))
	case p.Text != "":
		fmt.Fprintf(w, "\n%s, shortened or redacted:\n%s\n", name, stripControls(p.Text))
	}
}
