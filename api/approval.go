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
	KindPlan = "plan" // for all writes of a program
)

// A PlannedWrite is one call of a plan.
type PlannedWrite struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // the exact bytes that are sent
	// the arguments depend on a simulated result, so the call will be refused
	Simulated bool `json:"simulated,omitempty"`
}

// A ProgramFinding is a likely fault in a program.
type ProgramFinding struct {
	Rule    string `json:"rule"`           // "sql", "shell", "path", "tls", "eval", "secret" or "unreviewed"
	Line    int    `json:"line,omitempty"` // of the program; 0: unknown
	Message string `json:"message"`
}

// An Approval is a call, or a plan, that waits for a person or has waited for one.
type Approval struct {
	ID string `json:"id"`
	// State is "pending", "approved", "made" (approved, and the call was let through), "denied",
	// "expired" or "withdrawn".
	State     string          `json:"state"`
	Kind      string          `json:"kind"`
	Writes    []PlannedWrite  `json:"writes,omitempty"` // of a plan; in lists only if they are short
	Execution string          `json:"execution"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // the exact bytes that are sent; in lists only if they are short
	Principal string          `json:"principal"`
	Person    string          `json:"person,omitempty"`
	Agent     string          `json:"agent,omitempty"`
	Client    string          `json:"client,omitempty"`
	Policy    string          `json:"policy"`
	Reason    string          `json:"reason"`
	// Findings are likely faults in the program that made the call.
	Findings  []ProgramFinding `json:"findings,omitempty"`
	Labels    []string         `json:"labels,omitempty"`    // of the data that the program has read
	Approvers []string         `json:"approvers,omitempty"` // groups whose members may decide; empty: any approver
	Digest    string           `json:"digest"`              // SHA-256 of everything that the approval is bound to
	Created   time.Time        `json:"created"`
	Expires   time.Time        `json:"expires"`
	DecidedBy string           `json:"decided_by,omitempty"`
	Decided   time.Time        `json:"decided,omitzero"`
	Note      string           `json:"note,omitempty"`    // from the person who decided
	Program   string           `json:"program,omitempty"` // the source of the program that made the call; not in lists
	Blocked   string           `json:"blocked,omitempty"` // why the caller may not decide; not in lists
}

// The states of an approval that clients act on.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved" // the call has not been let through yet
	ApprovalMade     = "made"     // approved, and the call was let through
)

// A Decision is a person's decision on a call. Digest is the digest of the Approval that was shown
// to the person. If the request's digest differs, the decision is refused.
type Decision struct {
	Approve bool   `json:"approve"`
	Digest  string `json:"digest"`
	Note    string `json:"note,omitempty"`
}

// MaxApprovals is the maximum number of approvals in a page of a list.
const MaxApprovals = 1000

// An ApprovalFilter selects approvals.
type ApprovalFilter struct {
	Execution string // only of this execution; empty: of all
	All       bool   // include those already decided
	Before    string // only those older than this id: the next page
	Limit     int    // maximum number of results; 0: MaxApprovals
}

// An ApprovalClient reads approvals and decides on them.
type ApprovalClient struct{ client *Client }

// Approvals returns the client of approvals.
func (c *Client) Approvals() ApprovalClient { return ApprovalClient{c} }

// List lists the approvals that f selects, newest first.
func (c ApprovalClient) List(ctx context.Context, f ApprovalFilter) ([]Approval, error) {
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
	return get[[]Approval](ctx, c.client, "/approvals?"+q.Encode())
}

// ListFor lists pending calls, newest first; if all is set, also those already decided. If
// execution is not empty, only its calls are listed.
func (c ApprovalClient) ListFor(ctx context.Context, execution string, all bool) ([]Approval, error) {
	return c.List(ctx, ApprovalFilter{Execution: execution, All: all})
}

// Get returns one approval, with the program that made the call.
func (c ApprovalClient) Get(ctx context.Context, id string) (*Approval, error) {
	return get[*Approval](ctx, c.client, "/approvals/"+url.PathEscape(id))
}

// Decide approves or denies a call.
func (c ApprovalClient) Decide(ctx context.Context, id string, d Decision) (*Approval, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	return ask[*Approval](ctx, c.client, http.MethodPost, "/approvals/"+url.PathEscape(id), body)
}
