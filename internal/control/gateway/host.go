package gateway

import (
	"context"
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ReachesHost reports whether some connection that the program of c makes to a host could be
// permitted. The host is in lower case.
func (g *Gateway) ReachesHost(c *tool.Call, host string) bool {
	defer g.chargeSandbox(c)()
	if by := c.FromProgram().Serving; by != nil {
		return slices.Contains(by.Hosts, host)
	}
	return g.cfg.Policy.Sight(c.Principal, time.Time{}).ReachesHost(host)
}

// chargeSandbox returns a function that charges the time since to the owner of the sandbox that c
// is from. The time for programs counts as theirs.
func (g *Gateway) chargeSandbox(c *tool.Call) (done func()) {
	if g.cfg.Limits == nil || c.FromProgram().Sandbox == "" {
		return func() {}
	}
	began := time.Now()
	return func() {
		if d := time.Since(began); d >= briefWork {
			g.cfg.Limits.Spend(context.Background(), c.Principal, d)
		}
	}
}

// PermitsConnection reports whether policy permits c, a call of one of Biplane's tools for the
// network, without asking a person: a connection can't wait. It records nothing.
func (g *Gateway) PermitsConnection(c *tool.Call) bool {
	defer g.chargeSandbox(c)()
	e, err := g.cfg.Catalog.View().Resolve(c.Path)
	if err != nil || !policy.ReachesNetwork(e.Tool) {
		return false
	}
	return grantHost(c, e.Tool, g.decide(requestOf(c, e.Tool))).Effect == policy.Allow
}
