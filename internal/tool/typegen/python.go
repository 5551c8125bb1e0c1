package typegen

import (
	_ "embed" // type declarations that Python programs find beside the tools
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

//go:embed static/runtime.pyi
var pyRuntime string

// PythonTree returns a whole catalog as Python stubs, by path:
//
//	tools/<namespace>/__init__.pyi   the tools of an upstream:
//	                                 `from tools.github import list_issues`
//	tools/__init__.pyi               the namespaces
//	tools/py.typed                   marks the package as typed for type checkers (PEP 561)
//	biplane.pyi                      the other names of a program: call_tool, search, ...
//	__builtins__.pyi                 makes all of that known to editors without an import
//
// Arguments are keywords: `await github.list_issues(repo="a/b")`. A keyword of the language has "_"
// appended. If the name of a tool or of its arguments can't be written in Python, the stub says how
// to call it. Paths of two upstreams never differ in case only. The order of items doesn't matter.
func PythonTree(items []Item) map[string]string {
	spaces := map[string][]Item{}
	for _, it := range items {
		spaces[it.Names.Namespace] = append(spaces[it.Names.Namespace], it)
	}
	names := make([]string, 0, len(spaces))
	for ns := range spaces {
		names = append(names, ns)
	}
	slices.Sort(names)
	out := map[string]string{"tools/py.typed": ""}
	var index, globals strings.Builder
	dirs := map[string]bool{}
	for _, ns := range names {
		dir := unique(fileName(ns), dirs) // the same folder as in Tree
		out["tools/"+dir+"/__init__.pyi"] = pyModule(spaces[ns])
		if isPyName(dir) {
			index.WriteString("from . import " + dir + " as " + dir + "\n")
			globals.WriteString("from tools import " + dir + " as " + dir + "\n")
		}
	}
	out["tools/__init__.pyi"] = index.String()
	out["biplane.pyi"] = pyRuntime
	out["__builtins__.pyi"] = "import tools as tools\nfrom biplane import *\n" + globals.String()
	return out
}

// pyModule returns the stub of one upstream.
func pyModule(items []Item) string {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b Item) int { return strings.Compare(a.Names.Member, b.Names.Member) })
	w := &pyWriter{taken: map[string]bool{}, names: map[*named]string{}, docs: style{doc: 300, facts: true}}
	for _, it := range items {
		name := pyName(it.Names.Member)
		w.taken[name] = true
		w.hidden = w.hidden || pyTypes.Has(name)
	}
	var b strings.Builder
	if w.hidden {
		b.WriteString("import builtins as _builtins\nimport typing as _typing\n")
	} else {
		b.WriteString("from typing import Any, Literal, Never, NotRequired, TypeAlias, TypedDict\n")
	}
	for i, it := range items {
		if i > 0 && it.Names == items[i-1].Names {
			continue // the catalog has a unique name for every tool
		}
		b.WriteString("\n" + w.tool(it))
	}
	return b.String()
}

// tool returns the function and the types of one tool.
func (w *pyWriter) tool(it Item) string {
	w.defs, w.nodes, w.size = nil, maxPyNodes, maxPyText
	clear(w.names)
	prefix := pascal(it.Names.Member)
	if prefix == "" {
		prefix = "Tool"
	}
	p := w.parameters(it.Tool, prefix)
	result := w.result(it, prefix)
	doc := pyDoc(w.doc(it, p), "    ")
	name := pyName(it.Names.Member)
	var text string
	if name == "" {
		text = pyComment("Python has no name for this tool: await "+pyCallee(it.Names)+"(...)") + "\n"
		name = w.unique("_unnamed")
	}
	text += "async def " + name + p.text(name, result) + " -> " + result + ":\n" + doc + "    ...\n"
	for _, d := range w.defs {
		text += "\n" + d
	}
	return text
}

// result returns the type of a tool's result.
func (w *pyWriter) result(it Item, prefix string) string {
	schema, _ := it.resultSchema()
	if schema == nil {
		return w.name("Any")
	}
	c := &converter{whole: true}
	return w.typ(c.document(schema).root, prefix+"Result", 0)
}

// parameters are the parameters of a function in a stub.
type parameters struct {
	list []string   // as Python
	docs []property // properties to describe
	dict bool       // a single dict, since Python has no names for some of them
}

// text returns the parameters on one line, or on one line each.
func (p parameters) text(name, result string) string {
	one := "(" + strings.Join(p.list, ", ") + ")"
	if len("async def "+name+one+" -> "+result) <= 110 {
		return one
	}
	return "(\n    " + strings.Join(p.list, ",\n    ") + ",\n)"
}

func (w *pyWriter) parameters(t *tool.Tool, prefix string) parameters {
	if takesNothing(t.InputSchema) {
		return parameters{}
	}
	c := &converter{whole: true, input: true}
	root := c.document(t.InputSchema).root
	o, ok := objects(root, 0)
	if _, union := root.(*unionType); union {
		ok = false
	}
	if ok {
		for _, p := range o.props {
			ok = ok && pyParameter(p.name) != ""
		}
	}
	if !ok {
		list := "args: " + w.typ(root, prefix+"Args", 0)
		if mayBeEmpty(root) {
			list += " = ..."
		}
		p := parameters{list: []string{list, "/"}, dict: true}
		if o != nil {
			p.docs = o.props
		}
		return p
	}
	p := parameters{docs: o.props}
	if len(o.props) > 0 {
		p.list = append(p.list, "*")
	}
	for _, optional := range []bool{false, true} {
		for _, prop := range o.props {
			if prop.optional != optional {
				continue
			}
			s := pyParameter(prop.name) + ": " + w.typ(prop.typ, prefix+pascal(prop.name), 1)
			if optional {
				s += " = ..."
			}
			p.list = append(p.list, s)
		}
	}
	if o.index != nil {
		p.list = append(p.list, "**_extra: "+w.typ(o.index, prefix+"Value", 1))
	}
	return p
}

// doc returns the lines of a tool's docstring.
func (w *pyWriter) doc(it Item, p parameters) []string {
	text := it.Tool.Description
	if text == "" {
		text = it.Tool.Title
	}
	var lines []string
	if text = cut(strings.TrimSpace(plain(text)), 2*fullDoc); text != "" {
		lines = append(strings.Split(text, "\n"), "")
	}
	doc := &writer{style: w.docs}
	head := []string{"Args:"}
	if p.dict {
		head = []string{"Args (in one dict, since Python has no keywords for all of them):"}
	}
	for _, prop := range p.docs {
		if l := doc.docText(prop.doc, prop.facts); len(l) > 0 {
			lines = append(append(lines, head...), "    "+oneLine(prop.name, 100)+": "+strings.Join(l, " "))
			head = nil
		}
	}
	if head == nil {
		lines = append(lines, "")
	}
	lines = append(lines, "Tool: "+oneLine(it.Tool.Path(), 300))
	if h := hints(it.Tool.Annotations); h != "" {
		lines = append(lines, "Hints: "+h)
	}
	if note := it.resultNote("", "not declared: parsed JSON if the tool answers with JSON, else a str. Look at "+
		"a small part of it first."); note != "" {
		lines = append(lines, "Result: "+note)
	}
	if ex := pyExample(it); ex != "" {
		lines = append(lines, "Example: "+ex)
	}
	return lines
}

// pyCallee returns the expression that a program calls.
func pyCallee(n Names) string {
	space := n.Namespace
	if !isPyName(space) {
		space = "tools[" + pyQuote(space) + "]"
	}
	if pyName(n.Member) == "" {
		return space + "[" + pyQuote(n.Member) + "]"
	}
	return space + "." + n.Member
}

// pyExample returns a call with arguments that validate, or "" if there is none that is short.
func pyExample(it Item) string {
	call := "await " + pyCallee(it.Names) + "("
	if takesNothing(it.Tool.InputSchema) {
		return call + ")"
	}
	v, err := exampleValue(it.Tool.InputSchema)
	if err != nil || v == nil || v.kind != jObject {
		return ""
	}
	parts := make([]string, len(v.keys))
	for i, k := range v.keys {
		if pyParameter(k) == "" {
			parts = []string{pyValue(v)}
			break
		}
		parts[i] = pyParameter(k) + "=" + pyValue(v.vals[i])
	}
	args := strings.Join(parts, ", ")
	if len(args) > 1_000 {
		return ""
	}
	return call + args + ")"
}
