package api

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// A PolicyFile is a file of policies in Cedar.
type PolicyFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// PolicyFiles are the files of the policies in force.
type PolicyFiles struct {
	Folder string       `json:"folder,omitempty"` // empty: the policies are built in
	Digest string       `json:"digest"`           // of the names and texts of all files
	Files  []PolicyFile `json:"files"`            // by name
	Fixed  string       `json:"fixed,omitempty"`  // why they can't be changed here; empty if they can
}

// WithFile returns the files with f in place of the one with its name. Without a text, f is
// removed.
func (p *PolicyFiles) WithFile(f PolicyFile) []PolicyFile {
	next := slices.DeleteFunc(slices.Clone(p.Files), func(old PolicyFile) bool { return old.Name == f.Name })
	if f.Text != "" {
		next = append(next, f)
	}
	return next
}

// A PolicyEdit replaces a file of the policies in force, adds one or, with an empty text, removes
// it.
type PolicyEdit struct {
	Digest string     `json:"digest"` // of the files that were read; others have not been changed since
	File   PolicyFile `json:"file"`
}

// A PolicyProblem is one error in the policies.
type PolicyProblem struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // 1-based; 0 if it concerns the whole file
	Column  int    `json:"column"`
	Policy  string `json:"policy,omitempty"` // its id
	Message string `json:"message"`
}

// A PolicyReport is the result of a check of policies.
type PolicyReport struct {
	Name     string          `json:"name"`     // of the policies in force; empty for files in the request
	Version  string          `json:"version"`  // empty if they could not be loaded
	Policies int             `json:"policies"` // how many
	Tools    int             `json:"tools"`    // number of tools they were checked against
	Problems []PolicyProblem `json:"problems"` // if there are any, the policies must not be used
	Warnings []PolicyProblem `json:"warnings"`
}

// A PolicyPrincipal identifies a caller, as policies see it. Without an ID it is the local user.
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

// A PolicyQuestion asks for the decision on a call, without making the call.
type PolicyQuestion struct {
	Files     []PolicyFile    `json:"files,omitempty"` // policies to decide under; empty: those in force
	Principal PolicyPrincipal `json:"principal"`
	Tool      string          `json:"tool"` // any of its names
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Program   bool            `json:"program,omitempty"` // the call comes from a program
	// Upstream names the folder of tools, or the server in a sandbox, whose program makes the
	// request to a host. The configuration's grants to it apply.
	Upstream string   `json:"upstream,omitempty"`
	Labels   []string `json:"labels,omitempty"` // of the data that its session has read
	// Reveal lists kinds of personal data ("email"). If set, the question is whether the tool may
	// receive them instead of tokens. If empty, it is whether the tool may be called.
	Reveal []string  `json:"reveal,omitempty"`
	Time   time.Time `json:"time,omitzero"` // zero: now
}

// A PolicyAnswer is a decision and how it was reached.
type PolicyAnswer struct {
	Tool      string        `json:"tool"`   // exact path
	Effect    string        `json:"effect"` // "allow", "ask", "deny"
	Policy    string        `json:"policy"` // ids of the policies that decided
	Version   string        `json:"version"`
	Reason    string        `json:"reason"`
	Approvers []string      `json:"approvers,omitempty"`
	Tier      string        `json:"tier"`
	Limits    []string      `json:"limits,omitempty"` // usage limits, each with the policy that sets it
	Shown     bool          `json:"shown"`            // the tool is listed and can be found
	Change    string        `json:"change"`           // the smallest change that would change the effect
	Policies  []PolicyTrace `json:"policies"`
}

// A PolicyTrace is the evaluation of one policy for a call.
type PolicyTrace struct {
	ID      string   `json:"id"`
	File    string   `json:"file"`
	Line    int      `json:"line"`
	Effect  string   `json:"effect"` // "permit" or "forbid"
	Holds   bool     `json:"holds"`
	Missing []string `json:"missing"` // its conditions that don't hold
}

// A PolicyReplayRequest asks which recorded decisions would change.
type PolicyReplayRequest struct {
	Files []PolicyFile `json:"files,omitempty"` // empty: the policies in force
	Since time.Time    `json:"since"`
}

// A PolicyReplay reports which recorded decisions would change.
type PolicyReplay struct {
	Version   string            `json:"version"`
	Since     time.Time         `json:"since"`
	Calls     int               `json:"calls"` // recorded
	Same      int               `json:"same"`
	Changed   []PolicyChange    `json:"changed"`
	Undecided []PolicyUndecided `json:"undecided"`
	More      bool              `json:"more,omitempty"` // there are more records than were examined
}

// A PolicyChange is a group of recorded calls whose decision would change in the same way.
type PolicyChange struct {
	Tool      string `json:"tool"`
	Principal string `json:"principal"`
	From      string `json:"from"` // effect
	To        string `json:"to"`
	Policy    string `json:"policy"` // the policy that decides now
	Reason    string `json:"reason"`
	Calls     int    `json:"calls"`
	Record    string `json:"record"` // the newest of them
}

// A PolicyUndecided is a group of recorded calls that could not be decided again.
type PolicyUndecided struct {
	Reason string `json:"reason"`
	Calls  int    `json:"calls"`
	Record string `json:"record"`
}

// A PolicyClient checks and explains policies.
type PolicyClient struct{ client *Client }

// Policies returns the client of policies.
func (c *Client) Policies() PolicyClient { return PolicyClient{c} }

// ReadSchema returns the Cedar schema of everything that policies can name.
func (c PolicyClient) ReadSchema(ctx context.Context) (string, error) {
	return get[string](ctx, c.client, "/policy/schema")
}

// A PolicyFolder reads and changes the files of the policies in force.
type PolicyFolder struct{ Client *Client }

// ReadFiles returns the files of the policies in force.
func (p PolicyFolder) ReadFiles(ctx context.Context) (*PolicyFiles, error) {
	return get[*PolicyFiles](ctx, p.Client, "/policy/files")
}

// EditFile changes one file of the policies, and applies the new policies. It returns
// their report.
func (p PolicyFolder) EditFile(ctx context.Context, e PolicyEdit) (*PolicyReport, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return ask[*PolicyReport](ctx, p.Client, http.MethodPut, "/policy/files", body)
}

// Check checks policies against the current tools. If files is empty, it checks the policies
// in force.
func (c PolicyClient) Check(ctx context.Context, files []PolicyFile) (*PolicyReport, error) {
	return post[*PolicyReport](ctx, c.client, "/policy/check", struct {
		Files []PolicyFile `json:"files,omitempty"`
	}{files})
}

// Explain decides on a call without making it, and explains the decision.
func (c PolicyClient) Explain(ctx context.Context, q PolicyQuestion) (*PolicyAnswer, error) {
	return post[*PolicyAnswer](ctx, c.client, "/policy/explain", q)
}

// Replay decides on recorded calls again.
func (c PolicyClient) Replay(ctx context.Context, r PolicyReplayRequest) (*PolicyReplay, error) {
	return post[*PolicyReplay](ctx, c.client, "/policy/replay", r)
}
