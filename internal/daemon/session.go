package daemon

import (
	"context"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newExecutor creates the Executor, with sessions in the store.
func (d *Daemon) newExecutor(key *secret.Key, door tool.Caller) (err error) {
	s := d.cfg.Settings
	sessions, err := d.store.Sessions(context.Background(), key)
	if err != nil {
		return err
	}
	d.sessions = sessions
	inside := d.upstreams.waitingOne(door)
	tools := catalog.NewResolver(d.catalog, d.policies.visible)
	cfg := executor.Config{
		Drivers: d.sandboxes.kinds,
		Door: func() tool.Caller {
			return inside
		}, Programs: program.New(program.Config{Catalog: tools, Ahead: d.first}), Plain: tools.Plain,
		Files: d.declarations, Access: fileAccess{d.policies, d.event}, Store: sessions,
		Journal: d.store.Executions(key), Key: key, Tokens: d.tokens, Ended: d.ended, Admit: d.admit,
		Readmit: d.readmit, Log: d.log,
		Turns:    d.turns,
		Recorded: d.recorded, Named: d.named, Doubt: d.describeDoubt,
		Page:     d.approvalPage,
		ReadsAll: func(p tool.Principal) bool { return identity.HasRole(p, identity.Auditor) },
		Limits: executor.Limits{
			Memory: s.Sandbox.Memory, CPU: s.Sandbox.CPU, Calls: s.Sandbox.Calls, Concurrency: s.Sandbox.Concurrency,
			OutputTokens: s.Sandbox.OutputTokens,
			Sessions:     s.Sessions.Limits(),
			Journal:      executor.JournalLimits{Keep: s.Journal.Keep, Bytes: s.Journal.Bytes},
		},
	}
	if d.privacy != nil { // a nil *Guard in the interface would not be nil
		cfg.Privacy = d.privacy
	}
	d.executor, err = executor.New(cfg)
	return err
}

// declarations returns the files below ./tools. It waits for the upstreams as long as a search
// does.
func (d *Daemon) declarations(p tool.Principal) map[string]string {
	d.upstreams.ready(context.Background())
	return d.index.tree(p)
}
