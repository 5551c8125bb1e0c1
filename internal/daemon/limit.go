package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/tool"
)

// supervisor counts executions against the limits, and records their ends.
type supervisor struct{ *Daemon }

// AdmitExecution counts an execution against the limits. The returned function records its usage
// when it ends.
func (d supervisor) AdmitExecution(ctx context.Context, c *tool.Call) (func(*execution.Execution), error) {
	done, err := d.limits.Take(ctx, c, true)
	if err != nil {
		return nil, err
	}
	return d.ending(c, done), nil
}

// ReadmitExecution counts an execution that continues after a restart, and its usage from now on.
// The limits are those of the configuration and of the policies that would now allow its start.
func (d supervisor) ReadmitExecution(c *tool.Call) func(*execution.Execution) {
	c.Tool = tool.ExecuteTool()
	c.Grant = d.policies.engine.Load().Decide(policy.Request{Principal: c.Principal, Tool: c.Tool,
		Arguments: c.Arguments, Labels: c.Labels}).Grant
	return d.ending(c, d.limits.Resume(context.Background(), c))
}

// ending returns a function that passes the usage of an ended execution to done.
func (d *Daemon) ending(c *tool.Call, done func(limit.Spent)) func(*execution.Execution) {
	return func(e *execution.Execution) {
		spent := limit.Spent{CPU: e.CPU()}
		if d.limits.HasLimit(c, limit.Tokens) {
			tokens, err := e.Count()
			if err != nil {
				d.log.Warn("tokens not counted", "execution", e.ID, "err", err)
			}
			spent.Tokens = tokens.Returned
		}
		done(spent)
	}
}

// newLimits returns the Limiter of the configured limits.
func (d *Daemon) newLimits(ctx context.Context, key *secret.Key) (*limit.Limiter, error) {
	return limit.New(ctx, limit.Config{Rules: d.cfg.Settings.Limits, Store: d.store.Limits(key)})
}
