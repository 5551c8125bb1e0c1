package typegen

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// goKeywords are words that can't name a Go package that programs import: keywords, and names that
// the generated module uses.
var goKeywords = lazily.Words(`break case chan const continue default defer else fallthrough for func go goto if import
	interface map package range return select struct switch type var main tools internal vendor program init any error
	string int int64 float64 bool nil true false`)

// GoPackageName returns the name of the Go package with the tools of a namespace: the last part of
// its import path "tools/<name>".
func GoPackageName(namespace string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, namespace)
	if name == "" || name[0] <= '9' || goKeywords.Has(name) {
		return "x" + name
	}
	return name
}

// GoPackage returns Go source with the tools of one upstream: for each that uses reports true for,
// a function and its types. It imports the package tools, which makes the calls. Descriptions
// are left out: programs are compiled, not read.
func GoPackage(items []Item, uses func(name string) bool) string {
	items = slices.Clone(items)
	slices.SortStableFunc(items, func(a, b Item) int { return strings.Compare(a.Names.Member, b.Names.Member) })
	w := &goWriter{taken: map[string]bool{}}
	name, functions := "x", make([]string, len(items))
	for i, it := range items {
		name = GoPackageName(it.Names.Namespace)
		functions[i] = unique(goName(it.Names.Member), w.taken) // before the names of types
	}
	var b strings.Builder
	for i, it := range items {
		if uses(functions[i]) {
			b.WriteString("\n" + w.writeTool(it, functions[i]))
		}
	}
	return "package " + name + "\n\nimport \"tools\"\n\nvar _ tools.Value\n" + b.String()
}

// goName returns an exported name.
func goName(s string) string {
	if name := pascal(s); name != "" {
		return name
	}
	return "Tool"
}

// Bounds on the types of one tool. Types beyond them are any.
const (
	maxGoNodes = 5_000
	maxGoDepth = 12
)

// A goWriter writes the types of a Go package.
type goWriter struct {
	taken map[string]bool
	names map[*named]string // declared types
	defs  []string          // declarations
	nodes int               // number of types left for this tool
	open  string            // the type of values of which nothing is known
}

// writeTool returns the function and the types of a tool.
func (w *goWriter) writeTool(it Item, fn string) string {
	w.defs, w.nodes = nil, maxGoNodes
	path := strconv.Quote(it.Names.Namespace + "." + it.Names.Member)
	parameter, argument := "", "nil"
	if !takesNothing(it.Tool.InputSchema) {
		parameter, argument = "args "+w.writeRoot(it.Tool.InputSchema, fn+"Args", "any", true), "args"
	}
	result := "tools.Value"
	if it.Tool.OutputSchema != nil {
		result = w.writeRoot(it.Tool.OutputSchema, fn+"Result", "tools.Value", false)
	}
	text := "// " + fn + " calls the tool " + path + ".\nfunc " + fn + "(" + parameter + ") (result " + result +
		", err error) {\n\terr = tools.CallInto(" + path + ", " + argument + ", &result)\n\treturn result, err\n}\n"
	return text + strings.Join(w.defs, "")
}

// writeRoot returns the type of a schema, which it declares under a name if it is an object.
func (w *goWriter) writeRoot(schema json.RawMessage, want, open string, input bool) string {
	c := &converter{whole: true, input: input}
	w.names, w.open = map[*named]string{}, open
	return w.goType(c.document(schema).root, want, 0)
}

// goType returns t as Go. want is the name of the type, if it needs one.
func (w *goWriter) goType(t typ, want string, depth int) string {
	if w.nodes--; w.nodes < 0 || depth > maxGoDepth {
		return w.open
	}
	switch t := t.(type) {
	case prim:
		return w.goPrim(t)
	case *arrayType:
		return "[]" + w.goType(t.elem, want+"Item", depth+1)
	case *tupleType:
		elems := slices.Clone(t.elems)
		if t.rest != nil {
			elems = append(elems, t.rest)
		}
		return "[]" + w.goUnion(elems, want+"Item", depth+1)
	case *objectType:
		return w.writeObject(t, want, depth)
	case *unionType:
		return w.goUnion(t.arms, want, depth)
	case *interType:
		if o, ok := objects(t, 0); ok {
			return w.writeObject(o, want, depth)
		}
	case *refType:
		return w.goRef(t.to, want, depth)
	}
	return w.open
}

func (w *goWriter) goPrim(p prim) string {
	switch p.text {
	case "string":
		return "string"
	case "number":
		return "float64"
	case "integer", "bigint":
		return "int64"
	case "boolean", "true", "false":
		return "bool"
	}
	switch c := p.text[0]; {
	case c == '"':
		return "string"
	case c == '-' || '0' <= c && c <= '9':
		if strings.Trim(p.text, "-0123456789") == "" {
			return "int64"
		}
		return "float64"
	}
	return w.open
}

// goUnion returns the type of all arms, or a pointer to it if null is one of them.
func (w *goWriter) goUnion(arms []typ, want string, depth int) string {
	out, null := "", false
	for _, a := range arms {
		if isPrim(a, "null") {
			null = true
			continue
		}
		if _, object := objects(a, 0); object && out != "" {
			return w.open // no type has the values of several objects
		}
		switch s := w.goType(a, want, depth+1); {
		case out == "" || out == s:
			out = s
		default:
			return w.open
		}
	}
	switch {
	case out == "":
		return w.open
	case null:
		return pointerTo(out, w.open)
	}
	return out
}

// pointerTo returns a type that can be nil.
func pointerTo(t, open string) string {
	if t == open || strings.HasPrefix(t, "[]") || strings.HasPrefix(t, "map[") || strings.HasPrefix(t, "*") {
		return t
	}
	return "*" + t
}

// goRef returns the name of a type that is referred to. It is a pointer if the type may contain
// itself.
func (w *goWriter) goRef(n *named, want string, depth int) string {
	mark := ""
	if n.recursive {
		mark = "*"
	}
	if name, ok := w.names[n]; ok {
		return mark + name
	}
	o, ok := objects(n.body, 0)
	if !ok || !hasGoFields(o) {
		if n.recursive {
			return w.open // a type of Go needs a name to contain itself
		}
		return w.goType(n.body, want, depth+1)
	}
	if n.want != "" {
		want = strings.TrimSuffix(want, "Item") + goName(n.want)
	}
	name := unique(want, w.taken)
	w.names[n] = name
	w.declareStruct(name, o, depth)
	return mark + name
}

// hasGoFields reports whether an object can be a struct: each property has a name that a tag can
// have.
func hasGoFields(o *objectType) bool {
	for _, p := range o.props {
		if !isTagName(p.name) {
			return false
		}
	}
	return len(o.props) > 0
}

// isTagName reports whether encoding/json accepts a name in a field's tag.
func isTagName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r) {
			return false
		}
	}
	return s != "" && s != "-"
}

// writeObject returns an object as a struct, or as a map if it has no named properties.
func (w *goWriter) writeObject(o *objectType, want string, depth int) string {
	if !hasGoFields(o) {
		if o.index == nil || len(o.props) > 0 {
			return "map[string]" + w.open
		}
		return "map[string]" + w.goType(o.index, want+"Value", depth+1)
	}
	name := unique(want, w.taken)
	w.declareStruct(name, o, depth)
	return name
}

// declareStruct declares a struct. Optional fields can be nil, and are then left out.
func (w *goWriter) declareStruct(name string, o *objectType, depth int) {
	at := len(w.defs)
	w.defs = append(w.defs, "") // before the types that it needs
	fields := map[string]bool{}
	var b strings.Builder
	b.WriteString("\ntype " + name + " struct {\n")
	for _, p := range o.props {
		field := unique(goName(p.name), fields)
		t, tag := w.goType(p.typ, name+field, depth+1), p.name
		if p.optional {
			t, tag = pointerTo(t, w.open), tag+",omitzero"
		}
		b.WriteString("\t" + field + " " + t + " `json:\"" + tag + "\"`\n")
	}
	b.WriteString("}\n")
	w.defs[at] = b.String()
}
