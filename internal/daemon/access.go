package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/exec/vfs"
	"github.com/biplane-dev/biplane/internal/tool"
)

// fileAccess authorizes file use by the newest policies. It records refusals only. Allowed uses are
// not recorded: a program's files are its own, nothing outside changes, and its journal has each
// use.
type fileAccess struct {
	policies *policies
	events   eventRecorder
}

func (f fileAccess) decide(u vfs.Use) policy.Decision {
	return f.policies.engine.Load().Decide(policy.Request{
		Principal: u.Principal, Parent: u.Execution, Tier: u.Tier, File: &policy.FileUse{Path: u.Path, Write: u.Write},
		Labels: u.Labels, Findings: u.Findings,
	})
}

// May returns an error if policy does not allow the use of a file.
func (f fileAccess) May(u vfs.Use) error {
	d := f.decide(u)
	if d.Effect == policy.Allow {
		return nil
	}
	return tool.Errorf(tool.Denied, "policy %s: %s", d.Policy, d.Reason)
}

// Refused records that the use of a file was refused.
func (f fileAccess) Refused(ctx context.Context, u vfs.Use, err error) {
	action := "read"
	if u.Write {
		action = "write"
	}
	d := f.decide(u)
	// The use is refused either way; Event has logged why it could not be recorded.
	_ = f.events.event(context.WithoutCancel(ctx), withError(audit.Event{
		Kind: audit.KindFile, Principal: u.Principal,
		Subject:  audit.Subject{Execution: u.Execution, Session: u.Session, File: u.Path},
		Decision: audit.Decision{Effect: string(d.Effect), Policy: d.Policy + "@" + d.Version, Reason: d.Reason},
		Detail:   map[string]string{"action": action}, Labels: u.Labels,
	}, err))
}
