package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// UnmatchedNames returns a line for each tool name in the configuration that no tool has, or that
// is ambiguous. The map listed holds all tools of the upstreams that have listed theirs, including
// excluded ones. Names of other upstreams can't be checked.
func (c *Config) UnmatchedNames(listed map[string][]*tool.Tool) (lines []string) {
	all, whole := []*tool.Tool{}, true
	for _, tools := range listed {
		all = append(all, tools...)
	}
	for _, s := range c.ListSources() {
		tools, ok := listed[s.Name]
		if whole = whole && (ok || s.Disabled); !ok || s.Disabled {
			continue
		}
		for _, name := range slices.Concat(s.Narrow.only, s.Narrow.not, s.named) {
			if name != "*" && !tool.NamesMethod(name) &&
				!slices.ContainsFunc(tools, func(t *tool.Tool) bool { return t.IsNamed(name) }) {
				lines = append(lines,
					fmt.Sprintf("%s.%s names the unknown tool %q%s", s.Part, s.Name, clipText(name),
						nearestTool(name, tools, false)))
			}
		}
		for _, name := range s.Narrow.only {
			if same := s.Narrow.ambiguousTools(name, tools); len(same) > 0 {
				lines = append(lines,
					fmt.Sprintf(
						"%s.%s allows the tool %q, which may be %s: none is allowed; write the exact name",
						s.Part, s.Name, clipText(name), strings.Join(same, " or ")))
			}
		}
	}
	pattern := func(what, p string, fits func(*tool.Tool) bool) {
		if p == "" || slices.ContainsFunc(all, fits) || !whole && !c.isListed(p, listed) {
			return
		}
		lines = append(lines,
			fmt.Sprintf("%s has the pattern %q, which matches no tool%s", what, clipText(p), nearestTool(p, all, true)))
	}
	for _, r := range c.Tools {
		if r.Upstream == "" {
			pattern("tools", r.Pattern, r.MatchesTool)
		}
	}
	for _, p := range c.Profiles {
		for _, r := range p.Tools {
			pattern("profiles."+p.Name, r.Pattern, r.MatchesTool)
		}
	}
	for i := range c.Limits {
		pattern(fmt.Sprintf("limits[%d]", i), c.Limits[i].Tools, c.Limits[i].MatchesTool)
	}
	for i, f := range c.Privacy.Fields {
		if line := c.explainToolPath(f, all); line != "" {
			lines = append(lines, fmt.Sprintf("privacy.fields[%d] %s", i, line))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// explainToolPath returns what is wrong with a path of fields that begins with the name of a tool
// or an upstream; empty if it doesn't. Paths apply to the results of all tools, so such a path
// would match nothing.
func (c *Config) explainToolPath(field string, all []*tool.Tool) string {
	upstream, rest, dotted := strings.Cut(field, ".")
	name, rest, deeper := strings.Cut(rest, ".")
	if !dotted {
		return ""
	}
	for _, t := range all {
		if tool.Snake(t.Upstream) != tool.Snake(upstream) || name != "*" && name != "**" && !t.IsNamed(name) {
			continue
		}
		instead := ""
		if deeper {
			instead = fmt.Sprintf(": write %q", clipText(rest))
		}
		return fmt.Sprintf("has the path %q, which begins with the name of a tool or an upstream; paths begin with a "+
			"field of a result%s", clipText(field), instead)
	}
	return ""
}

// NamesTools reports whether the configuration names tools of an upstream, or has patterns that may
// match some.
func (c *Config) NamesTools(upstream string) bool {
	about := func(pattern string) bool {
		name, _, _ := strings.Cut(pattern, ".")
		return pattern != "" && (strings.Contains(name, "*") || tool.Snake(name) == tool.Snake(upstream))
	}
	return slices.ContainsFunc(c.ListSources(), func(s *Source) bool {
		return s.Name == upstream && len(s.Narrow.only)+len(s.Narrow.not)+len(s.named) > 0
	}) || slices.ContainsFunc(c.Tools, func(r policy.Rule) bool {
		return r.Upstream == upstream || r.Upstream == "" && about(r.Pattern)
	}) ||
		slices.ContainsFunc(c.Profiles, func(p Profile) bool {
			return slices.ContainsFunc(p.Tools, func(r policy.Rule) bool { return about(r.Pattern) })
		}) ||
		slices.ContainsFunc(c.Limits, func(l limit.Rule) bool { return about(l.Tools) }) ||
		slices.ContainsFunc(c.Privacy.Fields, func(path string) bool {
			return !strings.HasPrefix(path, "*") && about(path)
		})
}

// isListed reports whether a pattern is for a single upstream that has listed its tools or is not
// configured.
func (c *Config) isListed(pattern string, listed map[string][]*tool.Tool) bool {
	name, _, dotted := strings.Cut(pattern, ".")
	if !dotted || strings.Contains(name, "*") {
		return false
	}
	for _, s := range c.ListSources() {
		if tool.Snake(s.Name) == tool.Snake(name) {
			_, ok := listed[s.Name]
			return ok
		}
	}
	return true
}

// ambiguousTools returns the tools that a name in only may mean, if it is ambiguous.
func (n Narrowing) ambiguousTools(name string, tools []*tool.Tool) (names []string) {
	for _, t := range tools {
		switch {
		case name == "*", name == t.Name:
			return nil
		case t.IsNamed(name):
			names = append(names, t.Name)
		}
	}
	if len(names) < 2 {
		return nil
	}
	return names
}

// nearestTool suggests the name, or the path, of a tool.
func nearestTool(name string, tools []*tool.Tool, paths bool) string {
	if strings.Contains(name, "*") {
		return ""
	}
	known := key{}
	for _, t := range tools[:min(len(tools), 2000)] {
		if paths {
			known[t.Path()] = nil
		} else {
			known[t.Name] = nil
		}
	}
	return nearestKey(name, known)
}
