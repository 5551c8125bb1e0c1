package console

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Limits of the pages of the record, usage and policy.
const (
	listedRecords = 100
	matrixTools   = 40
	maxUsageLines = 1000
	maxPolicyText = 64 << 10 // of a question's arguments
)

type recordList struct {
	State    *api.AuditState
	Query    url.Values // the filter
	Records  []api.AuditRecord
	Next     string
	StateBad string
	Report   *api.AuditReport
}

// auditFilters are the fields by which records can be selected.
var auditFilters = []string{"kind", "principal", "tool", "upstream", "execution", "outcome", "effect"}

// listRecords shows a page of the audit record.
func listRecords(v *visit) error {
	q := v.r.URL.Query()
	f := api.AuditQuery{Kind: q.Get("kind"), Principal: q.Get("principal"), Tool: q.Get("tool"),
		Upstream: q.Get("upstream"), Execution: q.Get("execution"), Outcome: q.Get("outcome"), Effect: q.Get("effect"),
		Before: q.Get("before"), Limit: listedRecords}
	for name, to := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if text := q.Get(name); text != "" {
			day, err := time.Parse(time.DateOnly, text)
			if err != nil {
				return tool.Errorf(tool.Invalid, "%s must be a date such as 2026-01-31", name)
			}
			*to = day
		}
	}
	c := v.newClient()
	all, err := c.Audit().ListRecords(v.r.Context(), f)
	if err != nil {
		return ownError(err)
	}
	d := &recordList{Query: q, Records: all}
	if len(all) == listedRecords {
		next := url.Values{"before": {all[len(all)-1].ID}}
		for _, name := range append([]string{"since", "until"}, auditFilters...) {
			if q.Get(name) != "" {
				next.Set(name, q.Get(name))
			}
		}
		d.Next = "/audit?" + next.Encode()
	}
	d.State, err = c.Audit().ReadState(v.r.Context())
	d.StateBad = problemOf(err)
	v.renderPage(http.StatusOK, "audit.html", d)
	return nil
}

type recordData struct {
	*api.AuditRecord
	Sent, Answer, Failure *tree
}

// showRecord shows one record.
func showRecord(v *visit) error {
	r, err := v.newClient().Audit().ReadRecord(v.r.Context(), v.r.PathValue("record"))
	if err != nil {
		return ownError(err)
	}
	v.renderPage(http.StatusOK, "record.html",
		recordData{r, payloadTree(r.Arguments), payloadTree(r.Result), payloadTree(r.Error)})
	return nil
}

func payloadTree(p *api.AuditPayload) *tree {
	if p == nil {
		return nil
	}
	return newTree(json.RawMessage(p.Text))
}

// verifyRecord verifies the whole record, and shows the result.
func verifyRecord(v *visit) error {
	report, err := v.newClient().Audit().Verify(v.r.Context())
	if err != nil {
		return ownError(err)
	}
	v.renderPage(http.StatusOK, "verify.html", report)
	return nil
}

// exportRecord answers with the records of some days, as CSV or, with format=ocsf, as JSON lines in
// the Open Cybersecurity Schema Framework.
func exportRecord(v *visit) error {
	q := v.r.URL.Query()
	until := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	from := until.AddDate(0, 0, -31)
	for name, to := range map[string]*time.Time{"since": &from, "until": &until} {
		if text := q.Get(name); text != "" {
			day, err := time.Parse(time.DateOnly, text)
			if err != nil {
				return tool.Errorf(tool.Invalid, "%s must be a date such as 2026-01-31", name)
			}
			*to = day
		}
	}
	format, name := "csv", "audit.csv"
	if q.Get("format") == "ocsf" {
		format, name = "ocsf", "audit.ocsf.jsonl"
	}
	return v.passOn("/audit/export", url.Values{"format": {format}, "since": {from.Format(time.RFC3339)},
		"until": {until.Format(time.RFC3339)}}, name)
}

type usageData struct {
	*api.Usage
	Groups     []string
	By, Days   string
	Rows       []usageRow
	More       int
	Daily      *chart
	DailySaved *chart
	Unused     []idleUpstream
	UnusedBad  string
}

// A usageRow is a line of usage with the length of its bar.
type usageRow struct {
	api.UsageLine
	Name  string
	Width int // in thousandths of the largest
}

var usageGroups = []string{"principal", "person", "agent", "client", "upstream", "tool", "day", "month"}

// usageOf reads the usage that a query asks for.
func usageOf(v *visit) (*usageData, error) {
	q := v.r.URL.Query()
	d := &usageData{Groups: usageGroups, By: cmp.Or(q.Get("by"), "tool"), Days: cmp.Or(q.Get("days"), "30")}
	if !slices.Contains(usageGroups, d.By) {
		return nil, tool.Errorf(tool.Invalid, "usage can be grouped by %s", strings.Join(usageGroups, ", "))
	}
	days := parseNumber(d.Days, 0)
	if days < 1 || days > 366 {
		return nil, tool.Errorf(tool.Invalid, "days must be a number from 1 to 366")
	}
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-days)
	u, err := v.newClient().Usage(v.r.Context(), api.UsageQuery{From: from, By: []string{d.By}})
	if err != nil {
		return nil, ownError(err)
	}
	d.Usage = u
	return d, nil
}

// showUsage shows usage as a table and charts, or as CSV with format=csv.
func showUsage(v *visit) error {
	d, err := usageOf(v)
	if err != nil {
		return err
	}
	if v.r.URL.Query().Get("format") == "csv" {
		return writeUsage(v, d)
	}
	lines := d.Lines
	if len(lines) > maxUsageLines {
		lines, d.More = lines[:maxUsageLines], len(lines)-maxUsageLines
	}
	most := int64(1)
	for i := range lines {
		most = max(most, lines[i].Calls)
	}
	for i := range lines {
		d.Rows = append(d.Rows, usageRow{lines[i], lines[i].Value(d.By), int(lines[i].Calls * 1000 / most)})
	}
	c := v.newClient()
	from := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1-chartDays)
	daily, err := c.Usage(v.r.Context(), api.UsageQuery{From: from, By: []string{"day"}})
	if err != nil {
		return ownError(err)
	}
	d.Daily = newChart("Calls", dailyPoints(daily, from, func(l *api.UsageLine) int64 { return l.Calls }))
	d.DailySaved = newChart("Tokens saved", dailyPoints(daily, from, func(l *api.UsageLine) int64 { return l.Saved }))
	if d.By == "tool" {
		d.Unused, err = listIdle(v.r.Context(), c, d.Lines)
		d.UnusedBad = problemOf(err)
	}
	v.renderPage(http.StatusOK, "usage.html", d)
	return nil
}

// writeUsage answers with lines of usage as CSV. Values that a spreadsheet would run as a formula
// begin with an apostrophe.
func writeUsage(v *visit, d *usageData) error {
	v.w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	v.w.Header().Set("Content-Disposition", `attachment; filename="usage.csv"`)
	w := csv.NewWriter(v.w)
	_ = w.Write([]string{d.By, "calls", "failed", "denied", "ms", "sent", "received", "executions", "cpu_ms", "read",
		"written", "kept_out", "unwritten", "saved"}) // Flush reports errors
	for i := range d.Lines {
		l := &d.Lines[i]
		name := l.Value(d.By)
		if name != "" && strings.ContainsRune("=+-@\t\r", rune(name[0])) {
			name = "'" + name
		}
		row := []string{name}
		for _, n := range []int64{l.Calls, l.Failed, l.Denied, l.MS, l.Sent, l.Received, l.Executions, l.CPUMS, l.Read,
			l.Written, l.KeptOut, l.Unwritten, l.Saved} {
			row = append(row, fmt.Sprint(n))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return nil // an error means that the browser has gone
}

type policyData struct {
	Report   *api.PolicyReport
	Question api.PolicyQuestion
	Text     string // the question's arguments
	Role     string
	Answer   *api.PolicyAnswer
	Roles    []string
	Matrix   []matrixRow
	Next     string
	Names    []string
	MayEdit  bool
}

// A matrixRow says who may call a tool.
type matrixRow struct {
	Tool    string
	Effects []string // by role
}

// matrixRoles are the callers in the access matrix.
var matrixRoles = []string{"user", "approver", "auditor", "admin"}

// showPolicy shows the policies in force, the access matrix of some tools and, for a question, the
// decision on a call.
func showPolicy(v *visit) error {
	c, ctx, q := v.newClient(), v.r.Context(), v.r.URL.Query()
	report, err := c.Policies().Check(ctx, nil)
	if err != nil {
		return ownError(err)
	}
	d := &policyData{Report: report, Roles: matrixRoles, Role: cmp.Or(q.Get("role"), "user"), Text: q.Get("arguments"),
		MayEdit: v.mayUse(editPolicyRoute)}
	if path := q.Get("tool"); path != "" {
		if len(d.Text) > maxPolicyText {
			return tool.Errorf(tool.Limit, "the arguments are larger than %d KiB", maxPolicyText>>10)
		}
		if d.Text != "" && !json.Valid([]byte(d.Text)) {
			return tool.Errorf(tool.Invalid, "the arguments are not valid JSON")
		}
		d.Question = api.PolicyQuestion{Tool: path, Arguments: json.RawMessage(d.Text),
			Program:   q.Get("program") == "true",
			Principal: api.PolicyPrincipal{ID: q.Get("principal"), Roles: []string{d.Role}}}
		if d.Question.Principal.ID == "" {
			d.Question.Principal.ID = exampleID
		}
		if d.Answer, err = c.Policies().Explain(ctx, d.Question); err != nil {
			return ownError(err)
		}
	}
	if err := addMatrix(v, d); err != nil {
		return err
	}
	v.renderPage(http.StatusOK, "policy.html", d)
	return nil
}

// exampleID is the id of the caller in the access matrix, whom no policy names.
const exampleID = "key:example"

// addMatrix adds the effects for a page of tools.
func addMatrix(v *visit, d *policyData) error {
	c, ctx := v.newClient(), v.r.Context()
	tools, err := c.Tools(ctx)
	if err != nil {
		return ownError(err)
	}
	for _, t := range tools[:min(len(tools), shownTools)] {
		d.Names = append(d.Names, t.Path)
	}
	from := min(parseNumber(v.r.URL.Query().Get("from"), 0), len(tools))
	to := min(from+matrixTools, len(tools))
	if to < len(tools) {
		d.Next = fmt.Sprintf("/policy?from=%d", to)
	}
	for _, t := range tools[from:to] {
		row := matrixRow{Tool: t.Path}
		for _, role := range matrixRoles {
			a, err := c.Policies().Explain(ctx, api.PolicyQuestion{Tool: t.Path, Program: true,
				Principal: api.PolicyPrincipal{ID: exampleID, Roles: []string{role}}})
			if err != nil {
				return ownError(err)
			}
			row.Effects = append(row.Effects, a.Effect)
		}
		d.Matrix = append(d.Matrix, row)
	}
	return nil
}
