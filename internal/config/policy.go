package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// readPolicy reads the name of a starter policy, or a folder of Cedar files relative to the
// configuration.
func (r *fileReader) readPolicy(n *node) {
	c := r.c
	p := r.readText(n, "policy")
	if p == "" {
		return
	}
	if _, ok := policy.Starter(p); ok {
		c.Policy, c.PolicyDir = p, ""
		return
	}
	if !strings.ContainsAny(p, `/\.`) {
		known := key{}
		for _, name := range policy.Starters() {
			known[name] = nil
		}
		if near := nearestKey(p, known); near != "" {
			r.addProblem(n, "policy %q is neither a folder nor one of %s%s", clipText(p),
				strings.Join(policy.Starters(), ", "), near)
			return
		}
	}
	c.Policy, c.PolicyDir = p, r.resolvePath(p)
}

// toolRules reads the administrator's settings of tools, by path pattern.
func (r *fileReader) toolRules(n *node) (rules []policy.Rule) {
	r.eachEntry(n, "tools", func(k, v *node) {
		rule := policy.Rule{Pattern: k.text}
		checkToolPattern(r.reader, k, "tools", k.text)
		what := "tools." + k.text
		flag := func(name string, to **bool) func(*node) {
			return func(n *node) {
				b := r.readBool(n, what+"."+name)
				*to = &b
			}
		}
		r.readObject(v, what, key{
			"tags":        func(n *node) { rule.Tags = r.readTexts(n, what+".tags") },
			"labels":      func(n *node) { rule.Labels = r.readLabels(n, what) },
			"read_only":   flag("read_only", &rule.ReadOnly),
			"destructive": flag("destructive", &rule.Destructive),
			"idempotent":  flag("idempotent", &rule.Idempotent),
			"open_world":  flag("open_world", &rule.OpenWorld),
		})
		rules = append(rules, rule)
	})
	return rules
}

// checkToolPattern reports a pattern of tool paths that can't match.
func checkToolPattern(r *reader, n *node, what, pattern string) {
	if pattern == "" || strings.ContainsAny(pattern, " \t\r\n") {
		r.addProblem(n, "%s: invalid pattern %q: write the path of a tool, in which * matches any characters, "+
			"like github.*", what, clipText(pattern))
	}
}

// readLabels reads the labels of a tool or of an upstream.
func (r *reader) readLabels(n *node, what string) []string {
	list := r.readTexts(n, what+".labels")
	if err := policy.CheckLabels(list, policy.Labels()); err != nil {
		r.addProblem(n, "%s.labels: %s", what, err)
	}
	return list
}

// PolicyFiles reads the configured policies.
func (c *Config) PolicyFiles() ([]policy.File, error) {
	if c.PolicyDir == "" {
		f, ok := policy.Starter(c.Policy)
		if !ok {
			return nil, tool.Errorf(tool.Invalid, "unknown policy %s", c.Policy)
		}
		return []policy.File{f}, nil
	}
	return ReadPolicies(c.PolicyDir)
}

// ReadPolicies reads the Cedar files of a folder, without subfolders.
func ReadPolicies(dir string) ([]policy.File, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.Invalid,
			"the policy folder %s does not exist: create it with a .cedar file in it, or choose one of %s", dir,
			strings.Join(policy.Starters(), ", "))
	} else if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the policy folder %s can't be read: %w", dir, err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "the policy folder %s can't be read: %w", dir, err)
	}
	var out []policy.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".cedar") {
			continue
		}
		if len(out) == policy.MaxFiles {
			return nil, tool.Errorf(tool.Invalid, "the policy folder %s has over %d files", dir, policy.MaxFiles)
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

// Engine returns an engine of the configured policies. The error describes what is wrong with them.
func (c *Config) Engine() (*policy.Engine, error) {
	files, err := c.PolicyFiles()
	if err != nil {
		return nil, err
	}
	return c.EngineOf(files)
}

// EngineOf is like Engine, with other files.
func (c *Config) EngineOf(files []policy.File) (*policy.Engine, error) {
	e, err := policy.New(policy.Config{Name: c.Policy, Files: files, Rules: c.Tools,
		Tier: c.Sandbox.Tier, Strongest: c.Sandbox.Strongest})
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "policy %s: %w", c.Policy, err)
	}
	return e, nil
}
