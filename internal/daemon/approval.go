package daemon

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/approval"
	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ApprovalSettings say how calls wait for a person.
type ApprovalSettings struct {
	Expires  time.Duration // a request that nobody decides on expires after it; 0: a day
	Separate bool          // nobody decides on a request of their own
}

func (r *reader) approvals(n *node, s *ApprovalSettings) {
	r.object(n, "approvals", key{
		"expires":  func(n *node) { s.Expires = r.days(n, "approvals.expires", time.Minute, 30*24*time.Hour) },
		"separate": func(n *node) { s.Separate = r.boolean(n, "approvals.separate") },
	})
}

// newApprovals makes where calls wait for a person. What is decided is on record before it is.
func (d *Daemon) newApprovals(key *secret.Key) *approval.Gate {
	s := d.cfg.Settings.Approvals
	return approval.New(approval.Config{
		Store: d.store.Approvals(key), Expires: s.Expires, Separate: s.Separate,
		Record: func(ctx context.Context, who approval.Decider, r *approval.Request, to approval.State, note string) error {
			_, err := d.audit.Event(ctx, audit.Event{
				Kind: audit.KindApproval, Principal: who.Principal,
				Subject:  audit.Subject{Tool: r.Tool, Execution: r.Execution, Call: r.Call, Name: r.ID},
				Decision: audit.Decision{Effect: string(to), Policy: r.Policy + "@" + r.Version, Reason: note},
				Detail:   map[string]string{"request_digest": r.Digest, "requested_by": r.Principal},
			})
			return err
		},
		Changed: func(r approval.Request) {
			switch r.State {
			case approval.Pending:
				d.log.Warn("a call waits for a person", "tool", r.Tool, "reason", r.Reason, "see", "biplane approvals show "+r.ID)
			default:
				d.log.Info("a request was decided", "request", r.ID, "tool", r.Tool, "state", r.State, "by", r.Decider)
			}
		},
	})
}

// askedNoMore withdraws what an execution that has ended had asked people for, unless it only ended with this process.
func (d *Daemon) askedNoMore(execution string) {
	if d.stopping.Load() {
		return
	}
	if err := d.approvals.Ended(context.Background(), execution); err != nil {
		d.log.Warn("withdraw what an execution asked for", "execution", execution, "err", err)
	}
}

// sweepApprovals withdraws what executions had asked for that did not outlive the process before this one.
func (d *Daemon) sweepApprovals(ctx context.Context) error {
	looked := map[string]bool{"": true} // calls from outside wait for their client to ask again
	q := approval.Query{States: []approval.State{approval.Pending, approval.Approved}, Limit: 1000}
	for {
		all, err := d.approvals.List(ctx, q)
		if err != nil || len(all) == 0 {
			return err
		}
		for _, r := range all {
			if looked[r.Execution] {
				continue
			}
			looked[r.Execution] = true
			e, err := d.executor.Details(ctx, tool.Principal{ID: r.Principal}, r.Execution)
			switch {
			case err != nil && tool.AsError(err).Kind != tool.NotFound:
				return err
			case err == nil && (e.State == journal.Running || e.State == journal.Waiting):
				continue
			}
			if err := d.approvals.Ended(ctx, r.Execution); err != nil {
				return err
			}
		}
		q.Before = all[len(all)-1].ID
	}
}
