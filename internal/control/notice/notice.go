// Package notice notifies people of what needs their attention: calls that wait for approval,
// requests that expired, quarantined tools, upstreams that no longer answer or need a sign-in,
// checkpoints that can't be sent, and keys, certificates and sandboxes that expire soon. Notices go
// to channels: webhooks, Slack, Teams and e-mail.
//
// A notice names its subject and has a link. It never has arguments, results, reasons or names of
// people, since channels are not subject to policy. Each channel has its own bounded queue, which
// principals share fairly, a limit on its rate, and retries. So a failing channel delays no other,
// and a principal with many requests doesn't hide those of others.
package notice

import (
	"context"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Kind is the kind of event that a notice reports.
type Kind string

// The kinds of notices.
const (
	Approval   Kind = "approval"   // a call waits for approval
	Expiry     Kind = "expiry"     // no one decided on a call in time
	Quarantine Kind = "quarantine" // a tool can't be called until a person accepts its definition
	Breaker    Kind = "breaker"    // calls to an upstream are paused
	Checkpoint Kind = "checkpoint" // a checkpoint of the record couldn't be sent
	Expiring   Kind = "expiring"   // API keys, certificates or sandboxes expire soon
	SignIn     Kind = "sign-in"    // the sign-in at an upstream has ended
	Test       Kind = "test"       // asked for by a person
)

// ListKinds returns the kinds that a channel may be configured for.
func ListKinds() []string {
	return []string{string(Approval), string(Expiry), string(Quarantine), string(Breaker), string(Checkpoint),
		string(Expiring), string(SignIn)}
}

// maxSubject is the maximum length of a subject, in characters. Names of tools are not trusted.
const maxSubject = 120

// A Notice is one message to people.
type Notice struct {
	ID      string    `json:"id"` // the same for each attempt to send it
	Kind    Kind      `json:"kind"`
	Subject string    `json:"subject,omitempty"` // the tool, upstream or sink, or what expires; printable
	Link    string    `json:"link,omitempty"`    // the page that shows it
	Command string    `json:"command,omitempty"` // the command that shows it
	Time    time.Time `json:"time"`
	// Dropped is the number of notices before this one that were not sent to this channel, since
	// there were too many.
	Dropped int `json:"dropped,omitempty"`
	// Principal is whose share of the queue it uses; empty: Biplane's own. It is not sent.
	Principal string `json:"-"`
}

// FormatTitle describes the event in one line.
func (n *Notice) FormatTitle() string {
	about := text.Cut(tool.VisibleLine(n.Subject), maxSubject)
	switch n.Kind {
	case Approval:
		return "A call of " + about + " waits for approval"
	case Expiry:
		return "No one decided in time on a call of " + about
	case Quarantine:
		return "Quarantined: " + about
	case Breaker:
		return "Calls to " + about + " are paused: it doesn't answer"
	case Checkpoint:
		return "A checkpoint of the audit record was not sent to " + about
	case Expiring:
		return "Expiring soon: " + about
	case SignIn:
		return "The sign-in at " + about + " has ended: its tools can't be called"
	}
	return "This is a test of Biplane's notices"
}

// FormatOmission returns a sentence about the notices that were left out; empty if none were.
func (n *Notice) FormatOmission() string {
	if n.Dropped == 0 {
		return ""
	}
	return text.Count(n.Dropped, "more notice") + " before this one were not sent: there were too many."
}

// FindPlace returns the link or the command that shows the subject.
func (n *Notice) FindPlace() string {
	if n.Link != "" {
		return n.Link
	}
	return n.Command
}

// A Channel sends notices to people.
type Channel interface {
	// DescribePlace returns the kind of the channel and its host, without secrets.
	DescribePlace() string
	// SendNotice sends one notice. An error of kind tool.Invalid is permanent: the notice is not
	// sent again.
	SendNotice(ctx context.Context, n *Notice) error
}

// A State is the state of a channel.
type State struct {
	Name, Place string
	Sent        int       // since the process started
	SentAt      time.Time // the last one
	Waiting     int
	Dropped     int // since the process started
	Failures    int // in a row
	Error       string
}

// describeFailure returns the error of an attempt as the log and the state show it.
func describeFailure(err error) string { return fmt.Sprint(tool.AsError(err).Msg) }
