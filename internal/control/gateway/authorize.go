package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// authorize decides on the call by policy.
func authorize(_ context.Context, g *Gateway, r *request) error {
	if r.hidden {
		return nil
	}
	d := g.decide(requestOf(&r.call, r.entry.Tool))
	d.Remark = r.remark
	r.setDecision(d)
	return nil
}

// requestOf returns what policy decides on: a call of t.
func requestOf(c *tool.Call, t *tool.Tool) policy.Request {
	by := c.FromProgram()
	return policy.Request{Principal: c.Principal, Tool: t,
		Arguments: c.Arguments, Parent: by.Execution, Tier: by.Tier, Labels: c.Labels}
}

// decide decides on r. A barred credential overrides every policy. A key for one
// upstream therefore sees and calls no other, and a revoked key nothing, even in a running program.
func (g *Gateway) decide(r policy.Request) policy.Decision {
	if g.cfg.Credentials != nil {
		if why := g.cfg.Credentials.ExplainDenial(r.Principal, r.Tool); why != "" {
			return policy.Decision{Effect: policy.Deny, Policy: "credential", Reason: why}
		}
	}
	return g.cfg.Policy.Decide(r)
}
