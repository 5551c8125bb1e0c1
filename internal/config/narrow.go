package config

import (
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Narrowing says which tools of an upstream are there at all, by their names in any spelling
// (tool.Tool.IsNamed); "*" is every name. Its zero value leaves nothing out.
type Narrowing struct {
	only   []string // when limited: no others
	not    []string // not these, whatever only says
	limits bool     // only counts
}

// Keep returns those of an upstream's tools that are there. A name that several tools fit leaves
// out all of them, and lets in the one that has exactly this name, or else none.
func (n Narrowing) Keep(tools []*tool.Tool) []*tool.Tool {
	if !n.limits && len(n.not) == 0 {
		return tools
	}
	in := map[*tool.Tool]bool{}
	for _, name := range n.only {
		var found []*tool.Tool
		for _, t := range tools {
			switch {
			case name == "*", name == t.Name:
				in[t] = true
			case t.IsNamed(name):
				found = append(found, t)
			}
		}
		exact := slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.Name == name })
		if len(found) == 1 && !exact {
			in[found[0]] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t *tool.Tool) bool {
		return n.limits && !in[t] || slices.ContainsFunc(n.not, func(name string) bool { return name == "*" || t.IsNamed(name) })
	})
}

// narrowings are the keys by which agents' clients leave tools of a server out. A client's file
// that says so means it.
func (r *reader) narrowings(n *Narrowing, what string, known key) {
	for _, k := range []string{"tools", "includeTools", "enabledTools", "allowedTools"} {
		known[k] = func(v *node) { n.only, n.limits = append(n.only, r.texts(v, what+"."+k)...), true }
	}
	for _, k := range []string{"excludeTools", "disabledTools"} {
		known[k] = func(v *node) { n.not = append(n.not, r.texts(v, what+"."+k)...) }
	}
}

// timeouts reads the times that calls of single tools may take, by their names.
func (r *reader) timeouts(n *node, what string) map[string]time.Duration {
	out := map[string]time.Duration{}
	r.each(n, what, func(k, v *node) { out[k.text] = r.duration(v, what+"."+k.text, minTimeout, maxTimeout) })
	return out
}
