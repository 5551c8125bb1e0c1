package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/export"
	"github.com/biplane-dev/biplane/internal/control/audit/ledger"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/policy"
)

// newLedger returns a Ledger of the record.
func (d assembly) newLedger(log *audit.Log) *ledger.Ledger {
	s := d.cfg.Settings
	return ledger.New(ledger.Config{
		Record: log, Version: d.cfg.Version, Every: s.Audit.Checkpoints.Every,
		Sinks: s.Audit.Checkpoints.Sinks(d.cfg.DataDir), Log: d.log, Unsent: people{d.Daemon},
		System: systemState{d.Daemon}, Alone: s.Auth == nil,
	})
}

// systemState reports the state of a Daemon for evidence.
type systemState struct{ d *Daemon }

// Upstreams returns the state of all upstreams.
func (s systemState) Upstreams(ctx context.Context) []api.Upstream { return s.d.Upstreams(ctx) }

// Tools returns all tools that can be called.
func (s systemState) Tools() []*catalog.Entry { return s.d.catalog.View().AllEntries() }

// Keys returns all API keys.
func (s systemState) Keys() []identity.Key { return s.d.keys.List() }

// RunProbes runs the probes of the sandbox and of its process, as doctor --probe does.
func (s systemState) RunProbes(ctx context.Context) []export.Probe {
	e := newEngine(s.d.cfg.Engine, s.d.log, s.d.cfg.Settings)
	checks := append(checkSandboxes(ctx, drivers, s.d.cfg.Settings, e), checkEscapes(ctx, e)...)
	out := make([]export.Probe, 0, len(checks))
	for _, c := range checks {
		out = append(out, export.Probe{Part: c.Part, Name: c.Name, OK: c.OK, Detail: c.Detail})
	}
	return out
}

// DecideCall returns the decision on a call without arguments, including the checks of the
// credential.
func (s systemState) DecideCall(r policy.Request) policy.Decision {
	if why := s.d.keys.ExplainDenial(r.Principal, r.Tool); why != "" {
		return policy.Decision{Effect: policy.Deny, Policy: "credential", Reason: why}
	}
	e, _ := s.d.policies.state()
	out := e.DecideCall(r)
	if out.Effect == policy.Deny && e.Shows(r) {
		return policy.Decision{Effect: "depends", Policy: out.Policy,
			Reason: "it depends on the arguments: " + out.Reason}
	}
	if out.Effect != policy.Deny && len(out.Redact) > 0 && r.Tool.Judge != nil {
		out.Reason += "; a call that renames fields is denied"
	}
	return out
}

// PolicyName returns the name and the version of the policies in force.
func (s systemState) PolicyName() string {
	e, _ := s.d.policies.state()
	return e.Name() + ", version " + e.Version()
}
