package daemon

import (
	"context"
	"strings"

	"github.com/biplane-dev/biplane/internal/audit"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/vfs"
)

// fileAccess decides on the use of files by the newest policies. What is allowed is not recorded
// one by one: these are a program's own files, nothing outside changes, and its journal has each
// use. What is refused is.
type fileAccess struct {
	policies *policies
	record   func(context.Context, audit.Event) error
}

func (f fileAccess) decide(u vfs.Use) policy.Decision {
	return f.policies.engine.Load().Decide(policy.Request{
		Principal: u.Principal, Parent: u.Execution, File: &policy.FileUse{Path: u.Path, Write: u.Write}, Labels: u.Labels,
	})
}

// May reports why a file may not be used.
func (f fileAccess) May(u vfs.Use) error {
	d := f.decide(u)
	if d.Effect == policy.Allow {
		return nil
	}
	return tool.Errorf(tool.Denied, "policy %s: %s", d.Policy, d.Reason)
}

// Refused records that it was not.
func (f fileAccess) Refused(ctx context.Context, u vfs.Use, err error) {
	action := "read"
	if u.Write {
		action = "write"
	}
	d := f.decide(u)
	detail := map[string]string{"action": action}
	if len(u.Labels) > 0 {
		detail[audit.LabelsDetail] = strings.Join(u.Labels, ",")
	}
	// it is refused all the same; the log has said why there is no record
	_ = f.record(context.WithoutCancel(ctx), withError(audit.Event{
		Kind: audit.KindFile, Principal: u.Principal, Subject: audit.Subject{Execution: u.Execution, Session: u.Session, File: u.Path},
		Decision: audit.Decision{Effect: string(d.Effect), Policy: d.Policy + "@" + d.Version, Reason: d.Reason}, Detail: detail,
	}, err))
}
