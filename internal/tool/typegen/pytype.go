package typegen

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Bounds on the stubs of one tool. Types beyond them are Any.
const (
	maxPyNodes = 5_000
	maxPyText  = 256 << 10 // bytes
	maxPyDepth = 12        // nested classes without a name to end the nesting
)

// A pyWriter writes the types of a module.
type pyWriter struct {
	hidden bool              // a function of the module has the same name as a type
	taken  map[string]bool   // names used in the module
	names  map[*named]string // declared types
	docs   style             // style of descriptions
	defs   []string          // declarations in order of first use
	nodes  int               // number of types left for this tool
	size   int               // bytes left
}

// name returns the name of one of pyTypes as the module can refer to it.
func (w *pyWriter) name(s string) string {
	switch {
	case !w.hidden:
		return s
	case 'A' <= s[0] && s[0] <= 'Z':
		return "_typing." + s
	}
	return "_builtins." + s
}

// unique returns an unused name in the module.
func (w *pyWriter) unique(want string) string {
	name := want
	for i := 2; w.taken[name] || pyKeywords.Has(name) || pyTypes.Has(name); i++ {
		name = fmt.Sprintf("%s%d", want, i)
	}
	w.taken[name] = true
	return name
}

// typ returns t as Python. want is the name of the class, if it needs one.
func (w *pyWriter) typ(t typ, want string, depth int) string {
	if w.nodes--; w.nodes < 0 || w.size < 0 || depth > maxPyDepth {
		return w.name("Any")
	}
	switch t := t.(type) {
	case prim:
		return w.prim(t)
	case *arrayType:
		return w.list(t.elem, want, depth)
	case *tupleType: // JSON arrays are lists
		elems := slices.Clone(t.elems)
		if t.rest != nil {
			elems = append(elems, t.rest)
		}
		if len(elems) == 0 {
			elems = []typ{tUnknown}
		}
		return w.list(&unionType{elems}, want, depth)
	case *objectType:
		return w.writeObject(t, want, depth)
	case *unionType:
		return w.union(t.arms, want, depth)
	case *interType:
		return w.intersection(t, want, depth)
	case *refType:
		return w.ref(t.to, want)
	}
	return w.name("Any")
}

func (w *pyWriter) list(elem typ, want string, depth int) string {
	return w.name("list") + "[" + w.typ(elem, want+"Item", depth+1) + "]"
}

func (w *pyWriter) prim(p prim) string {
	switch p.text {
	case "null":
		return "None"
	case "string":
		return w.name("str")
	case "number":
		return w.name("float")
	case "integer", "bigint":
		return w.name("int")
	case "boolean":
		return w.name("bool")
	case "never":
		return w.name("Never")
	}
	if l, ok := pyLiteral(p.text); ok {
		return w.name("Literal") + "[" + l + "]"
	}
	if c := p.text[0]; c == '-' || '0' <= c && c <= '9' {
		return w.name("float") // Literal doesn't accept floats
	}
	return w.name("Any")
}

// pyLiteral returns the argument of Literal for a literal type.
func pyLiteral(text string) (string, bool) {
	switch {
	case text == "true":
		return "True", true
	case text == "false":
		return "False", true
	case text[0] == '"':
		return pyQuote(pyString(text)), true
	case strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == "":
		return text, true
	}
	return "", false
}

func (w *pyWriter) union(arms []typ, want string, depth int) string {
	var out, literals []string
	at := -1 // position of the literals
	for i, a := range arms {
		if p, ok := a.(prim); ok {
			if l, ok := pyLiteral(p.text); ok {
				if at < 0 {
					at = len(out)
					out = append(out, "")
				}
				if !slices.Contains(literals, l) {
					literals = append(literals, l)
				}
				continue
			}
		}
		name := want
		if i > 0 {
			name = fmt.Sprintf("%s%d", want, i+1)
		}
		s := w.typ(a, name, depth)
		if s == w.name("Any") {
			return s
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	if at >= 0 {
		out[at] = w.name("Literal") + "[" + strings.Join(literals, ", ") + "]"
	}
	return strings.Join(out, " | ")
}

// intersection returns an intersection of objects as one object. Python can't express intersections
// of other types.
func (w *pyWriter) intersection(t *interType, want string, depth int) string {
	all, ok := objects(t, 0)
	if !ok {
		for _, a := range t.arms {
			if _, is := objects(a, 0); is {
				return w.name("dict") + "[" + w.name("str") + ", " + w.name("Any") + "]"
			}
		}
		return w.typ(t.arms[0], want, depth+1)
	}
	return w.writeObject(all, want, depth)
}

// objects returns t as a single object type, if it is one.
func objects(t typ, depth int) (*objectType, bool) {
	if depth > 16 {
		return nil, false
	}
	switch t := t.(type) {
	case *objectType:
		return t, true
	case *refType:
		return objects(t.to.body, depth+1)
	case *interType:
		out := &objectType{}
		for _, a := range t.arms {
			o, ok := objects(a, depth+1)
			if !ok {
				return nil, false
			}
			out = mergeObjects(out, o)
		}
		return out, true
	}
	return nil, false
}

func (w *pyWriter) ref(n *named, want string) string {
	if name, ok := w.names[n]; ok {
		return name
	}
	if n.want != "" {
		want = n.want
	}
	name := w.unique(want)
	w.names[n] = name
	if o, ok := objects(n.body, 0); ok && len(o.props) > 0 && o.index == nil {
		w.class(name, o, 0)
		return name
	}
	at := w.reserve()
	w.define(at, name+": "+w.name("TypeAlias")+" = "+w.typ(n.body, name, 0)+"\n")
	return name
}

// writeObject returns an object as a separate class, or as a dict if it has no named properties.
func (w *pyWriter) writeObject(o *objectType, want string, depth int) string {
	dict := func(of string) string { return w.name("dict") + "[" + w.name("str") + ", " + of + "]" }
	if len(o.props) == 0 {
		if o.index == nil {
			return dict(w.name("Never"))
		}
		return dict(w.typ(o.index, want+"Value", depth+1))
	}
	name := w.unique(want)
	w.class(name, o, depth)
	if o.index != nil { // a TypedDict can't have other members
		return name + " | " + dict(w.name("Any"))
	}
	return name
}

// reserve reserves a place for a declaration before the declarations that it needs.
func (w *pyWriter) reserve() int {
	w.defs = append(w.defs, "")
	return len(w.defs) - 1
}

func (w *pyWriter) define(at int, text string) {
	w.defs[at] = text
	w.size -= len(text)
}

// class declares a TypedDict: as a class if all its keys are valid names, otherwise as a call.
func (w *pyWriter) class(name string, o *objectType, depth int) {
	at := w.reserve()
	asClass := true
	for _, p := range o.props {
		asClass = asClass && isPyName(p.name) && !strings.HasPrefix(p.name, "__") && !pyTypes.Has(p.name) &&
			p.name != "_typing" && p.name != "_builtins" && !unicode.IsUpper([]rune(p.name)[0]) // like names of classes
	}
	var b strings.Builder
	if asClass {
		b.WriteString("class " + name + "(" + w.name("TypedDict") + "):\n")
	} else {
		b.WriteString(name + " = " + w.name("TypedDict") + "(" + pyQuote(name) + ", {\n")
	}
	doc := &writer{style: w.docs}
	for _, p := range o.props {
		for _, l := range doc.docText(p.doc, p.facts) {
			b.WriteString("    " + pyComment(l) + "\n")
		}
		t := w.typ(p.typ, name+pascal(p.name), depth+1)
		if p.optional {
			t = w.name("NotRequired") + "[" + t + "]"
		}
		if asClass {
			b.WriteString("    " + p.name + ": " + t + "\n")
		} else {
			b.WriteString("    " + pyQuote(p.name) + ": " + t + ",\n")
		}
	}
	if !asClass {
		b.WriteString("})\n")
	}
	w.define(at, b.String())
}
