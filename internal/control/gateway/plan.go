package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
)

// Planned is the recorded effect of a call that was not sent because its program is being planned.
const Planned = "planned"

// plan asks a person about all the writes of a program, and has them carried out. The plan tool is
// in no catalog: only the executor sets Program.Plan.
func (g *Gateway) plan(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	next := *c
	next.Tool = plan.Definition()
	next.Path = next.Tool.Path()
	p, err := plan.Parse(c.Arguments)
	if err != nil {
		return nil, tool.NotSent(err)
	}
	return g.recorded(ctx, &next, g.decidePlan(&next, p), c.FromProgram().Plan)
}

// decidePlan decides on each call of a plan. A denied call denies the plan. Otherwise a person is
// asked, even if policy allows the individual calls, because the agent requested that. The
// approvers are the groups common to all calls that need approval.
func (g *Gateway) decidePlan(c *tool.Call, p *plan.Plan) policy.Decision {
	version := g.cfg.Policy.Version()
	deny := func(format string, a ...any) policy.Decision {
		return policy.Decision{Effect: policy.Deny, Policy: "plan", Version: version, Reason: fmt.Sprintf(format, a...)}
	}
	if p.Policies != version {
		return deny("the policies have changed since it was planned: plan it anew")
	}
	view := g.cfg.Catalog.View()
	var groups []string
	asked := false
	for i, w := range p.Writes {
		e, err := view.Resolve(w.Tool)
		switch {
		case err != nil || e.Tool.Path() != w.Tool:
			return deny("call %d, %s: the tool is not there any more: plan it anew", i+1, w.Tool)
		case e.Tool.Digest() != w.Definition:
			return deny("call %d, %s: the tool has changed since it was planned: plan it anew", i+1, w.Tool)
		}
		d := g.decide(policy.Request{Principal: c.Principal, Tool: e.Tool,
			Arguments: w.Arguments, Parent: c.FromProgram().Execution, Tier: c.FromProgram().Tier, Labels: c.Labels})
		switch {
		case d.Effect == policy.Deny:
			return deny("call %d, %s, is denied by policy %s: %s", i+1, w.Tool, d.Policy, d.Reason)
		case d.Effect != policy.Ask || len(d.Approvers) == 0:
		case !asked:
			groups, asked = slices.Clone(d.Approvers), true
		default:
			groups = slices.DeleteFunc(groups, func(name string) bool { return !slices.Contains(d.Approvers, name) })
		}
	}
	if asked && len(groups) == 0 {
		return deny("no group may decide on all of its calls: plan those for different groups apart")
	}
	n := "1 call"
	if len(p.Writes) != 1 {
		n = fmt.Sprintf("%d calls", len(p.Writes))
	}
	return policy.Decision{Effect: policy.Ask, Policy: "plan", Version: version, Reason: "a plan of " + n + " that may write", Approvers: groups}
}

// currentPlan returns an error if an approved plan could not be carried out completely now.
func (g *Gateway) currentPlan(c *tool.Call) error {
	p, err := plan.Parse(c.Arguments)
	if err != nil {
		return err
	}
	if d := g.decidePlan(c, p); d.Effect == policy.Deny {
		return tool.Errorf(tool.Conflict, "%s", d.Reason)
	}
	return nil
}

// takenOver makes a call of a program that is being planned, or carries out a call of a plan.
func (g *Gateway) takenOver(ctx context.Context, c *tool.Call, d policy.Decision, caller tool.Caller) (*tool.Result, error) {
	asIs, effect := d, ""
	instead, err := c.By.Planner.TakeOver(c, g.version())
	switch {
	case err != nil:
		effect, asIs = string(policy.Deny), policy.Decision{Effect: policy.Deny, Policy: "plan", Version: d.Version, Reason: tool.AsError(err).Msg}
		caller = tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return nil, tool.NotSent(err) })
	case instead.Result != nil:
		effect, asIs.Reason = Planned, instead.Reason
		caller = tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return instead.Result, nil })
	default:
		c.Arguments, asIs.Reason = json.RawMessage(instead.Arguments), instead.Reason
		d.Effect = policy.Allow // a person has approved it, as part of the plan
		return g.record(ctx, c, d, asIs, caller)
	}
	entry, berr := g.cfg.Audit.Begin(ctx, c, audit.Decision{Effect: effect, Policy: versioned(asIs), Reason: because(asIs)})
	if berr != nil {
		return nil, unrecorded(ctx, c, berr)
	}
	result, err := caller.Call(ctx, c)
	_ = entry.End(ctx, result, err)
	return result, err
}

// version returns the version of the policies now in force.
func (g *Gateway) version() string {
	if g.cfg.Latest != nil {
		return g.cfg.Latest()
	}
	return g.cfg.Policy.Version()
}
