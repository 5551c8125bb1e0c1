// Package usage counts calls, executions, CPU time, bytes and tokens, by principal and tool and
// hour, so that usage can be shown, priced and charged.
//
// A Meter sits in the gateway, through which every call passes. There it only adds up counts and
// queues texts. Tokens are counted in the background, and counts are written every few seconds. So
// a process that is killed loses only the counts of its last few seconds.
//
// The counts are not what a model was billed for: a model reads its whole context again for every
// answer.
package usage

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Subject identifies who used something. Its fields are copied from a tool.Principal.
type Subject struct {
	Principal string `json:"principal"`
	Person    string `json:"person,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Client    string `json:"client,omitempty"`
}

// A Key identifies what is counted separately.
type Key struct {
	Subject
	Upstream string // "unknown" for a call of an unknown tool
	Tool     string // name at the upstream
}

// Counts are amounts of use.
type Counts struct {
	Calls      int64 // calls in the gateway, whatever their outcome
	Failed     int64 // calls that failed, by the tool's report or otherwise, or were not made
	Denied     int64 // calls that policy or a person denied
	MS         int64 // duration in the gateway, including waiting for people
	Sent       int64 // bytes of arguments that were sent to upstreams and hosts
	Received   int64 // bytes of results
	Executions int64 // programs that ended
	CPU        int64 // µs of CPU time of programs

	// Tokens. No model wrote the arguments or read the results of calls made by programs.
	Read      int64 // tokens of results returned to a model
	Written   int64 // tokens of arguments, including programs, written by a model
	Kept      int64 // tokens of results that stayed inside programs
	Unwritten int64 // tokens of arguments written by programs, for calls that were made
	Estimated int64 // how many of all these tokens are estimated from the size in bytes
}

// countFields returns pointers to the counts, in the order of Columns.
func (c *Counts) countFields() []*int64 {
	return []*int64{&c.Calls, &c.Failed, &c.Denied, &c.MS, &c.Sent, &c.Received, &c.Executions, &c.CPU, &c.Read,
		&c.Written, &c.Kept, &c.Unwritten, &c.Estimated}
}

// Columns returns the names of the counts, in the order of Values and Scan.
func Columns() []string {
	return []string{"calls", "failed", "denied", "ms", "sent", "received", "executions", "cpu", "read", "written",
		"kept", "unwritten", "estimated"}
}

// Values returns the counts, in the order of Columns.
func (c Counts) Values() []any {
	var out []any
	for _, f := range c.countFields() {
		out = append(out, *f)
	}
	return out
}

// Scan returns pointers to the counts, in the order of Columns.
func (c *Counts) Scan() []any {
	var out []any
	for _, f := range c.countFields() {
		out = append(out, f)
	}
	return out
}

// Add adds d to c.
func (c *Counts) Add(d Counts) {
	to := c.countFields()
	for i, f := range d.countFields() {
		*to[i] += *f
	}
}

// A Row holds the use of something in an hour or a day.
type Row struct {
	Key
	Start time.Time // UTC, the start of the hour or day
	Counts
}

// A Selection selects rows of a Store.
type Selection struct {
	From, To time.Time // From is inclusive, To exclusive; rows merged into days count at the start of the day
	// Attributes to group by, in addition to the subject and the upstream. The others are left
	// empty, and their rows are summed.
	Tools, Days, Hours bool
}

// A Store keeps rows. It is safe for concurrent use.
type Store interface {
	// Add adds hourly rows to the stored ones of the same hour and key, atomically. It doesn't wait
	// for the disk.
	Add(ctx context.Context, rows []Row) error
	// Sum calls f with the stored rows, summed up according to the selection. It returns f's error.
	Sum(ctx context.Context, s Selection, f func(Row) error) error
	// Compact merges hourly rows before hours into daily ones, and deletes rows before drop. Both
	// are starts of days.
	Compact(ctx context.Context, hours, drop time.Time) error
}

// Dimensions returns the dimensions of reports.
func Dimensions() []string {
	return []string{"principal", "person", "agent", "client", "upstream", "tool", "hour", "day", "month"}
}

// A Query asks for a Report.
type Query struct {
	From, To  time.Time
	By        []string // some of Dimensions; empty: principal
	Principal string   // only the usage of this principal; empty: all
}

// Check returns an error if the query is invalid.
func (q *Query) Check() error {
	if !q.From.Before(q.To) {
		return tool.Errorf(tool.Invalid, "invalid time range from %s to %s: it must begin before it ends",
			q.From.UTC().Format(time.RFC3339), q.To.UTC().Format(time.RFC3339))
	}
	for i, by := range q.By {
		if !slices.Contains(Dimensions(), by) {
			return tool.Errorf(tool.Invalid, "usage can't be grouped by %q: use %s", text.Clip(by, 60),
				strings.Join(Dimensions(), ", "))
		}
		if slices.Contains(q.By[:i], by) {
			return tool.Errorf(tool.Invalid, "usage by %s twice: name each grouping once", by)
		}
	}
	return nil
}

// MaxLines is the maximum number of lines of a report.
const MaxLines = 10_000

// A Report holds use summed up by the requested dimensions.
type Report struct {
	From, To time.Time
	By       []string
	Prices   *Prices // nil: no costs
	Lines    []Line
	Total    Line
}

// A Line is a line of a Report.
type Line struct {
	Of []string // values of Report.By
	Counts
	Saved      int64   // tokens; see Counts.saved
	Cost       float64 // cost of what the model read and wrote, in the currency of the prices
	SavedMoney float64
}

// addRow adds a row at a price.
func (l *Line) addRow(r *Row, p Price) {
	l.Counts.Add(r.Counts)
	in, out := r.savedTokens(r.Upstream)
	l.Saved += in + out
	l.Cost += p.priceOf(r.Read, r.Written)
	l.SavedMoney += p.priceOf(in, out)
}

// savedTokens returns how many tokens a model did not have to read and write, compared with a model
// that makes all calls itself. That model would read the results that stayed inside programs, and
// write the arguments that programs wrote. It would not read and write for Biplane's own tools. The
// numbers can be negative.
func (c *Counts) savedTokens(upstream string) (read, written int64) {
	if upstream == tool.Own {
		return c.Kept - c.Read, c.Unwritten - c.Written
	}
	return c.Kept, c.Unwritten
}

// sumReport sums up the rows of a store.
func sumReport(ctx context.Context, s Store, prices *Prices, q Query) (*Report, error) {
	if len(q.By) == 0 {
		q.By = []string{"principal"}
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	out := &Report{From: q.From, To: q.To, By: q.By, Prices: prices, Lines: []Line{}}
	lines := map[string]*Line{}
	sel := Selection{From: q.From, To: q.To, Tools: slices.Contains(q.By, "tool"), Hours: slices.Contains(q.By, "hour"),
		Days: slices.Contains(q.By, "day") || slices.Contains(q.By, "month")}
	err := s.Sum(ctx, sel, func(r Row) error {
		if q.Principal != "" && r.Principal != shortFact(q.Principal) {
			return nil
		}
		of := make([]string, len(q.By))
		for i, by := range q.By {
			of[i] = r.dimensionValue(by)
		}
		key := fmt.Sprintf("%q", of)
		l := lines[key]
		if l == nil {
			if len(lines) == MaxLines {
				return tool.Errorf(tool.Limit,
					"usage by %v has more than %d lines: choose a shorter time or fewer groupings", q.By, MaxLines)
			}
			l = &Line{Of: of}
			lines[key] = l
		}
		price := prices.findPrice(r.Subject)
		l.addRow(&r, price)
		out.Total.addRow(&r, price)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		out.Lines = append(out.Lines, *l)
	}
	slices.SortFunc(out.Lines, func(a, b Line) int { return slices.Compare(a.Of, b.Of) })
	return out, nil
}

// dimensionValue returns the value of a row for one of the Dimensions.
func (r *Row) dimensionValue(by string) string {
	switch by {
	case "person":
		return r.Person
	case "agent":
		return r.Agent
	case "client":
		return r.Client
	case "upstream":
		return r.Upstream
	case "tool":
		if r.Tool == "" {
			return r.Upstream
		}
		return r.Upstream + "." + r.Tool
	case "hour":
		return r.Start.UTC().Format("2006-01-02T15:00Z")
	case "day":
		return r.Start.UTC().Format(time.DateOnly)
	case "month":
		return r.Start.UTC().Format("2006-01")
	}
	return r.Principal
}
