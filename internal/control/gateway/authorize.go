package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// authorize decides on the call by policy.
func authorize(_ context.Context, g *Gateway, r *request) error {
	if r.hidden {
		return nil
	}
	r.call.Tool = r.entry.Tool.ForCall(r.call.Arguments) // as revealed: what is judged is what is sent
	d := grantHost(&r.call, r.call.Tool, g.decide(requestOf(&r.call, r.call.Tool)))
	d.Remark = r.remark
	r.setDecision(d)
	return nil
}

// requestOf returns the request to policy for a call of t.
func requestOf(c *tool.Call, t *tool.Tool) policy.Request {
	by := c.FromProgram()
	return policy.Request{Principal: c.Principal, Tool: t,
		Arguments: c.Arguments, Parent: cmp.Or(by.Execution, by.Sandbox), Tier: by.Tier, Labels: c.Labels,
		Findings: tool.FindingRules(by.Findings)}
}

// decide decides on r. Profiles and credentials override every policy. A key for one upstream
// therefore sees and calls no other, and a revoked key nothing, even in a running program.
func (g *Gateway) decide(r policy.Request) policy.Decision {
	if d, barred := g.explainBar(r.Principal, r.Tool); barred {
		return d
	}
	return g.cfg.Policy.DecideCall(r)
}

// DecideProgram decides again on a call of execute, once the review has found faults in its
// program. The program runs only if the answer is Allow. Where a policy now asks a person, or
// requires a stronger tier than the call was granted, the program is denied: both must be known
// before the review.
func (g *Gateway) DecideProgram(c *tool.Call, findings []tool.Finding) policy.Decision {
	r := requestOf(c, c.Tool)
	before := g.decide(r)
	r.Findings = tool.FindingRules(findings)
	d := g.decide(r)
	switch {
	case d.Effect == policy.Ask && before.Effect == policy.Ask && d.Policy == before.Policy:
		d.Effect = policy.Allow // a person has already approved the call
	case d.Effect == policy.Ask:
		d.Effect, d.Approvers = policy.Deny, nil
		d.Reason = "it requires approval (" + d.Reason + "), which is not available for the findings of a review"
	}
	if d.Effect == policy.Allow && d.Grant.Tier > c.Grant.Tier {
		d.Effect = policy.Deny
		d.Reason = fmt.Sprintf("a program with these findings must run at tier %s, and this one was started for %s",
			d.Grant.Tier, c.Grant.Tier)
	}
	return d
}

// DecideTrial decides on a call of execute whose program would only be tried: recorded answers
// replace its calls, and the others are made if they only read. No one is asked, so it is denied
// where a policy asks.
func (g *Gateway) DecideTrial(c *tool.Call, findings []tool.Finding) policy.Decision {
	d := g.DecideProgram(c, findings)
	if d.Effect != policy.Allow {
		return d
	}
	if before := g.decide(requestOf(c, c.Tool)); before.Effect == policy.Ask {
		d = before
		d.Effect, d.Approvers = policy.Deny, nil
		d.Reason = "it requires approval (" + d.Reason + "): run the program instead"
	}
	return d
}

// DecideSandbox decides on a call of execute that has an argument (image, tier) which was chosen
// after the call was decided on. An approval or a stronger tier is no longer available, so it is
// denied then.
func (g *Gateway) DecideSandbox(c *tool.Call, argument string) policy.Decision {
	d := g.decide(requestOf(c, c.Tool))
	switch {
	case d.Effect == policy.Ask:
		d.Effect, d.Approvers = policy.Deny, nil
		d.Reason = "it requires approval (" + d.Reason + "): name the " + argument + " in the call"
	case d.Effect == policy.Allow && d.Grant.Tier > c.Grant.Tier:
		d.Effect = policy.Deny
		d.Reason = fmt.Sprintf("such programs must run at tier %s: name the %s in the call", d.Grant.Tier, argument)
	}
	return d
}

// grantHost applies the grants to the program of c: see GrantHost.
func grantHost(c *tool.Call, t *tool.Tool, d policy.Decision) policy.Decision {
	return GrantHost(c.FromProgram().Serving, t, c.Arguments, d)
}

// GrantHost applies the configuration's grants to a request that the program of a folder's tool, or
// a hosted server, sends to a network host, which policy has decided as d. It reaches only hosts
// that are granted to it. A grant replaces a permit, but not a forbid. by may be nil.
func GrantHost(by *tool.Serving, t *tool.Tool, arguments json.RawMessage, d policy.Decision) policy.Decision {
	if by == nil || !policy.ReachesNetwork(t) {
		return d
	}
	target, err := policy.TargetOf(arguments)
	if err != nil {
		return d // policy has denied it
	}
	switch granted := slices.Contains(by.Hosts, target.Host); {
	case !granted && d.Effect != policy.Deny:
		return policy.Decision{Effect: policy.Deny, Policy: by.Grantor, Version: d.Version,
			Reason: "the configuration doesn't grant " + target.Host + ": add it to " + by.Grantor + ".network"}
	case !granted:
		d.Reason += "; " + by.Grantor + ".network in the configuration doesn't grant it either"
	case d.IsUnpermitted():
		return policy.Decision{Effect: policy.Allow, Policy: by.Grantor, Version: d.Version, Grant: d.Grant,
			Reason: "the configuration grants this host"}
	}
	return d
}

// PermitsAgain reports whether c, a call that was permitted before, would be permitted now. If a
// person must be asked, they were, unless it differs from that call.
func (g *Gateway) PermitsAgain(c *tool.Call, differs bool) bool {
	if !g.Shows(c.Principal, c.Tool) {
		return false
	}
	d := g.decide(requestOf(c, c.Tool))
	return d.Effect == policy.Allow || d.Effect == policy.Ask && !differs
}
