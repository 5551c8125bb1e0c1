package daemon

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/gateway"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// policyLook is how often a folder of policies is looked at.
const policyLook = time.Second

// policies are the door under the newest policies: each version of them is a Gateway of its own. A
// call that is under way keeps the one that it began with; the next call of the same program has
// the newest.
type policies struct {
	settings *config.Config
	parts    gateway.Config // but for Policy
	changed  func()         // told when what somebody may see may have changed
	// loaded is told of policies that came into force, and of those that did not, with the reason
	// and with what stays.
	loaded func(ctx context.Context, inForce *policy.Engine, err error)
	log    *slog.Logger

	gate   atomic.Pointer[gateway.Gateway]
	engine atomic.Pointer[policy.Engine]

	mu      sync.Mutex
	problem string // why the newest files are not in force; empty when they are
}

// newPolicies loads the policies. The error says what is wrong in them.
func newPolicies(s *config.Config, parts gateway.Config, changed func(), loaded func(context.Context, *policy.Engine, error), log *slog.Logger) (*policies, error) {
	p := &policies{settings: s, parts: parts, changed: changed, loaded: loaded, log: log}
	p.parts.Latest = func() string { return p.engine.Load().Version() }
	e, err := s.Engine()
	if err != nil {
		return nil, err
	}
	return p, p.put(e)
}

// put brings an engine into force.
func (p *policies) put(e *policy.Engine) error {
	parts := p.parts
	parts.Policy = e
	g, err := gateway.New(parts)
	if err != nil {
		return err
	}
	p.engine.Store(e)
	p.gate.Store(g)
	return nil
}

// Call calls through the newest Gateway.
func (p *policies) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	return p.gate.Load().Call(ctx, c)
}

// visible gives what somebody may see now.
func (p *policies) visible(who tool.Principal) *catalog.View { return p.gate.Load().Visible(who) }

// shows reports whether somebody may see a tool now.
func (p *policies) shows(_ context.Context, who tool.Principal, t *tool.Tool) bool {
	return p.gate.Load().Shows(who, t)
}

// state says which policies are in force, and why the newest files are not, where they aren't.
func (p *policies) state() (e *policy.Engine, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.engine.Load(), p.problem
}

// watch looks after the folder of policies until ctx ends. Files that are wrong change nothing.
func (p *policies) watch(ctx context.Context) {
	if p.settings.PolicyDir == "" {
		return
	}
	tick := time.NewTicker(policyLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.reload(ctx)
		}
	}
}

// reload brings the policies into force that the folder has now.
func (p *policies) reload(ctx context.Context) {
	e, err := p.settings.Engine()
	if err == nil && e.Version() != p.engine.Load().Version() {
		if err = p.put(e); err == nil {
			p.log.Info("policies have changed", "policy", e.Name(), "policies", e.Len(), "version", e.Version())
			p.loaded(ctx, e, nil)
			p.changed()
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
		p.log.Error("the new policies are wrong: those before them stay in force", "err", err)
		p.loaded(ctx, p.engine.Load(), err)
	}
}

// announce says which policies are in force, and loudly where they allow everything.
func (p *policies) announce() {
	e := p.engine.Load()
	if e.Name() == "open" {
		held := ""
		if slices.ContainsFunc(p.settings.Tools, func(r policy.Rule) bool { return len(r.Labels) > 0 }) {
			held = ", but for what labels of data hold"
		}
		p.log.Warn("policy open: every call of every tool is allowed" + held)
		return
	}
	p.log.Info("policy "+e.Name(), "policies", e.Len(), "version", e.Version())
	if e.Len() == 0 {
		p.log.Warn("the folder of policies has no .cedar file: every call is denied", "folder", p.settings.PolicyDir)
	}
}
