package daemon

import (
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newUsage returns the Meter of the calls.
func (d *Daemon) newUsage(key *secret.Key) *usage.Meter {
	s := d.cfg.Settings
	return usage.New(usage.Config{Store: d.store.Usage(key), Tokens: d.meters.tokens, Prices: s.Prices,
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
