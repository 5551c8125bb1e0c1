package typegen

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A module is the file of one tool.
type module struct {
	tool         *tool.Tool
	note         string // on the type of the result; may be empty
	names        Names
	base         string // file name without .ts
	fn           string // name of the function inside the file
	args, result *document
	argsName     string
	resultName   string
	noArgs       bool
}

func newModule(it Item) *module {
	t, n := it.Tool, it.Names
	m := &module{tool: t, names: n, base: fileName(n.Member), fn: n.Member, noArgs: takesNothing(t.InputSchema)}
	if !isBinding(m.fn) {
		m.fn = "call"
	}
	prefix := pascal(n.Member)
	if prefix == "" {
		prefix = "Tool"
	}
	m.argsName, m.resultName = prefix+"Args", prefix+"Result"
	m.args = convertSchema(t.InputSchema, true)
	m.result = &document{root: tUnknown}
	m.note = it.resultNote("Type ",
		"Not declared: parsed JSON if the tool answers with JSON, else a string. Look at a small part of it first.")
	if schema, observed := it.resultSchema(); schema != nil {
		m.result = convertSchema(schema, false)
		if observed {
			openObjects(m.result.root)
		}
	}
	taken := map[string]bool{m.argsName: true, m.resultName: true}
	for _, d := range []struct {
		doc  *document
		name string
	}{{m.args, m.argsName}, {m.result, m.resultName}} {
		if d.doc.self != nil { // declare it under the main name instead of separately
			d.doc.self.name = d.name
			d.doc.root = d.doc.self.body
			d.doc.defs = without(d.doc.defs, d.doc.self)
			d.doc.self = nil
		}
		nameAll(d.doc, d.name, taken)
	}
	return m
}

// openObjects adds members of unknown types to the objects in an observed type, so that a program
// may also read what was not observed.
func openObjects(t typ) {
	switch t := t.(type) {
	case *arrayType:
		openObjects(t.elem)
	case *unionType:
		for _, arm := range t.arms {
			openObjects(arm)
		}
	case *objectType:
		for _, p := range t.props {
			openObjects(p.typ)
		}
		if t.index == nil {
			t.index = tUnknown
		}
		openObjects(t.index)
	}
}

func without(ns []*named, not *named) []*named {
	var out []*named
	for _, n := range ns {
		if n != not {
			out = append(out, n)
		}
	}
	return out
}

// fullStyle is the style of files: everything is written.
var fullStyle = style{width: 110, doc: -1, facts: true}

func (m *module) text() string {
	var b strings.Builder
	b.WriteString("/// <reference path=\"../lib.runtime.d.ts\" />\n\n")
	b.WriteString(m.doc())
	b.WriteString(m.function())
	w := &writer{style: fullStyle}
	declare := func(name, doc string, t typ) {
		b.WriteString("\n" + w.docLines(doc, "", 0))
		b.WriteString("export type " + name + " = " + w.typ(t, 0, len(name)+15, 0) + ";\n")
	}
	if m.noArgs {
		declare(m.argsName, "", prim{text: "Record<string, never>"})
	} else {
		declare(m.argsName, "", m.args.root)
	}
	declare(m.resultName, m.note, m.result.root)
	for _, d := range [][]*named{m.args.defs, m.result.defs} {
		for _, n := range d {
			declare(n.name, n.doc, n.body)
		}
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

// doc returns the comment above the function.
func (m *module) doc() string {
	var lines []string
	text := m.tool.Description
	if text == "" {
		text = m.tool.Title
	}
	if text = cut(strings.TrimSpace(comment(text)), 2*fullDoc); text != "" {
		lines = append(strings.Split(text, "\n"), "")
	}
	lines = append(lines, "Tool: "+oneLine(m.tool.Path(), 300))
	if h := hints(m.tool.Annotations); h != "" {
		lines = append(lines, "Hints: "+h)
	}
	if ex := exampleCall(m.tool, m.names); ex != "" && len(ex) < 4_000 {
		lines = append(append(lines, "Example:"), strings.Split(comment(ex), "\n")...)
	}
	var b strings.Builder
	b.WriteString("/**\n")
	for _, l := range lines {
		b.WriteString(strings.TrimRight(" * "+l, " \t") + "\n")
	}
	b.WriteString(" */\n")
	return b.String()
}

// hints describes the upstream's annotations in words.
func hints(a tool.Annotations) string {
	var h []string
	add := func(v *bool, yes, no string) {
		switch {
		case v == nil:
		case *v && yes != "":
			h = append(h, yes)
		case !*v && no != "":
			h = append(h, no)
		}
	}
	add(a.ReadOnly, "read-only", "writes")
	if a.ReadOnly == nil || !*a.ReadOnly {
		add(a.Destructive, "may destroy data", "only adds")
		add(a.Idempotent, "safe to repeat", "")
	}
	return strings.Join(h, ", ")
}

func (m *module) function() string {
	head := "function " + m.fn + "(args"
	switch {
	case m.noArgs:
		head += ": " + m.argsName + " = {}"
	case mayBeEmpty(m.args.root):
		head += "?: " + m.argsName
	default:
		head += ": " + m.argsName
	}
	text := head + "): Promise<" + m.resultName + "> {\n  return callTool(" + quote(m.tool.Path()) + ", args);\n}\n"
	if m.fn == m.names.Member {
		return "export " + text
	}
	return text + "export { " + m.fn + " as " + exportName(m.names.Member) + " };\n"
}

// exportName returns the name of an export, which may be a reserved word or not an identifier at
// all (ES2022).
func exportName(member string) string { return propertyName(member) }

// fileName returns a file name for a name in a program that is safe on every system.
func fileName(name string) string {
	var b strings.Builder
	for _, r := range name {
		switch {
		case r == '_', r == '$', r == '-', '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
			b.WriteRune(r)
		case r >= utf8.RuneSelf && unicode.IsLetter(r):
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
		if b.Len() > 120 {
			break
		}
	}
	switch s := b.String(); strings.ToLower(s) {
	case "":
		return "_"
	case "index", "con", "prn", "aux", "nul", "com1", "com2", "com3", "lpt1", "lpt2", "lpt3":
		return s + "_"
	default:
		return s
	}
}

// modulePath returns the path of a tool's file in the tree.
func modulePath(n Names) string {
	return "tools/" + fileName(n.Namespace) + "/" + fileName(n.Member) + ".ts"
}
