package daemon

import (
	"context"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/form"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/journal"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newApprovals returns the Gate where calls wait for approval. Every decision is recorded before it
// takes effect.
func (d assembly) newApprovals() *approval.Gate {
	s := d.cfg.Settings.Approvals
	return approval.New(approval.Config{Store: d.store.Approvals(d.key), Expires: s.Expires, Separate: s.Separate,
		Recorder: decisionRecord{d.Daemon}})
}

// decisionRecord records people's decisions in the audit record and in the log.
type decisionRecord struct{ *Daemon }

// RecordDecision records a decision before it is made.
func (d decisionRecord) RecordDecision(ctx context.Context, who approval.Decider, r *approval.Request,
	to approval.State, note string) error {
	_, err := d.audit.Event(ctx, audit.Event{
		Kind: audit.KindApproval, Principal: who.Principal,
		Subject:  audit.Subject{Tool: r.Tool, Execution: r.Execution, Call: r.Call, Name: r.ID},
		Decision: audit.Decision{Effect: string(to), Policy: r.Policy + "@" + r.Version, Reason: note},
		Detail: map[string]string{"request_digest": r.Digest, "requested_by": r.Principal,
			"channel": who.Via},
	})
	return err
}

// RecordRefusal records an attempt to decide a request without permission.
func (d decisionRecord) RecordRefusal(ctx context.Context, who approval.Decider, r *approval.Request,
	to approval.State, why error) {
	d.recordRefusal(ctx, who.Principal, who.Via,
		audit.Subject{Tool: r.Tool, Execution: r.Execution, Call: r.Call, Name: r.ID}, string(to), why)
}

// NoteChange logs a new or decided request, and notifies people of it.
func (d decisionRecord) NoteChange(r approval.Request) {
	people(d).noticeRequest(&r)
	people(d).addEvent(api.EventApproval, r.ID, string(r.State), r.Principal)
	switch r.State {
	case approval.Pending:
		d.log.Warn("a call waits for a person", "tool", r.Tool, "reason", r.Reason, "see",
			"biplane approvals show "+r.ID)
	default:
		d.log.Info("a request was decided", "request", r.ID, "tool", r.Tool, "state", r.State, "by", r.Decider)
	}
}

// recordRefusal records an attempt to decide a request without permission or in an invalid way. An
// error writing the record is only logged, since nothing was decided.
func (d *Daemon) recordRefusal(ctx context.Context, who tool.Principal, via string, on audit.Subject,
	wanted string, why error) {
	detail := map[string]string{"channel": via}
	if wanted != "" {
		detail["wanted"] = wanted
	}
	e := tool.AsError(why)
	if _, err := d.audit.Event(context.WithoutCancel(ctx), audit.Event{
		Kind: audit.KindApproval, Principal: who, Subject: on, Outcome: audit.Failed, ErrorKind: e.Kind,
		Decision: audit.Decision{Effect: "refused", Policy: "approvals", Reason: e.Msg}, Detail: detail,
	}); err != nil {
		d.log.Error("refused decision not recorded", "err", err)
	}
}

// forgetApprovals ends requests whose time is over, and deletes requests that ended before the
// retention period. The audit record still has them.
func (d *Daemon) forgetApprovals(ctx context.Context) {
	if err := d.approvals.ExpireRequests(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("approval requests that are over not ended", "err", err)
	}
	keep := d.cfg.Settings.Approvals.Retention()
	if err := d.store.ForgetApprovals(ctx, time.Now().Add(-keep)); err != nil && ctx.Err() == nil {
		d.log.Warn("delete old approval requests", "err", err)
	}
}

// newDesk returns the Desk that shows requests in agents' clients; nil if the configuration turns
// that off.
func (d assembly) newDesk(local tool.Principal) *form.Desk {
	if d.cfg.Settings.Approvals.InClient == "false" {
		return nil
	}
	return form.New(form.Config{Requests: d.shownRequests(), Key: d.key, People: clientPeople{d.Daemon, local}})
}

// clientPeople are the people at agents' clients.
type clientPeople struct {
	*Daemon
	user tool.Principal // the local user
}

// IdentifyDecider returns the person at a principal's client as a decider.
func (d clientPeople) IdentifyDecider(p tool.Principal) (approval.Decider, bool) {
	// stdio and the socket: only the local user connects this way
	mine := p.ID == d.user.ID && identity.HasRole(p, identity.Admin)
	who := approval.Decider{Principal: p, Any: identity.HasRole(p, identity.Admin), Via: "client"}
	return who, mine || d.cfg.Settings.Approvals.InClient == "true" && identity.HasRole(p, identity.Approver)
}

// LocateRequest returns the address or command that shows a request.
func (d clientPeople) LocateRequest(id string) string {
	if at := d.approvalPage(id); at != "" {
		return at
	}
	return "biplane approvals show " + id
}

// RecordRefusal records an invalid answer.
func (d clientPeople) RecordRefusal(ctx context.Context, c form.Call, why error) {
	d.recordRefusal(ctx, c.Principal, "client", audit.Subject{Tool: c.Tool}, "", why)
}

// newPages returns the server of the approval pages. auth signs people in; it may be nil.
func (d assembly) newPages(auth *identity.Authenticator) *console.Server {
	return console.New(console.Config{
		Provider:  auth,
		Approvals: d.shownRequests(), Secure: d.cfg.Settings.TLS.Private(), Log: d.log,
		SignIns: signInPages{d.upstreams.signIns.Attempts, d.Daemon},
		Program: func(ctx context.Context, r *approval.Request) string {
			if r.Execution == "" {
				return ""
			}
			e, err := d.executor.Details(ctx, tool.Principal{ID: r.Principal}, r.Execution)
			if err != nil { // its program may no longer be stored
				return ""
			}
			return e.Program
		},
	})
}

// approvalPage returns the public URL of the page for a request or, given an execution's id, for
// all requests of that execution. It is empty if requests can't be decided on a page.
func (d *Daemon) approvalPage(id string) string {
	base := d.publicURL()
	if base == "" {
		return ""
	}
	if strings.HasPrefix(id, "ex_") {
		return base + "/approvals?execution=" + url.QueryEscape(id)
	}
	return base + "/approvals/" + url.PathEscape(id)
}

// withdrawRequests withdraws the requests of an execution that has ended, unless the daemon is
// stopping.
func (d *Daemon) withdrawRequests(execution string) {
	if d.life.stopping.Load() {
		return
	}
	if err := d.approvals.WithdrawAll(context.Background(), execution); err != nil {
		d.log.Warn("withdraw an execution's approval requests", "execution", execution, "err", err)
	}
}

// sweepApprovals withdraws the open requests of executions that ended with the previous process.
func (d *Daemon) sweepApprovals(ctx context.Context) error {
	looked := map[string]bool{}
	q := approval.Query{Programs: true, Limit: 1000}
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
			if err := d.approvals.WithdrawAll(ctx, r.Execution); err != nil {
				return err
			}
		}
		q.Before = all[len(all)-1].ID
	}
}

// publicURL returns the address that browsers use, without a path. It is empty if there is none, or
// no sign-in.
func (d *Daemon) publicURL() string {
	s := d.cfg.Settings
	if d.servers.tcp == nil || s.Auth == nil {
		return ""
	}
	if base := strings.TrimSuffix(s.Auth.Resource, "/mcp"); base != "" {
		return base
	}
	if host, _, err := net.SplitHostPort(d.Addr()); err != nil || net.ParseIP(host).IsUnspecified() {
		return "" // a wildcard address: the host that people use is unknown without auth.resource
	}
	return d.URL()
}
