package config

import (
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Narrowing selects which tools of an upstream are visible, by their names in any spelling
// (tool.Tool.IsNamed); "*" is every name. Its zero value selects all.
type Narrowing struct {
	only   []string // if limits is set, only these
	not    []string // exclude these, even if in only
	limits bool     // only is set
}

// Keep returns the selected tools of an upstream. A name that matches several tools excludes all of
// them. It includes the one with exactly this name, or none.
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
		return n.limits && !in[t] || slices.ContainsFunc(n.not, func(name string) bool {
			return name == "*" || t.IsNamed(name)
		})
	})
}

// readNarrowing adds the keys with which the files of agents' clients select the tools of a server.
// They apply here too.
func (r *reader) readNarrowing(n *Narrowing, what string, known key) {
	for _, k := range []string{"tools", "includeTools", "enabledTools", "allowedTools"} {
		known[k] = func(v *node) { n.only, n.limits = append(n.only, r.readTexts(v, what+"."+k)...), true }
	}
	for _, k := range []string{"excludeTools", "disabledTools"} {
		known[k] = func(v *node) { n.not = append(n.not, r.readTexts(v, what+"."+k)...) }
	}
}

// readTimeouts reads the call timeouts of single tools, by name.
func (r *reader) readTimeouts(n *node, what string) map[string]time.Duration {
	out := map[string]time.Duration{}
	r.eachEntry(n, what, func(k, v *node) { out[k.text] = r.readDuration(v, what+"."+k.text, minTimeout, maxTimeout) })
	return out
}
