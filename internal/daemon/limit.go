package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/execution"
	"github.com/biplane-dev/biplane/internal/limit"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// limits reads the rules that bound what is used.
func (r *reader) limits(n *node) (rules []limit.Rule) {
	if n.kind != listNode {
		r.wrong(n, "limits must be a list, not %s", n.kind)
		return nil
	}
	const day = 24 * time.Hour
	for i, e := range n.list {
		rule := limit.Rule{Per: limit.PerPrincipal}
		what := fmt.Sprintf("limits[%d]", i)
		r.object(e, what, key{
			"what":      func(n *node) { rule.What = limit.What(r.oneOf(n, what+".what", texts(limit.Whats())...)) },
			"max":       func(n *node) { rule.Max = float64(r.count(n, what+".max", 1, 1<<50)) },
			"window":    func(n *node) { rule.Window = r.days(n, what+".window", time.Second, 400*day) },
			"per":       func(n *node) { rule.Per = limit.Per(r.oneOf(n, what+".per", texts(limit.Pers())...)) },
			"principal": func(n *node) { rule.Principal = r.text(n, what+".principal") },
			"group":     func(n *node) { rule.Group = r.text(n, what+".group") },
			"tools":     func(n *node) { rule.Tools = r.text(n, what+".tools") },
		})
		if err := rule.Check(); err != nil {
			r.wrong(e, "%s: %s", what, tool.AsError(err).Msg)
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

func texts[T ~string](all []T) (out []string) {
	for _, w := range all {
		out = append(out, string(w))
	}
	return out
}

// admit counts an execution, and what it used when it ends.
func (d *Daemon) admit(ctx context.Context, c *tool.Call) (func(*execution.Execution), error) {
	done, err := d.limits.Take(ctx, c, true)
	if err != nil {
		return nil, err
	}
	return d.ending(c, done), nil
}

// readmit counts an execution that goes on after a restart, and what it uses from now on: by the rules, and by the policies that
// would let it begin now.
func (d *Daemon) readmit(c *tool.Call) func(*execution.Execution) {
	c.Tool = &tool.Tool{Upstream: catalog.Reserved, Name: "execute"}
	c.Grant = d.policies.engine.Load().Decide(policy.Request{Principal: c.Principal, Tool: c.Tool, Arguments: c.Arguments, Labels: c.Labels}).Grant
	return d.ending(c, d.limits.Resume(context.Background(), c))
}

// ending tells what an execution used, when it has ended.
func (d *Daemon) ending(c *tool.Call, done func(limit.Spent)) func(*execution.Execution) {
	return func(e *execution.Execution) {
		spent := limit.Spent{CPU: e.CPU()}
		if d.limits.Counts(c, limit.Tokens) {
			tokens, err := e.Count()
			if err != nil {
				d.log.Warn("count the tokens of an execution", "execution", e.ID, "err", err)
			}
			spent.Tokens = tokens.Returned
		}
		done(spent)
	}
}

// newLimits makes what holds the limits.
func (d *Daemon) newLimits(ctx context.Context) (*limit.Limiter, error) {
	return limit.New(ctx, limit.Config{Rules: d.cfg.Settings.Limits, Store: d.store.Limits()})
}
