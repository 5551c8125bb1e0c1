package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// approve waits for a person if the decision is to ask, and rejects the call if it is denied.
func approve(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c, d := &r.call, &r.decision
		switch d.Effect {
		case policy.Allow:
		case policy.Ask:
			if c.FromProgram().Unattended {
				return nil, tool.NotSent(tool.Errorf(tool.Denied, "%s needs approval by policy %s: %s. "+
					"No one is asked here", c.Path, d.Policy, d.Reason))
			}
			approved, err := g.cfg.Approval.Wait(ctx, &approval.Ask{
				Call: c, Policy: d.Policy, Version: d.Version, Reason: d.Reason, Labels: c.Labels,
				Approvers: d.Approvers, Recheck: approvedCall{g, c},
			})
			if err != nil {
				return nil, tool.NotSent(err)
			}
			c.Arguments = approved.Arguments
			r.log.AddApproval(approved.ID, approved.Decider)
			r.confirm = c.Observe().OnSend(c, string(d.Effect))
		default:
			return nil, tool.NotSent(tool.Errorf(tool.Denied, "%s is denied by policy %s: %s%s", c.Path,
				d.Policy, d.Reason, suggestPermit(c, d)))
		}
		return next(ctx, r)
	}
}

// suggestPermit returns the smallest policy that would permit a connection that no policy permits,
// or "".
func suggestPermit(c *tool.Call, d *policy.Decision) string {
	if !d.IsUnpermitted() || !policy.ReachesNetwork(c.Tool) || c.FromProgram().Serving != nil {
		return ""
	}
	t, err := policy.TargetOf(c.Arguments)
	if err != nil {
		return ""
	}
	return ". The smallest policy that would: " + t.ExplainPermit()
}

// An approvedCall is a call that was approved.
type approvedCall struct {
	*Gateway
	call *tool.Call
}

// RecheckCall returns an error if the tool or the policies have changed, or if the caller may no
// longer call: keys may be revoked and hours may end while people think.
func (g approvedCall) RecheckCall(context.Context) error {
	c := g.call
	if g.version() != g.cfg.Policy.Version() {
		return tool.Errorf(tool.Conflict,
			"the policies have changed since: call it again, to have it decided on by the new ones")
	}
	if c.FromProgram().Plan != nil {
		return g.currentPlan(c)
	}
	e := g.cfg.Catalog.View().Entry(c.Tool.Upstream, c.Tool.Name)
	if e == nil {
		return tool.Errorf(tool.NotFound, "%s is not there any more", c.Tool.Path())
	}
	if e.Tool.Digest() != c.Tool.Digest() {
		return tool.Errorf(tool.Conflict, "%s has changed since: its effect may differ from what was approved",
			c.Tool.Path())
	}
	if d := g.decide(requestOf(c, e.Tool.ForCall(c.Arguments))); d.Effect == policy.Deny {
		return tool.Errorf(tool.Denied, "it is denied by policy %s by now: %s", d.Policy, d.Reason)
	}
	return nil
}
