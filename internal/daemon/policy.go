package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/biplane-dev/biplane/internal/base/resident"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// policies has the newest policies. Each version of the policies has its own Gateway. A call under
// way keeps the version that it started with; the next call of the same program uses
// the newest.
type policies struct {
	settings atomic.Pointer[config.Config]
	parts    gateway.Config // without Policy
	observer policyObserver
	log      *slog.Logger
	calls    *resident.IdleNotifier // notes each call

	gate   atomic.Pointer[gateway.Gateway]
	engine atomic.Pointer[policy.Engine]

	folder policyFolder

	mu      sync.Mutex
	problem string // why the newest files are not in force; may be empty
}

// A policyObserver is informed about policies.
type policyObserver interface {
	// updateTools and updateOffers are called when what a principal may see may have changed.
	updateTools()
	updateOffers()
	// recordPolicy is called when new policies are in force, or when they were rejected: err is the
	// reason, and inForce stays in force.
	recordPolicy(ctx context.Context, inForce *policy.Engine, err error)
}

// A policyFolder is the state of the folder of policies. Its lock is held from the reading of files
// until their policies are in force, so that older ones don't replace newer ones.
type policyFolder struct {
	mu     sync.Mutex
	looked string // version or error of the files at the last look of watchFolder
}

// newPolicies loads the policies. The error describes what is wrong with them.
func newPolicies(s *config.Config, parts gateway.Config, o policyObserver, log *slog.Logger) (*policies, error) {
	p := &policies{parts: parts, observer: o, log: log, calls: resident.NewIdleNotifier(idleTime, idleMemory{log})}
	p.settings.Store(s)
	p.parts.InForce = p
	e, err := s.Engine()
	if err != nil {
		return nil, err
	}
	return p, p.setEngine(e)
}

// Engine returns the policies in force.
func (p *policies) Engine() *policy.Engine { return p.engine.Load() }

// CurrentVersion returns the version of the policies in force.
func (p *policies) CurrentVersion() string { return p.engine.Load().Version() }

// ListRules implements desk.Rules.
func (p *policies) ListRules() []policy.Rule { return p.settings.Load().Tools }

// FindGrants implements desk.Grants.
func (p *policies) FindGrants(upstream string) *tool.Serving {
	return p.settings.Load().FindGrants(upstream)
}

// replaceSettings applies the policies of another configuration, e, with their gateway.
func (p *policies) replaceSettings(s *config.Config, e *policy.Engine, g *gateway.Gateway) {
	p.engine.Store(e)
	p.gate.Store(g)
	p.settings.Store(s)
	p.mu.Lock()
	p.problem = ""
	p.mu.Unlock()
}

// setEngine sets the engine in use.
func (p *policies) setEngine(e *policy.Engine) error {
	g, err := p.createGateway(e)
	if err == nil {
		p.engine.Store(e)
		p.gate.Store(g)
	}
	return err
}

// createGateway returns the gateway of policies that are not in use yet.
func (p *policies) createGateway(e *policy.Engine) (*gateway.Gateway, error) {
	parts := p.parts
	parts.Policy = e
	return gateway.New(parts)
}

// visible returns the part of the catalog that a principal may see now.
func (p *policies) visible(who tool.Principal) *catalog.View { return p.gate.Load().Visible(who) }

// ShowsTool reports whether a principal may see a tool now.
func (p *policies) ShowsTool(_ context.Context, who tool.Principal, t *tool.Tool) bool {
	return p.gate.Load().Shows(who, t)
}

// permitsAgain reports whether a call that was permitted would be permitted now.
func (p *policies) permitsAgain(c *tool.Call, differs bool) bool {
	return p.gate.Load().PermitsAgain(c, differs)
}

// ReachesHost reports whether some connection of a program to a host could be permitted now.
func (p *policies) ReachesHost(c *tool.Call, host string) bool {
	return p.gate.Load().ReachesHost(c, host)
}

// PermitsConnection reports whether a connection of a program is permitted now.
func (p *policies) PermitsConnection(c *tool.Call) bool { return p.gate.Load().PermitsConnection(c) }

// state returns the policies in force, and why the newest files are not.
func (p *policies) state() (e *policy.Engine, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.Load(), p.problem
}

// watchFolder is like reloadFolder, but waits until the files are the same in two checks in a row:
// an editor that is writing them may have removed or emptied one.
func (p *policies) watchFolder(ctx context.Context) {
	p.folder.mu.Lock()
	defer p.folder.mu.Unlock()
	s := p.settings.Load()
	if s.PolicyDir == "" {
		return
	}
	e, err := s.Engine()
	now := ""
	if err != nil {
		now = err.Error()
	} else {
		now = e.Version()
	}
	if now != p.folder.looked {
		p.folder.looked = now
		return
	}
	p.applyFolder(ctx, e, err)
}

// reloadFolder applies the current policies of the folder, if there is one. Invalid files
// are ignored.
func (p *policies) reloadFolder(ctx context.Context) {
	p.folder.mu.Lock()
	defer p.folder.mu.Unlock()
	s := p.settings.Load()
	if s.PolicyDir == "" {
		return
	}
	e, err := s.Engine()
	p.applyFolder(ctx, e, err)
}

// applyFolder applies policies, or reports why it can't.
func (p *policies) applyFolder(ctx context.Context, e *policy.Engine, err error) {
	if err == nil && e.Version() != p.engine.Load().Version() {
		if err = p.setEngine(e); err == nil {
			p.log.Info("policies have changed", "policy", e.Name(), "policies", e.Len(), "version", e.Version())
			p.warnTiers(e)
			p.observer.recordPolicy(ctx, e, nil)
			p.observer.updateTools()
			p.observer.updateOffers()
		}
	}
	p.mu.Lock()
	before := p.problem
	p.problem = ""
	if err != nil {
		p.problem = err.Error()
	}
	p.mu.Unlock()
	if err != nil && err.Error() != before {
		p.log.Error("the new policies are invalid: the previous ones stay in force", "err", err)
		p.observer.recordPolicy(ctx, p.engine.Load(), err)
	}
}

// warnTiers logs which policies require a stronger sandbox than any available one.
func (p *policies) warnTiers(e *policy.Engine) {
	for _, w := range e.WarnTiers() {
		p.log.Warn(fmt.Sprintf("%s:%d: %s", w.File, w.Line, w.Message))
	}
}

// announcePolicies logs which policies are in force, with a warning if they allow everything.
func (p *policies) announcePolicies() {
	e := p.engine.Load()
	p.warnTiers(e)
	if e.Name() == "open" {
		held := ""
		if slices.ContainsFunc(p.ListRules(), func(r policy.Rule) bool { return len(r.Labels) > 0 }) {
			held = ", but for what labels of data hold"
		}
		p.log.Warn("policy open: every call of every tool is allowed" + held)
		return
	}
	p.log.Info("policy "+e.Name(), "policies", e.Len(), "version", e.Version())
	if e.Len() == 0 {
		p.log.Warn("the folder of policies has no .cedar file: every call is denied", "folder",
			p.settings.Load().PolicyDir)
	}
}
