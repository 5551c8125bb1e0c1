package api

import (
	"context"
	"net/url"
	"strings"
	"time"
)

// A UsageQuery asks what was used.
type UsageQuery struct {
	From, To time.Time // zero: 30 days ago, now. From begins with its hour
	By       []string  // "principal" (default), "person", "agent", "client", "upstream", "tool", "hour", "day", "month"; several
}

// Usage is what was used, added up by what was asked for. Tokens are as o200k_base counts them: an estimate for other models.
type Usage struct {
	From     time.Time   `json:"from"`
	To       time.Time   `json:"to"`
	By       []string    `json:"by"`
	Own      bool        `json:"own"`                // of whoever asked only
	Currency string      `json:"currency,omitempty"` // of the prices that the configuration names; empty where it names none
	Lines    []UsageLine `json:"lines"`
	Total    UsageLine   `json:"total"`
}

// A UsageLine is what was used of something. Of what it is not by, the fields are empty.
type UsageLine struct {
	Principal string `json:"principal,omitempty"`
	Person    string `json:"person,omitempty"`
	Agent     string `json:"agent,omitempty"`
	Client    string `json:"client,omitempty"`
	Upstream  string `json:"upstream,omitempty"` // "biplane": execute, resume and search; "unknown": calls that named no tool
	Tool      string `json:"tool,omitempty"`     // "<upstream>.<name>"
	Hour      string `json:"hour,omitempty"`     // "2026-03-02T12:00Z"
	Day       string `json:"day,omitempty"`      // "2026-03-02", UTC
	Month     string `json:"month,omitempty"`    // "2026-03"

	Calls      int64 `json:"calls"`      // at the door, from outside and from inside programs
	Failed     int64 `json:"failed"`     // of those
	Denied     int64 `json:"denied"`     // of those that failed
	MS         int64 `json:"ms"`         // that calls took, waiting for people included
	Sent       int64 `json:"sent"`       // bytes of arguments that were sent to upstreams and hosts
	Received   int64 `json:"received"`   // bytes of results
	Executions int64 `json:"executions"` // programs that ended
	CPUMS      int64 `json:"cpu_ms"`     // CPU time of programs

	Read      int64    `json:"read"`       // tokens of results that a model was given
	Written   int64    `json:"written"`    // tokens of arguments, programs among them, that a model wrote
	KeptOut   int64    `json:"kept_out"`   // tokens of results that stayed inside programs
	Unwritten int64    `json:"unwritten"`  // tokens of arguments that programs wrote
	Estimated int64    `json:"estimated"`  // how many of these tokens were not counted, but estimated from what was
	Saved     int64    `json:"saved"`      // tokens: kept_out and unwritten, less what Biplane's own tools were
	Cost      *float64 `json:"cost"`       // of what was read and written; null without prices
	SavedCost *float64 `json:"saved_cost"` // null without prices
}

// Value gives what a line has for one of UsageQuery.By.
func (l *UsageLine) Value(by string) string {
	if f := l.Field(by); f != nil {
		return *f
	}
	return ""
}

// Field gives where a line has one of UsageQuery.By; nil for what it isn't by.
func (l *UsageLine) Field(by string) *string {
	return map[string]*string{
		"principal": &l.Principal, "person": &l.Person, "agent": &l.Agent, "client": &l.Client, "upstream": &l.Upstream, "tool": &l.Tool,
		"hour": &l.Hour, "day": &l.Day, "month": &l.Month,
	}[by]
}

// Usage says what was used: by everybody, or, for who may not see that, by whoever asks.
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
