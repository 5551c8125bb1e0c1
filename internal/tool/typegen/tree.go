package typegen

import (
	_ "embed" // declarations that don't depend on the tools
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An Item is a tool in a Tree and its names there.
type Item struct {
	Tool     *tool.Tool
	Names    Names
	Observed Observed // used if the tool declares no type of its result
}

// Observed describes the results that a tool has returned so far.
type Observed struct {
	Schema  json.RawMessage // JSON Schema; nil: unknown
	Results int             // the number of results that it describes
}

// resultSchema returns the schema of the tool's result, or nil if it is unknown. observed means
// that the tool doesn't declare it.
func (it *Item) resultSchema() (s json.RawMessage, observed bool) {
	if it.Tool.OutputSchema != nil {
		return it.Tool.OutputSchema, false
	}
	return it.Observed.Schema, it.Observed.Schema != nil
}

var (
	//go:embed static/runtime.d.ts
	runtimeTypes string
	//go:embed static/web.d.ts
	webTypes string
	//go:embed static/tsconfig.json
	tsconfig string
)

// Tree returns a whole catalog as files, by path:
//
//	tools/<namespace>/<member>.ts   one module for each tool:
//	                                `import { list_issues } from "./tools/github/list_issues"`
//	tools/<namespace>/index.ts      all of an upstream:
//	                                `import { list_issues } from "./tools/github"`
//	tools/lib.globals.d.ts          the namespaces as globals: `github.list_issues(...)`,
//	                                `tools.github.list_issues(...)`
//	tools/lib.runtime.d.ts          callTool, search, readResult, emit, ToolError
//	tools/lib.web.d.ts              other globals (console, URL, ...), without the DOM and fetch
//	tsconfig.json                   makes an editor use them
//
// No upstream can have the name of one of the lib files, which would hide it from imports: a
// namespace has no dot.
//
// The order of items doesn't matter. Paths of two tools never differ in case only, so the tree can
// be written to any file system.
func Tree(items []Item) map[string]string {
	out := map[string]string{
		"tools/lib.runtime.d.ts": runtimeTypes,
		"tools/lib.web.d.ts":     webTypes,
		"tools/tsconfig.json":    tsconfig,
	}
	spaces := map[string][]Item{}
	for _, it := range items {
		spaces[it.Names.Namespace] = append(spaces[it.Names.Namespace], it)
	}
	var names []string
	for ns := range spaces {
		names = append(names, ns)
	}
	slices.Sort(names)
	dirs := map[string]bool{}
	folders := map[string]string{}
	for _, ns := range names {
		dir := unique(fileName(ns), dirs)
		folders[ns] = dir
		writeNamespace(out, dir, spaces[ns])
	}
	out["tools/lib.globals.d.ts"] = globals(names, folders)
	return out
}

// unique returns name, with a number appended if it is taken, ignoring case.
func unique(name string, taken map[string]bool) string {
	s := name
	for i := 2; taken[strings.ToLower(s)]; i++ {
		s = fmt.Sprintf("%s_%d", name, i)
	}
	taken[strings.ToLower(s)] = true
	return s
}

func writeNamespace(out map[string]string, dir string, items []Item) {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b Item) int { return strings.Compare(a.Names.Member, b.Names.Member) })
	var index strings.Builder
	files := map[string]bool{"index": true}
	types := map[string]bool{}
	for i, it := range items {
		if i > 0 && it.Names == items[i-1].Names {
			continue // the catalog has a unique name for every tool
		}
		m := newModule(it)
		base := unique(m.base, files)
		out["tools/"+dir+"/"+base+".ts"] = m.text()
		from := "from " + quote("./"+base+".js") + ";\n"
		index.WriteString("export { " + exportName(it.Names.Member) + " } " + from)
		var ts []string
		for _, t := range []string{m.argsName, m.resultName} {
			as := t
			for k := 2; types[as]; k++ {
				as = fmt.Sprintf("%s%d", t, k)
			}
			types[as] = true
			if as != t {
				t += " as " + as
			}
			ts = append(ts, t)
		}
		index.WriteString("export type { " + strings.Join(ts, ", ") + " } " + from)
	}
	out["tools/"+dir+"/index.ts"] = index.String()
}

func globals(names []string, folders map[string]string) string {
	var b strings.Builder
	b.WriteString("/// <reference path=\"./lib.runtime.d.ts\" />\n\n")
	b.WriteString("// The tools of each upstream, as programs see them: github.list_issues(...).\n")
	for _, ns := range names {
		if isBinding(ns) {
			b.WriteString("declare const " + ns + ": " + typeOf(folders[ns]) + ";\n")
		}
	}
	b.WriteString("\n// The same, under one name that is always there: tools.github.list_issues(...).\n")
	b.WriteString("declare const tools: {\n")
	for _, ns := range names {
		b.WriteString("  " + propertyName(ns) + ": " + typeOf(folders[ns]) + ";\n")
	}
	b.WriteString("};\n")
	return b.String()
}

func typeOf(folder string) string { return "typeof import(" + quote("./"+folder+"/index.js") + ")" }
