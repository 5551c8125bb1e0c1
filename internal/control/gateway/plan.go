package gateway

import (
	"context"
	"fmt"
	"slices"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/plan"
)

// askPlan asks a person about all the writes of a program, and has them carried out. The plan tool
// is in no catalog: only the executor sets Program.Plan.
func askPlan(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		carrier := c.FromProgram().Plan
		if carrier == nil {
			return next(ctx, r)
		}
		c.Tool = plan.Definition()
		c.Path = c.Tool.Path()
		p, err := plan.Parse(c.Arguments)
		if err != nil {
			return nil, tool.NotSent(err)
		}
		r.target = carrier
		r.setDecision(g.decidePlan(c, p))
		return g.recorded(ctx, r)
	}
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
		write := *c // as the program will make it
		write.Arguments = w.Arguments
		d := g.decide(requestOf(&write, e.Tool.ForCall(w.Arguments)))
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
	return policy.Decision{Effect: policy.Ask, Policy: "plan", Version: version,
		Reason: "a plan of " + n + " that may write", Approvers: groups}
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

// version returns the version of the policies now in force.
func (g *Gateway) version() string {
	if g.cfg.InForce != nil {
		return g.cfg.InForce.CurrentVersion()
	}
	return g.cfg.Policy.Version()
}
