package daemon

import (
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy/desk"
)

// newPolicyDesk returns the desk that answers questions about policies. u is nil if they are asked
// while the upstreams connect.
func (d *Daemon) newPolicyDesk(u desk.Upstreams) *desk.Desk {
	s := d.cfg.Settings // of these parts none changes without a restart
	c := desk.Config{
		Policies: d.policies, Rules: d.policies, Tier: s.Sandbox.Tier, Strongest: s.Sandbox.Strongest,
		Catalog: d.catalog, Upstreams: u, Audit: d.audit, Keys: d.keys, Local: identity.LocalUser(),
		Grants: d.policies,
	}
	if s.Auth != nil {
		c.SignIn = desk.SignIn{Keys: s.Auth.Keys, Issuers: len(s.Auth.Issuers) > 0}
	}
	return desk.New(c)
}
