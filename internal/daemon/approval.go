package daemon

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/approval"
	"github.com/biplane-dev/biplane/internal/approval/form"
	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/identity"
	"github.com/biplane-dev/biplane/internal/journal"
	"github.com/biplane-dev/biplane/internal/secret"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/web"
)

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
				Detail:   map[string]string{"request_digest": r.Digest, "requested_by": r.Principal, "channel": who.Via},
			})
			return err
		},
		Refused: func(ctx context.Context, who approval.Decider, r *approval.Request, to approval.State, why error) {
			d.refused(ctx, who.Principal, who.Via, audit.Subject{Tool: r.Tool, Execution: r.Execution, Call: r.Call, Name: r.ID}, string(to), why)
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

// refused records that somebody tried to decide on what they may not, or as they may not. Nothing
// was decided: that this can't be written changes nothing.
func (d *Daemon) refused(ctx context.Context, who tool.Principal, via string, on audit.Subject, wanted string, why error) {
	detail := map[string]string{"channel": via}
	if wanted != "" {
		detail["wanted"] = wanted
	}
	e := tool.AsError(why)
	if _, err := d.audit.Event(context.WithoutCancel(ctx), audit.Event{
		Kind: audit.KindApproval, Principal: who, Subject: on, Outcome: audit.Failed, ErrorKind: e.Kind,
		Decision: audit.Decision{Effect: "refused", Policy: "approvals", Reason: e.Msg}, Detail: detail,
	}); err != nil {
		d.log.Error("record of a decision that was refused", "err", err)
	}
}

// forgetApprovals throws away requests that were decided on long ago; the record has them.
func (d *Daemon) forgetApprovals(ctx context.Context) {
	keep := cmp.Or(d.cfg.Settings.Approvals.Keep, 400*24*time.Hour)
	if err := d.store.ForgetApprovals(ctx, time.Now().Add(-keep)); err != nil && ctx.Err() == nil {
		d.log.Warn("approvals: throw away what was kept", "err", err)
	}
}

// newDesk makes what puts requests to people at their agents' clients.
func (d *Daemon) newDesk(key *secret.Key, local tool.Principal) *form.Desk {
	in := d.cfg.Settings.Approvals.InClient
	if in == "false" {
		return nil
	}
	refused := func(ctx context.Context, c form.Call, why error) {
		d.refused(ctx, c.Principal, "client", audit.Subject{Tool: c.Tool}, "", why)
	}
	return form.New(form.Config{Requests: d.shownRequests(), Key: key, Elsewhere: d.approvalAt, Refused: refused, Decider: func(p tool.Principal) (approval.Decider, bool) {
		mine := p.ID == local.ID && identity.Has(p, identity.Admin) // stdio and the socket: nobody else comes so
		who := approval.Decider{Principal: p, Any: identity.Has(p, identity.Admin), Via: "client"}
		return who, mine || in == "true" && identity.Has(p, identity.Approver)
	}})
}

// pages makes what people see in a browser.
func (d *Daemon) pages() *web.Server {
	return web.New(web.Config{
		Approvals: d.shownRequests(), Secure: d.cfg.Settings.TLS.Private(), Log: d.log,
		Program: func(ctx context.Context, r *approval.Request) string {
			if r.Execution == "" {
				return ""
			}
			e, err := d.executor.Details(ctx, tool.Principal{ID: r.Principal}, r.Execution)
			if err != nil { // it may be kept no more
				return ""
			}
			return e.Program
		},
	})
}

// approvalAt says where a person sees a request that a form has no room for.
func (d *Daemon) approvalAt(id string) string {
	if at := d.approvalPage(id); at != "" {
		return at
	}
	return "biplane approvals show " + id
}

// approvalPage is the address, as people use it, of the page of a request, or of all that an
// execution waits for; empty where nobody can decide on a page.
func (d *Daemon) approvalPage(id string) string {
	s := d.cfg.Settings
	if d.tcp == nil || s.Auth == nil {
		return ""
	}
	base := strings.TrimSuffix(s.Auth.Resource, "/mcp")
	if base == "" {
		if host, _, err := net.SplitHostPort(d.Addr()); err != nil || net.ParseIP(host).IsUnspecified() {
			return "" // all addresses of this machine: which of them people use isn't known without auth.resource
		}
		base = d.URL()
	}
	if strings.HasPrefix(id, "ex_") {
		return base + "/approvals?execution=" + url.QueryEscape(id)
	}
	return base + "/approvals/" + url.PathEscape(id)
}

// askedNoMore withdraws what an execution that has ended had asked people for, unless it only ended
// with this process.
func (d *Daemon) askedNoMore(execution string) {
	if d.stopping.Load() {
		return
	}
	if err := d.approvals.Ended(context.Background(), execution); err != nil {
		d.log.Warn("withdraw what an execution asked for", "execution", execution, "err", err)
	}
}

// sweepApprovals withdraws what executions had asked for that did not outlive the process before
// this one.
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
