package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// The kinds of an Approval.
const (
	KindCall = "call"
	KindPlan = "plan" // of all that a program would write
)

// A PlannedWrite is one call of a plan.
type PlannedWrite struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`           // byte for byte what is sent
	Simulated bool            `json:"simulated,omitempty"` // they hold a simulated answer, and will be refused
}

// An Approval is a call that waits for a person, or waited for one, or a plan.
type Approval struct {
	ID        string          `json:"id"`
	State     string          `json:"state"` // "pending", "approved", "made" (approved, and the call was let through), "denied", "expired", "withdrawn"
	Kind      string          `json:"kind"`
	Writes    []PlannedWrite  `json:"writes,omitempty"` // of a plan; in lists only where they are short
	Execution string          `json:"execution"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // byte for byte what is sent; in lists only where they are short
	Principal string          `json:"principal"`
	Person    string          `json:"person,omitempty"`
	Agent     string          `json:"agent,omitempty"`
	Client    string          `json:"client,omitempty"`
	Policy    string          `json:"policy"`
	Reason    string          `json:"reason"`
	Labels    []string        `json:"labels,omitempty"`    // of the data that the program has read
	Approvers []string        `json:"approvers,omitempty"` // groups, a member of which decides; empty: any approver
	Digest    string          `json:"digest"`              // SHA-256 of all that the approval is bound to
	Created   time.Time       `json:"created"`
	Expires   time.Time       `json:"expires"`
	DecidedBy string          `json:"decided_by,omitempty"`
	Decided   time.Time       `json:"decided,omitzero"`
	Note      string          `json:"note,omitempty"`    // of who decided
	Program   string          `json:"program,omitempty"` // the text of the program that made the call; not in lists
}

// A Decision is what a person says of a call.
type Decision struct {
	Approve bool   `json:"approve"`
	Note    string `json:"note,omitempty"`
}

// Approvals lists calls that wait for a person, newest first; with all those that waited, too. An execution may be named.
func (c *Client) Approvals(ctx context.Context, execution string, all bool) ([]Approval, error) {
	q := url.Values{}
	if execution != "" {
		q.Set("execution", execution)
	}
	if all {
		q.Set("all", "true")
	}
	return get[[]Approval](ctx, c, "/approvals?"+q.Encode())
}

// Approval gives one, with the program that made the call.
func (c *Client) Approval(ctx context.Context, id string) (*Approval, error) {
	return get[*Approval](ctx, c, "/approvals/"+url.PathEscape(id))
}

// Decide approves or denies a call.
func (c *Client) Decide(ctx context.Context, id string, d Decision) (*Approval, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return ask[*Approval](ctx, c, http.MethodPost, "/approvals/"+url.PathEscape(id), body)
}
