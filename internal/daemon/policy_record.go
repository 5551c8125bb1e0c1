package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/policy/desk"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newPolicyDesk returns what answers questions about policies. u is nil if they are asked while the
// upstreams connect.
func (d *Daemon) newPolicyDesk(u desk.Upstreams) *desk.Desk {
	s := d.cfg.Settings // of these parts none changes without a restart
	c := desk.Config{
		Policies: d.policies, Rules: d.policies, Tier: s.Sandbox.Tier, Strongest: s.Sandbox.Strongest,
		Catalog: d.catalog, Upstreams: u, Audit: d.audit, Keys: d.keys, Local: identity.LocalUser(),
	}
	if s.Auth != nil {
		c.SignIn = desk.SignIn{Keys: s.Auth.Keys, Issuers: len(s.Auth.Issuers) > 0}
	}
	return desk.New(c)
}

// recordPolicy records that policies came into force or were rejected, if they differ from those
// last recorded.
func (d *Daemon) recordPolicy(ctx context.Context, e *policy.Engine, problem error) {
	last, err := d.audit.Newest(ctx, audit.KindPolicy)
	if err != nil {
		d.log.Warn("recorded policies not read", "err", err)
	}
	d.recordPolicyAfter(ctx, last[audit.KindPolicy], e, problem)
}

// recordPolicyAfter is recordPolicy with the last policy record given; nil if there is none.
func (d *Daemon) recordPolicyAfter(ctx context.Context, last *audit.Record, e *policy.Engine, problem error) {
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
