package api

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// A UsageQuery selects usage.
type UsageQuery struct {
	// The defaults are 30 days ago and now. From is rounded down to the hour.
	From, To time.Time
	// By lists the fields to group by: "principal" (default), "person", "agent", "client",
	// "upstream", "tool", "hour", "day" or "month".
	By []string
}

// Usage is the result of a UsageQuery. Tokens are counted with o200k_base: an estimate for other
// models.
type Usage struct {
	From     time.Time   `json:"from"`
	To       time.Time   `json:"to"`
	By       []string    `json:"by"`
	Own      bool        `json:"own"`                // only the caller's own usage
	Currency string      `json:"currency,omitempty"` // of the configured prices; empty if there are none
	Lines    []UsageLine `json:"lines"`
	Total    UsageLine   `json:"total"`
}

// A UsageLine is the usage of one group. Fields that the query doesn't group by are empty.
type UsageLine struct {
	Principal string `json:"principal,omitempty"`
	Person    string `json:"person,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Client    string `json:"client,omitempty"`
	// "biplane": execute, resume and search; "unknown": calls that named no tool
	Upstream string `json:"upstream,omitempty"`
	Tool     string `json:"tool,omitempty"`  // "<upstream>.<name>"
	Hour     string `json:"hour,omitempty"`  // "2026-03-02T12:00Z"
	Day      string `json:"day,omitempty"`   // "2026-03-02", UTC
	Month    string `json:"month,omitempty"` // "2026-03"

	Calls      int64 `json:"calls"`      // at the gateway, from outside and from programs
	Failed     int64 `json:"failed"`     // calls that failed
	Denied     int64 `json:"denied"`     // failed calls that were denied
	MS         int64 `json:"ms"`         // duration of calls, including waiting for people
	Sent       int64 `json:"sent"`       // bytes of arguments sent to upstreams and hosts
	Received   int64 `json:"received"`   // bytes of results
	Executions int64 `json:"executions"` // programs that ended
	CPUMS      int64 `json:"cpu_ms"`     // CPU time of programs

	Read      int64    `json:"read"`       // tokens of results that models read
	Written   int64    `json:"written"`    // tokens of arguments, including programs, that models wrote
	KeptOut   int64    `json:"kept_out"`   // tokens of results that stayed inside programs
	Unwritten int64    `json:"unwritten"`  // tokens of arguments that programs wrote
	Estimated int64    `json:"estimated"`  // how many of these tokens were estimated, not counted
	Saved     int64    `json:"saved"`      // tokens: kept_out plus unwritten, minus the cost of Biplane's own tools
	Cost      *float64 `json:"cost"`       // of the tokens read and written; null without prices
	SavedCost *float64 `json:"saved_cost"` // null without prices
}

// Value returns the field of a line that a value of UsageQuery.By names.
func (l *UsageLine) Value(by string) string {
	if f := l.Field(by); f != nil {
		return *f
	}
	return ""
}

// Field returns a pointer to the field that a value of UsageQuery.By names, or nil for an unknown
// one.
func (l *UsageLine) Field(by string) *string {
	return map[string]*string{
		"principal": &l.Principal, "person": &l.Person, "agent": &l.Agent, "client": &l.Client, "upstream": &l.Upstream,
		"tool": &l.Tool,
		"hour": &l.Hour, "day": &l.Day, "month": &l.Month,
	}[by]
}

// Usage returns the usage of everyone, or only the caller's own if the caller may not see more.
func (c *Client) Usage(ctx context.Context, q UsageQuery) (*Usage, error) {
	v := url.Values{}
	if !q.From.IsZero() {
		v.Set("from", q.From.UTC().Format(time.RFC3339))
	}
	if !q.To.IsZero() {
		v.Set("to", q.To.UTC().Format(time.RFC3339))
	}
	if len(q.By) > 0 {
		v.Set("by", strings.Join(q.By, ","))
	}
	return get[*Usage](ctx, c, "/usage?"+v.Encode())
}
