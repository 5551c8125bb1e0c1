package typegen

import (
	_ "embed" // what programs in Python find beside the tools
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

//go:embed static/runtime.pyi
var pyRuntime string

// PythonTree writes a whole catalog as stubs for Python, path to content:
//
//	tools/<namespace>/__init__.pyi   the tools of an upstream: `from tools.github import list_issues`
//	tools/__init__.pyi               the namespaces
//	tools/py.typed                   says to type checkers that the types are there (PEP 561)
//	biplane.pyi                      what else a program finds: call_tool, search, read_result, emit, ToolError
//	__builtins__.pyi                 says to editors that programs have all of that without an import
//
// Arguments are keywords: `await github.list_issues(repo="a/b")`; one that is a word of the language has "_" behind it. Of a tool
// whose name can't be written in Python, or whose arguments can't, the stub says how it is called. Paths of two upstreams that
// differ in case only differ otherwise too. The order of items doesn't matter.
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
		dir := unique(fileName(ns), dirs) // where Tree puts the same upstream
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

// pyModule writes the stub of one upstream.
func pyModule(items []Item) string {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b Item) int { return strings.Compare(a.Names.Member, b.Names.Member) })
	w := &pyWriter{taken: map[string]bool{}, names: map[*named]string{}, docs: style{doc: 300, facts: true}}
	for _, it := range items {
		name := pyName(it.Names.Member)
		w.taken[name] = true
		w.hidden = w.hidden || pyTypes()[name]
	}
	var b strings.Builder
	if w.hidden {
		b.WriteString("import builtins as _builtins\nimport typing as _typing\n")
	} else {
		b.WriteString("from typing import Any, Literal, Never, NotRequired, TypeAlias, TypedDict\n")
	}
	for i, it := range items {
		if i > 0 && it.Names == items[i-1].Names {
			continue // the catalog gives every tool a name of its own
		}
		b.WriteString("\n" + w.tool(it))
	}
	return b.String()
}

// tool writes one tool and its types.
func (w *pyWriter) tool(it Item) string {
	w.defs, w.nodes, w.size = nil, maxPyNodes, maxPyText
	clear(w.names)
	prefix := pascal(it.Names.Member)
	if prefix == "" {
		prefix = "Tool"
	}
	p := w.parameters(it.Tool, prefix)
	result := w.result(it.Tool, prefix)
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

// result writes the type of what a tool gives.
func (w *pyWriter) result(t *tool.Tool, prefix string) string {
	if t.OutputSchema == nil {
		return w.name("Any")
	}
	c := &converter{whole: true}
	return w.typ(c.document(t.OutputSchema).root, prefix+"Result", 0)
}

// parameters of a function in a stub.
type parameters struct {
	list []string   // as they are written
	docs []property // those that are described
	dict bool       // one dict, since Python has no names for some of them
}

// text writes the parameters on one line, or a line each.
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

// doc gives the lines of a tool's docstring.
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
	if it.Tool.OutputSchema == nil {
		lines = append(lines, "Result: not declared: parsed JSON if the tool answers with JSON, else a str. Look at a small part of it first.")
	}
	if ex := pyExample(it); ex != "" {
		lines = append(lines, "Example: "+ex)
	}
	return lines
}

// pyCallee is a tool as a program calls it.
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

// pyExample writes one call with arguments that validate; "" where there is none that is short.
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
