package api

import (
	"context"
	"encoding/json"
	"time"
)

// A PolicyFile is a text of policies, in Cedar.
type PolicyFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// A PolicyProblem is one thing that is wrong in policies.
type PolicyProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // 1-based; 0 when it is about the file as a whole
	Column  int    `json:"column"`
	Policy  string `json:"policy,omitempty"` // its id
	Message string `json:"message"`
}

// A PolicyReport is what a check of policies found.
type PolicyReport struct {
	Name     string          `json:"name"`     // of the policies in force; empty for files that were sent
	Version  string          `json:"version"`  // empty where they could not be loaded
	Policies int             `json:"policies"` // how many
	Tools    int             `json:"tools"`    // that they were checked against
	Problems []PolicyProblem `json:"problems"` // with any of them the policies are not to be used
	Warnings []PolicyProblem `json:"warnings"`
}

// A PolicyPrincipal says who asks, as policies see it. Without an ID it is the local user.
type PolicyPrincipal struct {
	ID     string   `json:"id,omitempty"`
	Name   string   `json:"name,omitempty"`
	Person string   `json:"person,omitempty"`
	Agent  string   `json:"agent,omitempty"`
	Client string   `json:"client,omitempty"`
	Roles  []string `json:"roles,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
}

// A PolicyQuestion asks for the decision on a call, which is not made.
type PolicyQuestion struct {
	Files     []PolicyFile    `json:"files,omitempty"` // decided under these; none: those in force
	Principal PolicyPrincipal `json:"principal"`
	Tool      string          `json:"tool"` // any of its names
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Program   bool            `json:"program,omitempty"` // the call comes from inside a program
	Labels    []string        `json:"labels,omitempty"`  // of what its session has read
	Reveal    []string        `json:"reveal,omitempty"`  // kinds of personal data ("email"): may the tool have them in the place of tokens? None: may it be called?
	Time      time.Time       `json:"time,omitzero"`     // zero: now
}

// A PolicyAnswer is a decision, and how it came about.
type PolicyAnswer struct {
	Tool      string        `json:"tool"`   // exact path
	Effect    string        `json:"effect"` // "allow", "ask", "deny"
	Policy    string        `json:"policy"` // ids of those that decided
	Version   string        `json:"version"`
	Reason    string        `json:"reason"`
	Approvers []string      `json:"approvers,omitempty"`
	Tier      string        `json:"tier"`
	Limits    []string      `json:"limits,omitempty"` // how much may be used, each with the policy that says so
	Shown     bool          `json:"shown"`            // the tool is listed and found
	Change    string        `json:"change"`           // the smallest change after which the effect would be another one
	Policies  []PolicyTrace `json:"policies"`
}

// A PolicyTrace is what one policy said of a call.
type PolicyTrace struct {
	ID      string   `json:"id"`
	File    string   `json:"file"`
	Line    int      `json:"line"`
	Effect  string   `json:"effect"` // "permit" or "forbid"
	Holds   bool     `json:"holds"`
	Missing []string `json:"missing"` // its parts that are not so
}

// A PolicyReplayRequest asks which recorded decisions would be others.
type PolicyReplayRequest struct {
	Files []PolicyFile `json:"files,omitempty"` // none: the policies in force
	Since time.Time    `json:"since"`
}

// A PolicyReplay says which recorded decisions would be others.
type PolicyReplay struct {
	Version   string            `json:"version"`
	Since     time.Time         `json:"since"`
	Calls     int               `json:"calls"` // recorded
	Same      int               `json:"same"`
	Changed   []PolicyChange    `json:"changed"`
	Undecided []PolicyUndecided `json:"undecided"`
	More      bool              `json:"more,omitempty"` // there are more records than were looked at
}

// A PolicyChange is a number of recorded calls whose decision would be another one.
type PolicyChange struct {
	Tool      string `json:"tool"`
	Principal string `json:"principal"`
	From      string `json:"from"` // effect
	To        string `json:"to"`
	Policy    string `json:"policy"` // that decides now
	Reason    string `json:"reason"`
	Calls     int    `json:"calls"`
	Record    string `json:"record"` // the newest of them
}

// A PolicyUndecided is a number of recorded calls that could not be decided on again.
type PolicyUndecided struct {
	Reason string `json:"reason"`
	Calls  int    `json:"calls"`
	Record string `json:"record"`
}

// PolicySchema gives the Cedar schema of all that policies can name here.
func (c *Client) PolicySchema(ctx context.Context) (string, error) {
	return get[string](ctx, c, "/policy/schema")
}

// CheckPolicy checks policies against the tools that there are; those in force where no files are given.
func (c *Client) CheckPolicy(ctx context.Context, files []PolicyFile) (*PolicyReport, error) {
	return post[*PolicyReport](ctx, c, "/policy/check", struct {
		Files []PolicyFile `json:"files,omitempty"`
	}{files})
}

// ExplainPolicy decides on a call, which is not made, and says why.
func (c *Client) ExplainPolicy(ctx context.Context, q PolicyQuestion) (*PolicyAnswer, error) {
	return post[*PolicyAnswer](ctx, c, "/policy/explain", q)
}

// ReplayPolicy decides on recorded calls again.
func (c *Client) ReplayPolicy(ctx context.Context, r PolicyReplayRequest) (*PolicyReplay, error) {
	return post[*PolicyReplay](ctx, c, "/policy/replay", r)
}
