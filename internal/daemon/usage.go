package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newUsage returns the Meter of the calls.
func (d assembly) newUsage() *usage.Meter {
	s := d.cfg.Settings
	return usage.New(usage.Config{Store: d.store.Usage(d.key), Tokens: d.meters.tokens, Prices: s.Prices,
		Keep:  s.Usage.Keep,
		Hours: s.Usage.Hours, Log: d.log})
}

// findTool returns the tool with a path, nil if there is none.
func (d *Daemon) findTool(path string) *tool.Tool {
	if e, err := d.catalog.View().Resolve(path); err == nil {
		return e.Tool
	}
	return nil
}

// gauges returns the figures that metrics show.
type gauges struct{ *Daemon }

// UpstreamStates returns the states of upstreams, by name.
func (d gauges) UpstreamStates() map[string]tool.State { return d.upstreams.listStates() }

// ExecutionLoad returns the number of executions.
func (d gauges) ExecutionLoad() (running, queued int) { return d.executor.Load() }

// PendingApprovals returns the number of requests that wait for a person.
func (d gauges) PendingApprovals() (n int) {
	q := approval.Query{States: []approval.State{approval.Pending}, Limit: 1000}
	for {
		open, err := d.approvals.List(context.Background(), q)
		if err != nil {
			d.log.Warn("requests for approval not counted", "err", err)
		}
		if len(open) == 0 {
			return n
		}
		n += len(open)
		q.Before = open[len(open)-1].ID
	}
}

// HasReloadProblem reports whether a changed configuration is not in force.
func (d gauges) HasReloadProblem() bool {
	_, problem := d.policies.state()
	last := d.reload.state.Load()
	return problem != "" || last != nil && last.Problem != ""
}

// CheckpointFailures returns how often each destination of checkpoints has failed in a row.
func (d gauges) CheckpointFailures() map[string]int {
	sinks, err := d.keeper.ledger.Sinks()
	if err != nil {
		d.log.Warn("destinations of checkpoints not read", "err", err)
	}
	out := map[string]int{}
	for _, s := range sinks {
		out[s.Name] = s.Failures
	}
	return out
}
