package gateway

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Planned is the recorded effect of a call that was not sent because its program is being planned.
const Planned = "planned"

// takeOver asks the Planner of a program that is being planned, or that carries out a plan, what to
// do with each call that may write.
func takeOver(g *Gateway, next handler) handler {
	return func(ctx context.Context, r *request) (*tool.Result, error) {
		c := &r.call
		planner := c.FromProgram().Planner
		if planner == nil || r.decision.Effect == policy.Deny || g.cfg.Policy.ReadOnly(c.Tool) {
			return next(ctx, r)
		}
		instead, err := planner.TakeOver(c, g.version())
		switch {
		case err != nil:
			said := policy.Decision{Effect: policy.Deny, Policy: "plan", Version: r.decision.Version,
				Reason: tool.AsError(err).Msg}
			return g.answer(ctx, c, auditDecision(string(policy.Deny), said), nil, tool.NotSent(err))
		case instead.Result != nil:
			r.said.Reason = instead.Reason
			return g.answer(ctx, c, auditDecision(Planned, r.said), instead.Result, nil)
		}
		c.Arguments, r.said.Reason = instead.Arguments, instead.Reason
		r.decision.Effect = policy.Allow // a person has approved it, as part of the plan
		return next(ctx, r)
	}
}

// answer records a call that is answered without being sent.
func (g *Gateway) answer(ctx context.Context, c *tool.Call, d audit.Decision, result *tool.Result,
	err error) (*tool.Result, error) {
	entry, berr := g.cfg.Audit.Begin(ctx, c, d)
	if berr != nil {
		return nil, errNotRecorded(ctx, c, berr)
	}
	_ = entry.End(ctx, result, err)
	return result, err
}
