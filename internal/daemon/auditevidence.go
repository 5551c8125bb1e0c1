package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/export"
	"github.com/biplane-dev/biplane/internal/control/audit/ledger"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/policy"
)

// newLedger returns a Ledger of the record.
func (d *Daemon) newLedger(log *audit.Log) *ledger.Ledger {
	s := d.cfg.Settings
	return ledger.New(ledger.Config{
		Record: log, Version: d.cfg.Version, Every: s.Audit.Checkpoints.Every, Sinks: s.Audit.Checkpoints.Sinks(d.cfg.DataDir), Log: d.log,
		Around: ledger.Around{
			Alone: s.Auth == nil, Policy: d.policyName, Upstreams: d.Upstreams, Keys: d.keys.List, Decide: d.decide, Probes: d.probes,
			Tools: func() []*catalog.Entry { return d.catalog.View().Entries() },
		},
	})
}

// probes runs the probes of the sandbox and of its process, as doctor --probe does.
func (d *Daemon) probes(ctx context.Context) []export.Probe {
	e := engine{d.cfg.Engine, d.log}
	checks := append(checkSandboxes(ctx, d.cfg.Settings, e), checkEscapes(ctx, e)...)
	out := make([]export.Probe, 0, len(checks))
	for _, c := range checks {
		out = append(out, export.Probe{Part: c.Part, Name: c.Name, OK: c.OK, Detail: c.Detail})
	}
	return out
}

// decide returns the decision on a call without arguments, including the checks of the credential.
func (d *Daemon) decide(r policy.Request) policy.Decision {
	if why := d.keys.ExplainDenial(r.Principal, r.Tool); why != "" {
		return policy.Decision{Effect: policy.Deny, Policy: "credential", Reason: why}
	}
	e, _ := d.policies.state()
	out := e.Decide(r)
	if out.Effect == policy.Deny && e.Shows(r) {
		return policy.Decision{Effect: "depends", Policy: out.Policy, Reason: "it depends on the arguments: " + out.Reason}
	}
	return out
}

// policyName returns the name and the version of the policies in force.
func (d *Daemon) policyName() string {
	e, _ := d.policies.state()
	return e.Name() + ", version " + e.Version()
}
