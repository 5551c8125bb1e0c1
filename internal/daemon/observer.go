package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	notices "github.com/biplane-dev/biplane/internal/control/notice"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An observer reports changes of the upstreams and the policies to agents, people and the audit
// record.
type observer struct{ *Daemon }

func (d observer) updateTools() {
	d.index.changes.Add(1)
	d.servers.mcp.NotifyTools()
	d.reload.reviewed.signalChange()
}

func (d observer) updateOffers() { d.servers.mcp.NotifyOffers() }

func (d observer) updateResource(upstream, uri, owner string) {
	d.servers.mcp.NotifyResource(upstream, uri, owner)
}

func (d observer) announceLists(tools, offers bool) {
	if tools {
		d.servers.mcp.NotifyTools()
	}
	if offers {
		d.servers.mcp.NotifyOffers()
	}
}

// noteHealth tells clients of the API of the state of an upstream, and people if its sign-in has
// ended.
func (d observer) noteHealth(upstream, state string) {
	if d.servers.expiries.lostSignIn(upstream, state) {
		d.servers.notices.AddNotice(notices.Notice{Kind: notices.SignIn, Subject: upstream,
			Link: people(d).noticePage("/tools"), Command: "biplane connect " + upstream})
	}
	people(d).addEvent(api.EventUpstream, upstream, state, "")
}

// RecordSignIn implements signin.Recorder.
func (d observer) RecordSignIn(p tool.Principal, upstream, owner, action string, err error) {
	detail := map[string]string{"action": action}
	if owner != "" {
		detail["owner"] = owner
	}
	_ = d.event(context.Background(), withError(audit.Event{
		Kind: audit.KindSignIn, Principal: p, Subject: audit.Subject{Upstream: upstream}, Detail: detail,
	}, err))
}

// recordPolicy records that policies took effect or were rejected, if they differ from those
// last recorded.
func (d observer) recordPolicy(ctx context.Context, e *policy.Engine, problem error) {
	last, err := d.audit.Newest(ctx, audit.KindPolicy)
	if err != nil {
		d.log.Warn("recorded policies not read", "err", err)
	}
	d.recordPolicyAfter(ctx, last[audit.KindPolicy], e, problem)
}

// recordPolicyAfter is like recordPolicy, but its caller knows the last policy record: nil if there
// is none.
func (d observer) recordPolicyAfter(ctx context.Context, last *audit.Record, e *policy.Engine, problem error) {
	ev := audit.Event{Kind: audit.KindPolicy, Principal: identity.LocalUser(),
		Subject: audit.Subject{Name: e.Name()}, Detail: map[string]string{"version": e.Version()}, Outcome: audit.OK}
	if problem != nil {
		ev.Outcome, ev.ErrorKind = audit.Failed, tool.AsError(problem).Kind
	}
	if last != nil && problem == nil && last.End.Outcome == audit.OK && last.Subject.Name == e.Name() &&
		last.Detail["version"] == e.Version() {
		return
	}
	if _, err := d.audit.Event(ctx, ev); err != nil {
		d.log.Error("policies not recorded", "err", err)
	}
}
