// Package usage counts what is used: calls, executions, CPU time, bytes and tokens, by who and of which tool, hour by hour,
// so that it can be shown, priced and charged for.
//
// A Meter stands at the door, where every call passes. There it adds up and notes what is to be counted, and no more: tokens are
// counted beside the calls, and what was added up is written every few seconds. So a process that is killed loses
// what it counted in the last few seconds, and nothing of what was written.
//
// The figures are those of what passed, not of what a model was billed for: a model reads its context again with every answer.
package usage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/prose"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Who is on whose behalf something was used; the facts are those of a tool.Principal.
type Who struct {
	Principal string `json:"principal"`
	Person    string `json:"person,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Client    string `json:"client,omitempty"`
}

// A Key is what is counted apart.
type Key struct {
	Who
	Upstream string // "unknown" where a call named no tool
	Tool     string // at the upstream
}

// Counts are what was used.
type Counts struct {
	Calls      int64 // at the door, whatever came of them
	Failed     int64 // of those, that ended with an error, the tool's own included, or were not made
	Denied     int64 // of those, that policy or a person denied
	MS         int64 // from the door and back, waiting for people included
	Sent       int64 // bytes of arguments that were sent to upstreams and hosts
	Received   int64 // bytes of results
	Executions int64 // programs that ended
	CPU        int64 // µs of CPU time of programs

	// Tokens. What a program's calls were sent and gave, no model wrote or read.
	Read      int64 // of results that a model was given
	Written   int64 // of arguments, programs among them, that a model wrote
	Kept      int64 // of results that stayed inside programs
	Unwritten int64 // of arguments that programs wrote, of calls that were made
	Estimated int64 // how many of all these were not counted, but come from the tokens in a byte of what was
}

// fields are the counts, in the order in which stores have them.
func (c *Counts) fields() []*int64 {
	return []*int64{&c.Calls, &c.Failed, &c.Denied, &c.MS, &c.Sent, &c.Received, &c.Executions, &c.CPU, &c.Read, &c.Written, &c.Kept, &c.Unwritten, &c.Estimated}
}

// Columns name the counts, in the order of Values and Scan.
func Columns() []string {
	return []string{"calls", "failed", "denied", "ms", "sent", "received", "executions", "cpu", "read", "written", "kept", "unwritten", "estimated"}
}

// Values are the counts, in the order of Columns.
func (c Counts) Values() []any {
	var out []any
	for _, f := range c.fields() {
		out = append(out, *f)
	}
	return out
}

// Scan gives where to put the counts, in the order of Columns.
func (c *Counts) Scan() []any {
	var out []any
	for _, f := range c.fields() {
		out = append(out, f)
	}
	return out
}

// Add adds d to c.
func (c *Counts) Add(d Counts) {
	to := c.fields()
	for i, f := range d.fields() {
		*to[i] += *f
	}
}

// A Row is what was used of something in an hour, or in a day.
type Row struct {
	Key
	Start time.Time // UTC, the beginning of the hour or day
	Counts
}

// A Selection is what a Store is asked for.
type Selection struct {
	From, To time.Time // from From on, before To: days that were compacted count where they begin
	// What is told apart besides the Who and the upstream; else it is added up, and left empty.
	Tools, Days, Hours bool
}

// A Store keeps rows. It is safe for concurrent use.
type Store interface {
	// Add adds rows of hours to what is kept of the same hour and key: all or none. It doesn't wait for the disk.
	Add(ctx context.Context, rows []Row) error
	// Sum calls f with what is kept, added up as far as the selection says. An error of f is given back.
	Sum(ctx context.Context, s Selection, f func(Row) error) error
	// Compact makes days of hours before one moment, and throws away what is before another: both are beginnings of days.
	Compact(ctx context.Context, hours, drop time.Time) error
}

// Dimensions are what a report may be by.
func Dimensions() []string {
	return []string{"principal", "person", "agent", "client", "upstream", "tool", "hour", "day", "month"}
}

// A Query asks for a Report.
type Query struct {
	From, To  time.Time
	By        []string // some of Dimensions; none: principal
	Principal string   // whose usage; empty: everybody's
}

// Check reports why a query makes no sense.
func (q *Query) Check() error {
	if !q.From.Before(q.To) {
		return tool.Errorf(tool.Invalid, "usage from %s to %s is no time: it must begin before it ends", q.From.UTC().Format(time.RFC3339), q.To.UTC().Format(time.RFC3339))
	}
	for i, by := range q.By {
		if !slices.Contains(Dimensions(), by) {
			return tool.Errorf(tool.Invalid, "usage is not shown by %q: it is by %v", prose.Clip(by, 60), Dimensions())
		}
		if slices.Contains(q.By[:i], by) {
			return tool.Errorf(tool.Invalid, "usage by %s twice: name each once", by)
		}
	}
	return nil
}

// MaxLines is how many lines a report has at most.
const MaxLines = 10_000

// A Report is what was used, added up by what was asked for.
type Report struct {
	From, To time.Time
	By       []string
	Prices   *Prices // nil: no money is in it
	Lines    []Line
	Total    Line
}

// A Line is one of a Report.
type Line struct {
	Of []string // the values of Report.By
	Counts
	Saved      int64   // tokens: see Counts.saved
	Cost       float64 // of what the model read and wrote, in the currency of the prices
	SavedMoney float64
}

// add adds what was used at a price.
func (l *Line) add(r *Row, p Price) {
	l.Counts.Add(r.Counts)
	in, out := r.saved(r.Upstream)
	l.Saved += in + out
	l.Cost += p.of(r.Read, r.Written)
	l.SavedMoney += p.of(in, out)
}

// saved is how many tokens a model did not read and did not write, against a model that had made each of these calls
// itself. It would have read what stayed inside programs, and written what programs wrote. What it read and wrote to use
// Biplane's own tools it would not have. It can be less than nothing.
func (c *Counts) saved(upstream string) (read, written int64) {
	if upstream == tool.Own {
		return c.Kept - c.Read, c.Unwritten - c.Written
	}
	return c.Kept, c.Unwritten
}

// report adds up what a store gives.
func report(ctx context.Context, s Store, prices *Prices, q Query) (*Report, error) {
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
		if q.Principal != "" && r.Principal != fact(q.Principal) {
			return nil
		}
		of := make([]string, len(q.By))
		for i, by := range q.By {
			of[i] = r.value(by)
		}
		key := fmt.Sprintf("%q", of)
		l := lines[key]
		if l == nil {
			if len(lines) == MaxLines {
				return tool.Errorf(tool.Limit, "usage by %v has more than %d lines: take a shorter time, or fewer things to tell apart", q.By, MaxLines)
			}
			l = &Line{Of: of}
			lines[key] = l
		}
		price := prices.of(r.Who)
		l.add(&r, price)
		out.Total.add(&r, price)
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

// value is what a row has for one of the Dimensions.
func (r *Row) value(by string) string {
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
