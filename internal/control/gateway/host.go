package gateway

import (
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// ReachesHost reports whether some connection that the program of c makes to a host could be
// permitted. The host is in lower case.
func (g *Gateway) ReachesHost(c *tool.Call, host string) bool {
	if by := c.FromProgram().Serving; by != nil {
		return slices.Contains(by.Hosts, host)
	}
	return g.cfg.Policy.Sight(c.Principal, time.Time{}).ReachesHost(host)
}

// PermitsConnection reports whether policy permits c, a call of one of Biplane's tools for the
// network, possibly after a person was asked. It records nothing.
func (g *Gateway) PermitsConnection(c *tool.Call) bool {
	e, err := g.cfg.Catalog.View().Resolve(c.Path)
	if err != nil || !policy.ReachesNetwork(e.Tool) {
		return false
	}
	return grantHost(c, e.Tool, g.decide(requestOf(c, e.Tool))).Effect != policy.Deny
}
