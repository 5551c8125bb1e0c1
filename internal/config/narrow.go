package config

import (
	"slices"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Narrowing says which tools of an upstream are there at all, by their exact names; "*" is every name. Its zero value
// leaves nothing out.
type Narrowing struct {
	only   []string // when limited: no others
	not    []string // not these, whatever only says
	limits bool     // only counts
}

// Allows reports whether a tool of that name is there.
func (n Narrowing) Allows(name string) bool {
	has := func(names []string) bool { return slices.Contains(names, name) || slices.Contains(names, "*") }
	return (!n.limits || has(n.only)) && !has(n.not)
}

// Keep gives those of the tools that are there.
func (n Narrowing) Keep(tools []*tool.Tool) []*tool.Tool {
	if !n.limits && len(n.not) == 0 {
		return tools
	}
	return slices.DeleteFunc(slices.Clone(tools), func(t *tool.Tool) bool { return !n.Allows(t.Name) })
}

// narrowings are the keys by which agents' clients leave tools of a server out. A client's file that says so means it.
func (r *reader) narrowings(n *Narrowing, what string, known key) {
	for _, k := range []string{"tools", "includeTools", "enabledTools", "allowedTools"} {
		known[k] = func(v *node) { n.only, n.limits = append(n.only, r.texts(v, what+"."+k)...), true }
	}
	for _, k := range []string{"excludeTools", "disabledTools"} {
		known[k] = func(v *node) { n.not = append(n.not, r.texts(v, what+"."+k)...) }
	}
}

// timeouts reads the times that calls of single tools may take, by their exact names.
func (r *reader) timeouts(n *node, what string) map[string]time.Duration {
	out := map[string]time.Duration{}
	r.each(n, what, func(k, v *node) { out[k.text] = r.duration(v, what+"."+k.text, minTimeout, maxTimeout) })
	return out
}
