package daemon

import (
	"context"
	"encoding/json"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/exec/executor"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// newExecutor creates the Executor, with sessions in the store. Programs call door.
func (d assembly) newExecutor(door tool.Caller) (err error) {
	s := d.cfg.Settings
	sessions, err := d.store.Sessions(context.Background(), d.key)
	if err != nil {
		return err
	}
	d.sessions = sessions
	tools := catalog.NewResolver(d.catalog, d.policies.visible)
	cfg := executor.Config{
		Drivers: d.sandboxes.kinds,
		Door:    door,
		Programs: program.New(program.Config{Catalog: tools, Ahead: d.warm.first, Results: describer{d.shapes},
			Clients: goClients{d.Daemon}}),
		Hosts: d.policies,
		Tools: programTools{d.Daemon, tools}, Supervisor: supervisor{d.Daemon}, Control: control{d.Daemon},
		Access: fileAccess{d.policies, d.Daemon}, Store: sessions, Journal: d.store.Executions(d.key), Key: d.key,
		Tokens: d.meters.tokens, Log: d.log, Turns: d.turns, Copied: isRestored(d.cfg.DataDir),
		Clock: d.cfg.clock,
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
	if err := d.openFunctions(door, programTools{d.Daemon, tools}); err != nil {
		return err
	}
	d.executor, err = executor.New(cfg)
	return err
}

// programTools answers the executor's questions about tools.
type programTools struct {
	*Daemon
	resolver *catalog.Resolver
}

// ToolFiles returns the files below ./tools. It waits for the upstreams as long as a search does.
func (d programTools) ToolFiles(p tool.Principal) map[string]string {
	d.upstreams.WaitReady(context.Background())
	return d.index.tree(p)
}

// FindTool returns the tool with a path, or nil if it is unknown.
func (d programTools) FindTool(path string) *tool.Tool { return d.findTool(path) }

// DescribeDoubt returns a warning about arguments that a tool doesn't declare, or "".
func (d programTools) DescribeDoubt(path string, args json.RawMessage) string {
	if e, err := d.catalog.View().Resolve(path); err == nil {
		return e.Doubt(args)
	}
	return ""
}

// PlainForm returns the plain form of a call.
func (d programTools) PlainForm(who tool.Principal, path string, args json.RawMessage) (string, json.RawMessage) {
	return d.resolver.Plain(who, path, args)
}

// AddFlags adds flags to the arguments of a call.
func (d programTools) AddFlags(who tool.Principal, path string, args json.RawMessage,
	flags []sandbox.Flag) json.RawMessage {
	list := make([]catalog.Flag, len(flags))
	for i, f := range flags {
		list[i] = catalog.Flag(f)
	}
	return d.resolver.AddFlags(who, path, args, list)
}

// control answers the executor's questions to the control plane.
type control struct{ *Daemon }

// ApprovalPage returns the URL where a person decides a request.
func (d control) ApprovalPage(id string) string { return d.approvalPage(id) }

// MayReadAll reports whether a principal may read the executions of others.
func (d control) MayReadAll(p tool.Principal) bool { return identity.HasRole(p, identity.Auditor) }
