package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/tracing"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/repeat"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/serve/feed"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/serve/metrics"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// An assembly creates the parts of a Daemon from its configuration. key is the data folder's.
type assembly struct {
	*Daemon
	key *secret.Key
}

// createParts creates the parts, from the audit record at the bottom to the servers for agents at
// the top.
func (d assembly) createParts(ctx context.Context) error {
	if err := d.openKeys(ctx); err != nil {
		return err
	}
	d.reload = newReloader(d.Daemon, d.key)
	network, err := d.createSandboxes()
	if err != nil {
		return err
	}
	if err := d.createUpstreams(); err != nil {
		return err
	}
	if d.audit, err = d.openAudit(); err != nil {
		return err
	}
	d.keeper.tampered.startRecording(d.Daemon)
	if d.warm.first == nil { // in the background; not earlier, while the engine's process starts
		d.warm.work.Go(program.Warm)
	}
	if err := d.createPolicies(); err != nil {
		return err
	}
	d.reload.recordInForce(context.Background())
	d.meters.metrics = metrics.New(metrics.Config{Version: d.cfg.Version, Catalog: d.catalog, Gauges: gauges{d.Daemon}})
	d.meters.usage = d.newUsage()
	calls := &door{daemon: d.Daemon}
	d.upstreams.hosting.hosts, d.upstreams.hosting.door = d.policies, calls
	d.index = &index{policies: d.policies, catalog: d.catalog, upstreams: d.upstreams,
		describer: describer{d.shapes}}
	if err := d.newExecutor(&door{daemon: d.Daemon, waits: true}); err != nil {
		return err
	}
	own := builtin()
	d.sandboxes.own = d.newOwnSandboxes(network, calls)
	d.addOwnTools(own)
	if d.warm.first == nil { // a known program compiles it, no later than this would
		d.warm.work.Go(d.warmExecute)
	}
	d.createServers(calls, own)
	return nil
}

// createSandboxes creates the drivers of sandboxes. It returns the network of sandboxes that are
// processes.
func (d assembly) createSandboxes() (_ sandbox.Network, err error) {
	s := d.cfg.Settings
	e := newEngine(d.cfg.Engine, d.log, s)
	e.images, e.libraries = openImages(d.cfg.DataDir, s), filepath.Join(d.cfg.DataDir, "libraries")
	d.sandboxes, err = newSandboxes(d.cfg.drivers, s.Sandbox, e)
	return e.network, err
}

// createUpstreams creates the catalog and the upstreams, and what they report to. From here on, the
// log has no secrets.
func (d assembly) createUpstreams() (err error) {
	s := d.cfg.Settings
	d.shapes = d.newShapes()
	d.catalog = catalog.New(catalog.Config{Describe: describer{d.shapes}.describeEntry, Unprefixed: d.cfg.Unprefixed})
	d.mask = newMask(s, d.key)
	d.log = slog.New(tracing.WrapHandler(d.mask.Handler(d.servers.log.WrapHandler(d.log.Handler()))))
	d.meters.tracer = newTracer(s, d.Daemon)
	d.servers.notices, d.servers.events = newNotices(d.Daemon), feed.NewBook()
	d.servers.expiries = newExpiries()
	d.upstreams, err = newUpstreams(s, upstreamParts{
		log: d.log, mask: d.mask, version: d.cfg.Version, catalog: d.catalog, tokens: d.store.Tokens(d.key),
		secrets:  newSecrets(s, d.store.OpenSecrets(d.key), d.mask, d.Daemon),
		approved: newApprovedServers(s, d.cfg.DataDir, d.log),
		hints:    &hints{d.store.Hints(d.key), d.Daemon, d.log},
		observer: observer{d.Daemon}, places: observer{d.Daemon}, hosting: newHosting(d.Daemon),
	})
	return err
}

// createPolicies creates what decides on calls.
func (d assembly) createPolicies() (err error) {
	s := d.cfg.Settings
	d.approvals = d.newApprovals()
	d.network = d.newNetwork()
	d.privacy = d.newPrivacy()
	if d.limits, err = newLimits(context.Background(), d.Daemon, d.key); err != nil {
		return err
	}
	d.turns = queue.NewWork()
	d.policies, err = newPolicies(s, gateway.Config{
		Credentials: d.keys, Profiles: profilesOf(s), Catalog: d.catalog, Approval: d.approvals,
		Audit: d.audit, Log: d.log, Limits: d.limits, Privacy: d.privacy, Turns: d.turns,
		Shapes: d.shapes,
	}, observer{d.Daemon}, d.log)
	return err
}

// addOwnTools adds Biplane's own tools to the catalog.
func (d assembly) addOwnTools(own []*tool.Tool) {
	d.catalog.Set(catalog.Source{Name: tool.Own, Tools: slices.Concat(own, networkTools(), owned.ListTools()),
		Health: tool.Health{State: tool.Ready}, Caller: maskCaller(d.mask, table{
			"search": d.upstreams.waiting(withSkills(d.catalog.SearchTool(d.policies.visible),
				d.executor.Skills().List, d.privacy)),
			"execute": d.upstreams.waitingFor(d.executor.Execute()),
			"resume":  d.executor.Resume(),
			"fetch":   d.network,
			"send":    d.network,
			"connect": d.network,
		}.addSandboxTools(d.sandboxes.own))})
}

// createServers creates the MCP server and the HTTP API.
func (d assembly) createServers(door tool.Caller, own []*tool.Tool) {
	local := identity.LocalUser()
	d.sandboxes.servers = newSandboxServers(d.Daemon, door)
	d.servers.mcp = mcpserver.New(mcpserver.Config{
		Door: door, Builtin: own, Filter: d.policies, Catalog: d.index,
		Endpoint: mcpserver.Endpoint{Mode: mcpserver.Mode(d.cfg.Settings.Mode),
			Instructions: instructionsIn(d.cfg.Settings.Mode), Unprefixed: d.cfg.Unprefixed},
		Profiles: endpointsOf(d.cfg.Settings), Version: d.cfg.Version, Log: d.log,
		Local:     local,
		Principal: principalOf, AnyHost: d.cfg.Settings.AnyHost(), Desk: d.newDesk(local), Resources: d.upstreams,
		Skills: openSkills(), Executions: d.executor, Tasks: d.store.Executions(d.key),
	})
	auth := d.newAuthenticator()
	d.servers.http = httpapi.New(d.onRecord(d.addAuthentication(auth, httpapi.Config{
		Door: door, Index: d.index, Process: d.Daemon,
		Policies: policyService{d.newPolicyDesk(d.upstreams), policyEditor{d.Daemon}},
		Sessions: d.executor.Sessions(), Skills: d.executor.Skills(), Journals: d.executor,
		Approvals: d.shownRequests(), Usage: d.meters.usage, Principal: local,
		SignIns: d.upstreams.signIns, Hints: d.upstreams,
		Agents:  httpapi.Agents{MCP: d.servers.mcp.Handler(), Stdio: d.Daemon, Sandboxes: d.sandboxes.servers},
		Metrics: d.meters.metrics.Handler(d.log),
		Feeds:   httpapi.Feeds{Logs: &d.servers.log, Notices: channels{d.Daemon}, Events: d.servers.events},
		Log:     d.log, Secrets: d.mask, Pages: d.newPages(auth),
		Upkeep: httpapi.Upkeep{Repeats: repeat.NewLog(d.store.OpenRepeats(d.key), nil), Pruner: pruner{d.Daemon},
			Images: imageKeeper{d.Daemon}},
	})))
}
