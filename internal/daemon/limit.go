package daemon

import (
	"context"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
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
	return d.passUsage(c, done), nil
}

// AdmitProgram asks policy whether a program with findings may run. It records a refusal.
func (d supervisor) AdmitProgram(c *tool.Call, execution string, findings []tool.Finding) error {
	c.Tool = tool.ExecuteTool()
	decision := d.policies.gate.Load().DecideProgram(c, findings)
	if decision.Effect == policy.Allow {
		return nil
	}
	err := tool.Errorf(tool.Denied, "the program was not run: policy %s, because of what the review found in it (%s): "+
		"%s", decision.Policy, strings.Join(tool.FindingRules(findings), ", "), decision.Reason)
	// The program is refused either way, and event has logged why it could not be recorded.
	_ = d.event(context.Background(), withError(audit.Event{
		Kind: audit.KindExecution, Principal: c.Principal, Subject: audit.Subject{Execution: execution},
		Decision: audit.Decision{Effect: string(decision.Effect), Policy: decision.Policy + "@" + decision.Version,
			Reason: decision.Reason},
		Detail: map[string]string{"action": "refuse", "findings": strings.Join(tool.FindingRules(findings), ",")},
		Labels: c.Labels,
	}, err))
	return err
}

// AdmitImage asks policy whether a program may run with an image that was chosen for its imports.
// It records a refusal.
func (d supervisor) AdmitImage(c *tool.Call, execution, image string) error {
	c.Tool = tool.ExecuteTool()
	decision := d.policies.gate.Load().DecideSandbox(c, "image")
	if decision.Effect == policy.Allow {
		return nil
	}
	err := tool.Errorf(tool.Denied, "the program was not run: policy %s, because its imports need image %s: %s",
		decision.Policy, image, decision.Reason)
	detail := map[string]string{"action": "refuse", "image": image}
	_ = d.recordChoice(c, execution, "", decision, detail, err) // as above
	return err
}

// AdmitMove asks policy whether a session may move to processes. It records the decision.
func (d supervisor) AdmitMove(c *tool.Call, execution, session string) (err error) {
	c.Tool = tool.ExecuteTool()
	decision := d.policies.gate.Load().DecideSandbox(c, "tier")
	detail := map[string]string{"action": "move"}
	if decision.Effect != policy.Allow {
		detail["action"] = "refuse"
		err = tool.Errorf(tool.Denied, "the program was not run: policy %s, because session %q would move to a "+
			"process sandbox: %s", decision.Policy, session, decision.Reason)
	}
	if failed := d.recordChoice(c, execution, session, decision, detail, err); err == nil {
		return failed
	}
	return err
}

// AdmitTrial asks policy whether a program that is tried against a journal may make calls. It
// records the decision.
func (d supervisor) AdmitTrial(c *tool.Call, execution string, findings []tool.Finding) (err error) {
	c.Tool = tool.ExecuteTool()
	decision := d.policies.gate.Load().DecideTrial(c, findings)
	detail := map[string]string{"action": "try"}
	if decision.Effect != policy.Allow {
		detail["action"] = "refuse"
		err = tool.Errorf(tool.Denied, "the program was not tried: policy %s: %s", decision.Policy, decision.Reason)
	}
	if failed := d.recordChoice(c, execution, "", decision, detail, err); err == nil {
		return failed
	}
	return err
}

// recordChoice records a decision on the sandbox of an execution.
func (d supervisor) recordChoice(c *tool.Call, execution, session string, decision policy.Decision,
	detail map[string]string, err error) error {
	return d.event(context.Background(), withError(audit.Event{
		Kind: audit.KindExecution, Principal: c.Principal,
		Subject: audit.Subject{Execution: execution, Session: session},
		Decision: audit.Decision{Effect: string(decision.Effect), Policy: decision.Policy + "@" + decision.Version,
			Reason: decision.Reason},
		Detail: detail, Labels: c.Labels,
	}, err))
}

// ReadmitExecution counts an execution that continues after a restart, and its usage from now on.
// The limits are those of the configuration and of the policies that would now allow its start.
func (d supervisor) ReadmitExecution(c *tool.Call) func(*execution.Execution) {
	c.Tool = tool.ExecuteTool()
	c.Grant = d.policies.engine.Load().Decide(policy.Request{Principal: c.Principal, Tool: c.Tool,
		Arguments: c.Arguments, Labels: c.Labels}).Grant
	return d.passUsage(c, d.limits.Resume(context.Background(), c))
}

// passUsage returns a function that passes the usage of an ended execution to done.
func (d *Daemon) passUsage(c *tool.Call, done func(limit.Spent)) func(*execution.Execution) {
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
func newLimits(ctx context.Context, d *Daemon, key *secret.Key) (*limit.Limiter, error) {
	return limit.New(ctx, limit.Config{Rules: d.cfg.Settings.Limits, Store: d.store.Limits(key), Breaks: people{d}})
}
