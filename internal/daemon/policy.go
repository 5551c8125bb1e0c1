package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/catalog"
	"github.com/biplane-dev/biplane/internal/gateway"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// policy reads the name of a starter policy, or a folder of Cedar files, relative to the configuration.
func (r *reader) policy(n *node, s *Settings) {
	p := r.text(n, "policy")
	if p == "" {
		return
	}
	if _, ok := policy.Starter(p); ok {
		s.Policy, s.PolicyDir = p, ""
		return
	}
	if !strings.ContainsAny(p, `/\.`) {
		known := key{}
		for _, name := range policy.Starters() {
			known[name] = nil
		}
		if near := nearest(p, known); near != "" {
			r.wrong(n, "policy %q is neither a folder nor one of %s%s", clip(p), strings.Join(policy.Starters(), ", "), near)
			return
		}
	}
	s.Policy, s.PolicyDir = p, p
	if !filepath.IsAbs(p) {
		s.PolicyDir = filepath.Join(filepath.Dir(s.File), p)
	}
}

// toolRules reads what the administrator says of tools, by patterns of their paths.
func (r *reader) toolRules(n *node) (rules []policy.Rule) {
	r.each(n, "tools", func(k, v *node) {
		rule := policy.Rule{Pattern: k.text}
		if k.text == "" || strings.ContainsAny(k.text, " \t\r\n") {
			r.wrong(k, "tools has the pattern %q: it is a path of a tool, in which * stands for any characters, like github.*", clip(k.text))
		}
		what := "tools." + k.text
		flag := func(name string, to **bool) func(*node) {
			return func(n *node) {
				b := r.boolean(n, what+"."+name)
				*to = &b
			}
		}
		r.object(v, what, key{
			"tags":        func(n *node) { rule.Tags = r.texts(n, what+".tags") },
			"labels":      func(n *node) { rule.Labels = r.labels(n, what) },
			"read_only":   flag("read_only", &rule.ReadOnly),
			"destructive": flag("destructive", &rule.Destructive),
			"idempotent":  flag("idempotent", &rule.Idempotent),
			"open_world":  flag("open_world", &rule.OpenWorld),
		})
		rules = append(rules, rule)
	})
	return rules
}

// labels reads the labels of a tool or of an upstream.
func (r *reader) labels(n *node, what string) []string {
	list := r.texts(n, what+".labels")
	if err := policy.CheckLabels(list, policy.Labels()); err != nil {
		r.wrong(n, "%s.labels: %s", what, err)
	}
	return list
}

// PolicyConfig gives what the engine of the settings' policies is made of. The error says why the folder can't be read.
func (s *Settings) PolicyConfig() (policy.Config, error) {
	c := policy.Config{Name: s.Policy, Rules: s.Tools, Tier: s.Sandbox.Tier}
	var err error
	c.Files, err = s.policyFiles()
	return c, err
}

func (s *Settings) policyFiles() ([]policy.File, error) {
	if s.PolicyDir == "" {
		f, ok := policy.Starter(s.Policy)
		if !ok {
			return nil, tool.Errorf(tool.Invalid, "there is no policy %s", s.Policy)
		}
		return []policy.File{f}, nil
	}
	return ReadPolicies(s.PolicyDir)
}

// ReadPolicies reads the Cedar files of a folder, by their names; those of folders in it are not read.
func ReadPolicies(dir string) ([]policy.File, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.Invalid, "the folder of policies %s is not there: make it, with a .cedar file in it, or name one of %s", dir, strings.Join(policy.Starters(), ", "))
	} else if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the folder of policies %s can't be read: %w", dir, err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the folder of policies %s can't be read: %w", dir, err)
	}
	var out []policy.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".cedar") {
			continue
		}
		if len(out) == policy.MaxFiles {
			return nil, tool.Errorf(tool.Invalid, "the folder of policies %s has over %d files", dir, policy.MaxFiles)
		}
		f, err := root.Open(e.Name())
		if err != nil {
			return nil, tool.Errorf(tool.Invalid, "policies: %w", err)
		}
		text, err := io.ReadAll(io.LimitReader(f, policy.FileBytes+1))
		f.Close()
		if err != nil {
			return nil, tool.Errorf(tool.Invalid, "policies: %w", err)
		}
		out = append(out, policy.File{Name: e.Name(), Text: text})
	}
	return out, nil
}

// policyLook is how often a folder of policies is looked at.
const policyLook = time.Second

// policies are the door under the newest policies: each version of them is a Gateway of its own. A call that is under way
// keeps the one that it began with; the next call of the same program has the newest.
type policies struct {
	settings *Settings
	parts    gateway.Config // but for Policy
	changed  func()         // told when what somebody may see may have changed
	// loaded is told of policies that came into force, and of those that did not, with the reason and with what stays.
	loaded func(ctx context.Context, inForce *policy.Engine, err error)
	log    *slog.Logger

	gate   atomic.Pointer[gateway.Gateway]
	engine atomic.Pointer[policy.Engine]

	mu      sync.Mutex
	problem string // why the newest files are not in force; empty when they are
}

// newPolicies loads the policies. The error says what is wrong in them.
func newPolicies(s *Settings, parts gateway.Config, changed func(), loaded func(context.Context, *policy.Engine, error), log *slog.Logger) (*policies, error) {
	p := &policies{settings: s, parts: parts, changed: changed, loaded: loaded, log: log}
	p.parts.Latest = func() string { return p.engine.Load().Version() }
	e, err := p.load()
	if err != nil {
		return nil, err
	}
	return p, p.put(e)
}

func (p *policies) load() (*policy.Engine, error) {
	cfg, err := p.settings.PolicyConfig()
	if err != nil {
		return nil, err
	}
	e, err := policy.New(cfg)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "policy %s: %w", p.settings.Policy, err)
	}
	return e, nil
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
	e, err := p.load()
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

// CheckPolicies says what is wrong in the policies that the settings name, whatever tools there are.
func (s *Settings) CheckPolicies() error {
	_, err := (&policies{settings: s}).load()
	return err
}
