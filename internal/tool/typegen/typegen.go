// Package typegen converts JSON Schema to TypeScript and Python types. For one tool it writes the
// typed call that search shows and the file that programs import. For a whole catalog it writes the
// tree of such files, which `tsc --strict` accepts. For Python it writes stubs, which `mypy
// --strict` accepts.
//
// It reads JSON Schema 2020-12 and draft-07, and the extensions of OpenAPI 3.0. Schemas come from
// upstreams and are untrusted: depth, size and cycles are bounded, and text from names and
// descriptions is escaped. Constraints that types can't express (not, if, bounds, patterns) make a
// type wider or become a comment. Schemas that can't be read become unknown, with a comment that
// says why. The output is deterministic.
package typegen

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Names are the names of a tool in a program: <Namespace>.<Member>(args). Both are valid JavaScript
// property names.
type Names struct{ Namespace, Member string }

// path returns the expression that a program calls.
func (n Names) path() string {
	if isIdentifier(n.Member) {
		return n.Namespace + "." + n.Member
	}
	return n.Namespace + "[" + quote(n.Member) + "]"
}

// maxSignature bounds the code of a Signature in bytes, so that a page of search results stays
// readable. The code of a larger tool is cut, and names the file that has all of it.
const maxSignature = 2_000

const noResultType = "result type not declared: parsed JSON if the tool answers with JSON, else a string; " +
	"look at a small part first: Object.keys(r) or r.slice(0, 500)"

// Signature returns the typed call of a tool as search shows it. code is the signature with the
// types it needs, and example is a call with arguments that validate against the schema. resultNote
// is a hint if the tool doesn't declare the result's type, and empty otherwise. The code of a large
// tool is cut to about 2,000 bytes, and names the file that has all of it.
func Signature(it Item) (code, example, resultNote string) {
	n := it.Names
	s := newSignature(it)
	for _, l := range detailLevels {
		var cut bool
		if code, cut = s.write(l); len(code) <= maxSignature {
			if cut {
				code += "\n// cut: all of it is in ./" + modulePath(n)
			}
			break
		}
		code = ""
	}
	if code == "" {
		code = n.path() + "(args: object): Promise<unknown>\n// cut: the types are in ./" + modulePath(n)
	}
	return code, exampleCall(it.Tool, n), it.resultNote("result type ", noResultType)
}

// observedNote is the note on an observed type of a result.
const observedNote = "observed in %d results, not declared: others may differ"

// resultNote returns the note on the type of the result: "" if it is declared, and unknown if it is
// unknown. what precedes observedNote.
func (it *Item) resultNote(what, unknown string) string {
	switch schema, observed := it.resultSchema(); {
	case observed:
		return what + fmt.Sprintf(observedNote, it.Observed.Results)
	case schema == nil:
		return unknown
	}
	return ""
}

// detailLevels are tried in order until a signature fits. Arguments keep their detail longest,
// because an agent has to write them.
var detailLevels = []struct{ args, result style }{
	{style{dense: true, width: 100, doc: 200, facts: true, arms: 40},
		style{dense: true, width: 100, doc: 100, facts: true, arms: 40}},
	{style{dense: true, width: 100, doc: 120, facts: true, arms: 24},
		style{dense: true, width: 100, facts: true, arms: 12}},
	{style{dense: true, width: 100, doc: 80, facts: true, arms: 12, depth: 4},
		style{dense: true, width: 100, arms: 8, depth: 3, props: 40}},
	{style{dense: true, width: 100, doc: 60, arms: 8, depth: 3, props: 24},
		style{dense: true, width: 100, arms: 6, depth: 2, props: 24}},
	{style{dense: true, width: 100, arms: 6, depth: 2, props: 20},
		style{dense: true, width: 100, arms: 4, depth: 1, props: 12}},
	{style{dense: true, width: 100, arms: 4, depth: 1, props: 10},
		style{dense: true, width: 100, arms: 3, depth: 1, props: 6}},
}

type signature struct {
	names        Names
	noArgs       bool
	optional     bool // the arguments may be left out
	args, result *document
}

func newSignature(it Item) *signature {
	t := it.Tool
	s := &signature{names: it.Names, noArgs: takesNothing(t.InputSchema), args: convertNear(t.InputSchema, true)}
	s.optional = mayBeEmpty(s.args.root)
	if schema, _ := it.resultSchema(); schema != nil {
		s.result = convertNear(schema, false)
	} else {
		s.result = &document{root: tUnknown}
	}
	taken := map[string]bool{}
	nameAll(s.args, "Args", taken)
	nameAll(s.result, "Result", taken)
	return s
}

// write returns the signature at one level of detail, and reports whether parts of the types were
// left out.
func (s *signature) write(l struct{ args, result style }) (code string, cut bool) {
	var b strings.Builder
	args := &writer{style: l.args}
	result := &writer{style: l.result}
	all := &uses{by: map[*named]*writer{}}
	args.uses, result.uses = all, all
	b.WriteString(s.names.path() + "(")
	if !s.noArgs {
		head := "args: "
		if s.optional {
			head = "args?: "
		}
		b.WriteString(head + args.typ(s.args.root, 0, b.Len()+len(head), 0))
	}
	b.WriteString("): Promise<" + result.typ(s.result.root, 0, 20, 0) + ">")
	for i := 0; i < len(all.defs) && b.Len() <= maxSignature; i++ {
		def := all.defs[i] // writing it may add more
		b.WriteString("\ntype " + def.name + " = " + all.by[def].typ(def.body, 0, len(def.name)+8, 0))
	}
	return strings.ReplaceAll(b.String(), " \n", "\n"), args.cut || result.cut
}

// uses collects the named types that a signature uses.
type uses struct {
	defs []*named           // in the order of their first use
	by   map[*named]*writer // the writer that used it first
}

func (u *uses) addUse(n *named, w *writer) {
	if u.by[n] == nil {
		u.by[n] = w
		u.defs = append(u.defs, n)
	}
}

// nameAll assigns names to the declarations of a document. They are unique among taken.
func nameAll(d *document, root string, taken map[string]bool) {
	if d.self != nil {
		d.self.want = root
	}
	for _, n := range d.defs {
		want := n.want
		if want == "" {
			want = root + "Part"
		}
		n.name = want
		for i := 2; taken[n.name] || takenNames.Has(n.name) || reservedWords.Has(n.name); i++ {
			n.name = fmt.Sprintf("%s%d", want, i)
		}
		taken[n.name] = true
	}
}

// takesNothing reports whether a schema declares an object without any properties, so that the call
// needs no arguments.
func takesNothing(raw json.RawMessage) bool {
	n, err := parseJSON(raw)
	if err != nil || n.kind != jObject {
		return false
	}
	ps, ap := n.object("properties"), n.get("additionalProperties")
	closed := ap != nil && ap.kind == jBool && !ap.b
	if ps != nil && len(ps.keys) > 0 || ap != nil && !closed || ps == nil && !closed {
		return false
	}
	for _, k := range []string{"$ref", "allOf", "anyOf", "oneOf", "patternProperties", "required", "if"} {
		if n.get(k) != nil {
			return false
		}
	}
	return true
}

// mayBeEmpty reports whether {} is a value of type t.
func mayBeEmpty(t typ) bool {
	switch t := t.(type) {
	case *objectType:
		for _, p := range t.props {
			if !p.optional {
				return false
			}
		}
		return true
	case prim:
		return t.text == "unknown"
	}
	return false
}
