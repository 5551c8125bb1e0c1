package approval

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A State is the state of a Request.
type State string

// The states of a Request. A person decides on a pending one, once. The call uses the decision,
// once.
const (
	Pending  State = "pending"
	Approved State = "approved" // the call may be made, but has not been yet
	Made     State = "made"     // approved, and the call was let through: the approval is used up
	Denied   State = "denied"   // by a person
	Expired  State = "expired"  // not decided in time
	// Nothing waits for it any longer: the program has ended, or the call or its policies have
	// changed.
	Withdrawn State = "withdrawn"
)

// A Request asks a person about one call. Everything but the decision is fixed when it is created.
type Request struct {
	ID string `json:"id"` // "apr_..."; not guessable
	// Subject identifies the waiting call. At most one live request has a given subject.
	Subject   string          `json:"-"`
	Digest    string          `json:"digest"`    // of everything that the approval is bound to, SHA-256 in hexadecimal
	Execution string          `json:"execution"` // the execution that made the call; empty for a call from outside
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`      // exact path
	Arguments json.RawMessage `json:"arguments"` // the exact bytes that are sent if it is approved
	Principal string          `json:"principal"` // ID of the principal who asks
	Person    string          `json:"person,omitempty"`
	Agent     string          `json:"agent,omitempty"`
	Client    string          `json:"client,omitempty"`
	Program   string          `json:"program,omitempty"` // digest of the program that made the call
	Policy    string          `json:"policy"`            // ids of the policies that require approval
	Version   string          `json:"policy_version"`
	Reason    string          `json:"reason"`
	// Findings are those of the program that made the call. They follow from its text, to which the
	// digest is bound.
	Findings  []tool.Finding `json:"findings,omitempty"`
	Labels    []string       `json:"labels,omitempty"`    // of the data that the program has read
	Approvers []string       `json:"approvers,omitempty"` // groups whose members may decide; empty: any approver
	Created   time.Time      `json:"created"`
	Expires   time.Time      `json:"expires"`

	State   State     `json:"state"`
	Decider string    `json:"decided_by,omitempty"` // ID of the principal who decided
	Decided time.Time `json:"decided,omitzero"`
	Note    string    `json:"note,omitempty"` // from the decider
}

// Limits on the size of a request, in bytes, and on the number of requests: a person has to read
// them.
const (
	MaxArguments = 1 << 20
	maxNote      = 1 << 10
	// MaxWaiting is how many calls from outside programs may wait at once, per principal.
	MaxWaiting = 100
	// MaxAsked is how many calls of programs may wait at once. Principals share them (see
	// queue.Shares).
	MaxAsked = 400
)

// An Ask is a call that policy leaves to a person.
type Ask struct {
	Call      *tool.Call // as seen by the gateway: with ID, Tool and Arguments
	Policy    string
	Version   string // of the policies
	Reason    string
	Labels    []string
	Approvers []string
	Recheck   Rechecker // checks the approved call once more; nil: nothing is checked
}

// A Rechecker checks a call after it was approved.
type Rechecker interface {
	// RecheckCall is called when the approved call is about to be made. It returns an error if the
	// tool is gone or has changed, or if the policies have changed.
	RecheckCall(context.Context) error
}

// subject identifies the call. For a call of a program it is its execution and ID, which stay the
// same when the execution is recovered. For any other call it is its digest, so that a client that
// asks again finds its request.
func (a *Ask) subject() string {
	if a.Call.FromProgram().Execution != "" {
		return a.Call.FromProgram().Execution + "/" + a.Call.ID
	}
	return "call/" + a.digest()
}

// digest returns the digest of everything that an approval is bound to.
func (a *Ask) digest() string {
	h := sha256.New()
	c := a.Call
	for _, part := range []string{
		"biplane approval 1", c.Principal.ID, c.Principal.Person, c.Principal.Agent, c.Tool.Path(), c.Tool.Digest(),
		string(c.Arguments), c.FromProgram().Digest, a.Version,
	} {
		writeField(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func writeField(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:", len(s))
	io.WriteString(h, s)
}

// Everybody is the group, in policies, of all principals with the role "approver", whatever their
// other groups.
const Everybody = "approvers"

// Requests lists requests and decides on them. It is implemented by *Gate, and used by code that
// shows requests to people.
type Requests interface {
	List(ctx context.Context, q Query) ([]Request, error)
	Get(ctx context.Context, id string) (*Request, error)
	May(d Decider, r *Request) error
	Decide(ctx context.Context, d Decider, id string, approve bool, note string) (*Request, error)
}

// A Decider is a principal who decides on requests.
type Decider struct {
	Principal tool.Principal
	Any       bool   // may decide on requests for any group: an administrator, or the local user
	Via       string // where they decide, for the audit log: "api", "client", "page"
}

// may returns an error that says why d may not decide on r.
func (d Decider) may(r *Request, separate bool) error {
	p := d.Principal
	if separate && (p.ID == r.Principal || p.Person != "" && p.Person == r.Person) {
		return tool.Errorf(tool.Denied, "%s is your own request: another person must decide on it", r.ID)
	}
	if d.Any || len(r.Approvers) == 0 {
		return nil
	}
	for _, a := range r.Approvers {
		if slices.Contains(p.Groups, a) || a == Everybody && slices.Contains(p.Roles, "approver") {
			return nil
		}
	}
	return tool.Errorf(tool.Denied, "%s is decided by a member of %s", r.ID, quoteNames(r.Approvers))
}
