package api

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
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
	Blocked   string          `json:"blocked,omitempty"` // why the caller may not decide on it; not in lists
}

// The states of an approval that clients act on.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved" // and the call has not been let through
	ApprovalMade     = "made"     // approved, and the call was let through
)

// A Decision is what a person says of a call. Digest is that of the Approval that was looked at: a decision on a request with
// another one is refused.
type Decision struct {
	Approve bool   `json:"approve"`
	Digest  string `json:"digest"`
	Note    string `json:"note,omitempty"`
}

// MaxApprovals is how many approvals a page of a list has at most.
const MaxApprovals = 1000

// An ApprovalFilter picks approvals.
type ApprovalFilter struct {
	Execution string // of one execution; empty: of all
	All       bool   // also those that were decided on
	Before    string // older than the one with this id: the next page
	Limit     int    // at most so many; 0: MaxApprovals
}

// ApprovalPage lists calls that wait for a person, or waited for one, newest first.
func (c *Client) ApprovalPage(ctx context.Context, f ApprovalFilter) ([]Approval, error) {
	q := url.Values{}
	for name, v := range map[string]string{"execution": f.Execution, "before": f.Before} {
		if v != "" {
			q.Set(name, v)
		}
	}
	if f.All {
		q.Set("all", "true")
	}
	if f.Limit > 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return get[[]Approval](ctx, c, "/approvals?"+q.Encode())
}

// Approvals lists calls that wait for a person, newest first; with all those that waited, too. An execution may be named.
func (c *Client) Approvals(ctx context.Context, execution string, all bool) ([]Approval, error) {
	return c.ApprovalPage(ctx, ApprovalFilter{Execution: execution, All: all})
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
