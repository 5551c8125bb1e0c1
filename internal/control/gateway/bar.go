package gateway

import (
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// explainBar returns the decision on a tool that a principal's profile or credential doesn't have,
// whatever policy says. The second result is false if both have it.
func (g *Gateway) explainBar(p tool.Principal, t *tool.Tool) (policy.Decision, bool) {
	if why := g.cfg.Profiles.ExplainDenial(p, t); why != "" {
		return policy.Decision{Effect: policy.Deny, Policy: "profile", Reason: why}, true
	}
	if g.cfg.Credentials != nil {
		if why := g.cfg.Credentials.ExplainDenial(p, t); why != "" {
			return policy.Decision{Effect: policy.Deny, Policy: "credential", Reason: why}, true
		}
	}
	return policy.Decision{}, false
}
