package cli

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
)

// usageBy lists the groupings of usage.
var usageBy = []string{"principal", "person", "agent", "client", "upstream", "tool", "hour", "day", "month"}

func usageCommand(a *app) *cobra.Command {
	var output, since, from, to string
	var by []string
	c := &cobra.Command{
		Use:   "usage",
		Short: "Show and export usage and savings, in tokens and money",
		Long: `Shows calls, executions, CPU time, bytes and tokens, by principal or by another grouping. Tokens are
counted with o200k_base, which is an estimate for other models. "Kept out" counts tokens of results that
stayed inside programs, and of arguments that programs wrote. "Saved" is that number less the tokens of
execute, resume and search. Money needs prices in the configuration. You see your own usage. Auditors,
admins and the local user of the machine see everyone's.`,
		Example: `  biplane usage
  biplane usage --since 7d --by upstream,tool
  biplane usage --from 2026-03-01 --to 2026-04-01 --by principal,agent -o csv > march.csv
  biplane usage --since 90d --by month -o json`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all := append(slices.Clone(outputs), "csv"); !slices.Contains(all, output) {
				return usageError("output %q is not one of %s", output, strings.Join(all, ", "))
			}
			q := api.UsageQuery{By: by}
			var err error
			if q.From, q.To, err = usagePeriod(since, from, to, time.Now()); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				u, err := client.Usage(ctx, q)
				if err != nil {
					return err
				}
				if output == "csv" {
					return usageCSV(a.Out, u)
				}
				return a.printOutput(output, u, func(w io.Writer) { usageTable(w, u) })
			})
		},
	}
	f := c.Flags()
	f.StringVar(&since, "since", "", "start of the period, like 7d or 12h ago (default 30d)")
	f.StringVar(&from, "from", "", "from this `day` on (UTC), like 2026-03-01, or a time (RFC 3339)")
	f.StringVar(&to, "to", "", "before this `day` (default now)")
	f.StringSliceVar(&by, "by", []string{"principal"}, "group by "+strings.Join(usageBy, ", ")+"; several with commas")
	completeWords(c, "by", usageBy...)
	f.StringVarP(&output, "output", "o", "table", "table, json, yaml or csv")
	completeWords(c, "output", append(slices.Clone(outputs), "csv")...)
	return c
}

// usagePeriod parses --since, or --from and --to.
func usagePeriod(since, from, to string, now time.Time) (a, b time.Time, err error) {
	if since != "" && from != "" {
		return a, b, usageError("give --since or --from, not both")
	}
	b = now
	if to != "" {
		if b, err = usageTime("--to", to); err != nil {
			return a, b, err
		}
	}
	if from != "" {
		a, err = usageTime("--from", from)
		return a, b, err
	}
	if since == "" {
		since = "30d"
	}
	ago, err := pastDays(since)
	if err != nil {
		return a, b, err
	}
	return now.Add(-ago), b, nil
}

func usageTime(flag, s string) (time.Time, error) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, usageError("%s %s is neither a day such as 2026-03-01 nor a time such as 2026-03-01T12:00:00Z",
		flag, shortenLine(s, 40))
}

func usageTable(w io.Writer, u *api.Usage) {
	head := []string{}
	for _, by := range u.By {
		head = append(head, strings.ToUpper(by))
	}
	head = append(head, "CALLS", "FAILED", "PROGRAMS", "CPU", "SENT", "READ", "WRITTEN", "KEPT OUT", "SAVED")
	if u.Currency != "" {
		head = append(head, "COST "+u.Currency, "SAVED "+u.Currency)
	}
	rows := [][]string{head}
	row := func(of []string, l *api.UsageLine) {
		cells := append(of, text.Group(l.Calls), text.Group(l.Failed), text.Group(l.Executions),
			cpuText(l.CPUMS), bytesText(l.Sent),
			text.Group(l.Read), text.Group(l.Written), text.Group(l.KeptOut+l.Unwritten), text.Group(l.Saved))
		if l.Cost != nil && l.SavedCost != nil {
			cells = append(cells, moneyText(*l.Cost), moneyText(*l.SavedCost))
		}
		rows = append(rows, cells)
	}
	for i := range u.Lines {
		of := []string{}
		for _, by := range u.By {
			v := shortenLine(u.Lines[i].Value(by), 60)
			if v == "" {
				v = "-"
			}
			of = append(of, v)
		}
		row(of, &u.Lines[i])
	}
	total := make([]string, len(u.By))
	total[0] = "total"
	row(total, &u.Total)
	writeColumns(w, rows...)
	fmt.Fprintln(w, "\n"+usageNote(u))
}

// usageNote explains the figures and their limits.
func usageNote(u *api.Usage) string {
	s := fmt.Sprintf("From %s to %s (UTC).", u.From.UTC().Format("2006-01-02 15:04"),
		u.To.UTC().Format("2006-01-02 15:04"))
	if u.Own {
		s += " Your own usage only."
	}
	s += "\nRead, written, kept out and saved are tokens, as o200k_base counts them: an estimate for other models."
	t := u.Total
	if all := t.Read + t.Written + t.KeptOut + t.Unwritten; t.Estimated > 0 && all > 0 {
		s += fmt.Sprintf(" %.1f %% of them come from samples.", 100*float64(t.Estimated)/float64(all))
	}
	if u.Currency == "" {
		s += "\nFor money, name prices in the configuration."
	}
	return s
}

func cpuText(ms int64) string {
	if ms < 10_000 {
		return strconv.FormatInt(ms, 10) + " ms"
	}
	return text.Group(ms/1000) + " s"
}

func moneyText(v float64) string {
	if v != 0 && v < 1 && v > -1 {
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// usageCSV writes the usage as CSV (RFC 4180). It omits the total, which would double the sums of a
// spreadsheet.
func usageCSV(w io.Writer, u *api.Usage) error {
	c := csv.NewWriter(w)
	c.UseCRLF = true
	head := append([]string{"from", "to"}, u.By...)
	head = append(head, "calls", "failed", "denied", "ms", "sent_bytes", "received_bytes", "executions", "cpu_ms",
		"tokens_read", "tokens_written", "tokens_kept_out", "tokens_unwritten", "tokens_estimated", "tokens_saved",
		"currency", "cost", "saved_cost")
	if err := c.Write(head); err != nil {
		return err
	}
	for i := range u.Lines {
		l := &u.Lines[i]
		row := []string{u.From.UTC().Format(time.RFC3339), u.To.UTC().Format(time.RFC3339)}
		for _, by := range u.By {
			row = append(row, escapeCell(cleanLine(l.Value(by))))
		}
		for _, n := range []int64{l.Calls, l.Failed, l.Denied, l.MS, l.Sent, l.Received, l.Executions, l.CPUMS,
			l.Read, l.Written, l.KeptOut, l.Unwritten, l.Estimated, l.Saved} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		row = append(row, u.Currency)
		for _, v := range []*float64{l.Cost, l.SavedCost} {
			cell := ""
			if v != nil {
				cell = strconv.FormatFloat(*v, 'f', 6, 64)
			}
			row = append(row, cell)
		}
		if err := c.Write(row); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// escapeCell protects against CSV injection (OWASP). It puts a ' before a cell that a spreadsheet
// would take for a formula, even after spaces.
func escapeCell(cell string) string {
	if t := strings.TrimSpace(cell); t != "" && slices.Contains([]rune("=+-@|%＝＋－＠"), []rune(t)[0]) {
		return "'" + cell
	}
	return cell
}
