package typegen

import (
	"slices"
	"strings"
)

const noPyResultType = "result type not declared: parsed JSON if the tool answers with JSON, else a str; " +
	"look at a small part first: list(r)[:20] or r[:500]"

// pyDetails are tried in order until a signature fits. They limit the number of types, the length
// of descriptions, and whether optional arguments are included.
var pyDetails = []struct {
	nodes int
	docs  style
	few   bool
}{
	{nodes: maxPyNodes, docs: style{doc: 200, facts: true}},
	{nodes: maxPyNodes, docs: style{doc: 80, facts: true}},
	{nodes: maxPyNodes},
	{nodes: 60},
	{nodes: 20},
	{nodes: 20, few: true},
}

// PythonSignature is like Signature, for Python programs: the call with its keywords, their
// descriptions, and the classes that it needs.
func PythonSignature(it Item) (code, example, resultNote string) {
	n := it.Names
	for i, d := range pyDetails {
		w := &pyWriter{taken: map[string]bool{}, names: map[*named]string{}, docs: d.docs, nodes: d.nodes,
			size: maxPyText}
		if code = w.signature(it, d.few); len(code) > maxSignature {
			code = ""
			continue
		}
		if i > 0 || w.nodes < 0 {
			code += "\n" + pyCut(n)
		}
		break
	}
	if code == "" {
		code = pyCallee(n) + "(...) -> Any\n" + pyCut(n)
	}
	return code, pyExample(it), it.resultNote("result type ", noPyResultType)
}

func pyCut(n Names) string {
	return "# cut: all of it is in ./tools/" + fileName(n.Namespace) + "/__init__.pyi"
}

// signature returns the call of one tool and its types.
func (w *pyWriter) signature(it Item, few bool) string {
	prefix := pascal(it.Names.Member)
	if prefix == "" {
		prefix = "Tool"
	}
	p := w.parameters(it.Tool, prefix)
	if few {
		p.list = append(slices.DeleteFunc(p.list, func(s string) bool { return strings.HasSuffix(s, " = ...") }), "...")
		w.defs = referencedTypes(w.defs, strings.Join(p.list, "\n"))
	}
	result := w.result(it, prefix)
	callee := pyCallee(it.Names)
	lines := []string{callee + p.text(callee, result) + " -> " + result}
	doc := &writer{style: w.docs}
	for _, prop := range p.docs {
		if l := doc.docText(prop.doc, prop.facts); len(l) > 0 {
			lines = append(lines, pyComment("- "+oneLine(prop.name, 100)+": "+strings.Join(l, " ")))
		}
	}
	for _, d := range w.defs {
		lines = append(lines, strings.TrimRight(d, "\n"))
	}
	return strings.Join(lines, "\n")
}

// referencedTypes returns the declarations that text refers to, directly or through other
// declarations, in order.
func referencedTypes(defs []string, text string) []string {
	var out []string
	for _, d := range defs {
		name := strings.TrimPrefix(d, "class ")
		if i := strings.IndexAny(name, "(: "); i > 0 && strings.Contains(text, name[:i]) {
			out = append(out, d)
			text += d
		}
	}
	return out
}
