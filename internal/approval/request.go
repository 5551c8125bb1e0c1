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

// A State says how far a Request is.
type State string

// The states of a Request. A person decides on one that is pending, once; what it was decided is taken by the call, once.
const (
	Pending   State = "pending"
	Approved  State = "approved"  // the call may be made, and has not been yet
	Made      State = "made"      // approved, and the call was let through: the approval is used up
	Denied    State = "denied"    // by a person
	Expired   State = "expired"   // nobody decided in time
	Withdrawn State = "withdrawn" // nothing waits for it any more: the program has ended, or what it was bound to has changed
)

// A Request asks a person about one call. All of it but the decision is fixed when it is made.
type Request struct {
	ID        string          `json:"id"`        // "apr_..."; not to be guessed
	Subject   string          `json:"-"`         // the call that waits: at most one live request is about it
	Digest    string          `json:"digest"`    // of all that the approval is bound to, SHA-256 in hexadecimal
	Execution string          `json:"execution"` // that made the call; empty for a call from outside
	Call      string          `json:"call"`
	Tool      string          `json:"tool"`      // exact path
	Arguments json.RawMessage `json:"arguments"` // byte for byte what is sent when it is approved
	Principal string          `json:"principal"` // ID of who asks
	Person    string          `json:"person,omitempty"`
	Agent     string          `json:"agent,omitempty"`
	Client    string          `json:"client,omitempty"`
	Program   string          `json:"program,omitempty"` // digest of the program that made the call
	Policy    string          `json:"policy"`            // ids of the policies that ask
	Version   string          `json:"policy_version"`
	Reason    string          `json:"reason"`
	Labels    []string        `json:"labels,omitempty"`    // of the data that the program has read
	Approvers []string        `json:"approvers,omitempty"` // groups, a member of which decides; empty: any approver
	Created   time.Time       `json:"created"`
	Expires   time.Time       `json:"expires"`

	State   State     `json:"state"`
	Decider string    `json:"decided_by,omitempty"` // ID of the principal who decided
	Decided time.Time `json:"decided,omitzero"`
	Note    string    `json:"note,omitempty"` // what they said of it
}

// Bounds on what a request holds, in bytes, and on how many there are: a person has to read them.
const (
	MaxArguments = 1 << 20
	maxNote      = 1 << 10
	// MaxWaiting is how many calls of a principal from outside of programs may wait at once.
	MaxWaiting = 100
	// MaxAsked is how many calls of programs may wait at once. Principals share it (see queue.Shares).
	MaxAsked = 400
)

// An Ask is a call that policy leaves to a person.
type Ask struct {
	Call      *tool.Call // as the door has it: with ID, Tool and Arguments
	Policy    string
	Version   string // of the policies
	Reason    string
	Labels    []string
	Approvers []string
	// Current reports, when the call is about to be made, why what was approved is not what would be called any more: the
	// tool is gone or means something else, or the policies have changed. It may be nil.
	Current func(context.Context) error
}

// subject names the call among all that may ask: a call of a program by its execution and ID, which are the same when the
// execution is recovered; any other by what it is, so that a client that asks again finds its request.
func (a *Ask) subject() string {
	if a.Call.Parent != "" {
		return a.Call.Parent + "/" + a.Call.ID
	}
	return "call/" + a.digest()
}

// digest is that of all that an approval is bound to.
func (a *Ask) digest() string {
	h := sha256.New()
	c := a.Call
	for _, part := range []string{
		"biplane approval 1", c.Principal.ID, c.Principal.Person, c.Principal.Agent, c.Tool.Path(), c.Tool.Digest(), string(c.Arguments), a.Call.Program, a.Version,
	} {
		field(h, part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func field(h hash.Hash, s string) {
	fmt.Fprintf(h, "%d:", len(s))
	io.WriteString(h, s)
}

// Everybody is the group, of those that policies name, of all who have the role "approver", whatever other groups they are in.
const Everybody = "approvers"

// Requests are the calls that wait, for whoever shows them to people and takes their decisions; a *Gate has them.
type Requests interface {
	List(ctx context.Context, q Query) ([]Request, error)
	Get(ctx context.Context, id string) (*Request, error)
	May(d Decider, r *Request) error
	Decide(ctx context.Context, d Decider, id string, approve bool, note string) (*Request, error)
}

// A Decider is who decides.
type Decider struct {
	Principal tool.Principal
	Any       bool   // may decide on requests for any group: an administrator, or the user of this machine
	Via       string // where they decide, for the record: "api", "client", "page"
}

// may reports why d may not decide on r.
func (d Decider) may(r *Request, separate bool) error {
	p := d.Principal
	if separate && (p.ID == r.Principal || p.Person != "" && p.Person == r.Person) {
		return tool.Errorf(tool.Denied, "%s is your own request, and another person must decide on it", r.ID)
	}
	if d.Any || len(r.Approvers) == 0 {
		return nil
	}
	for _, a := range r.Approvers {
		if slices.Contains(p.Groups, a) || a == Everybody && slices.Contains(p.Roles, "approver") {
			return nil
		}
	}
	return tool.Errorf(tool.Denied, "%s is decided by a member of %s", r.ID, quoted(r.Approvers))
}
