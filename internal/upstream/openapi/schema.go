package openapi

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// Limits of one tool's schemas, in bytes. Beyond them, references accept any value.
const (
	maxInput  = 96 << 10
	maxOutput = 32 << 10
)

// A fragment is a converted schema, and the schemas that it refers to.
type fragment struct {
	json []byte
	refs []target
	err  error
}

// schemas converts the schemas of a document to JSON Schema 2020-12. Each is converted once.
type schemas struct {
	doc   *document
	names map[target]string // under which $defs has them
	taken map[string]bool
	done  map[use]*fragment
}

// A use is a schema in one of its two roles: properties may be for requests or answers only.
type use struct {
	target
	input bool
}

func newSchemas(d *document) *schemas {
	return &schemas{doc: d, names: map[target]string{}, taken: map[string]bool{}, done: map[use]*fragment{}}
}

// nameTarget returns the unique name of a schema in $defs.
func (s *schemas) nameTarget(t target) string {
	if name := s.names[t]; name != "" {
		return name
	}
	base := t.pointer[strings.LastIndexByte(t.pointer, '/')+1:]
	if base == "" {
		base = strings.TrimSuffix(path.Base(t.file), path.Ext(t.file))
	}
	base = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' {
			return r
		}
		return '_'
	}, base)
	name := base
	for i := 2; s.taken[name]; i++ {
		name = base + "_" + strconv.Itoa(i)
	}
	s.taken[name], s.names[t] = true, name
	return name
}

// fragmentOf returns the converted schema of a target.
func (s *schemas) fragmentOf(u use) *fragment {
	if f := s.done[u]; f != nil {
		return f
	}
	f := &fragment{}
	s.done[u] = f
	p, err := s.doc.findTarget(u.target)
	if err != nil {
		f.err = err
		return f
	}
	*f = *s.convertSchema(p, u.input)
	return f
}

// convertSchema converts a schema that is written in place.
func (s *schemas) convertSchema(p place, input bool) *fragment {
	c := &converter{schemas: s, file: p.file, input: input}
	n, err := c.convertNode(p.n, 0)
	if err != nil {
		return &fragment{err: err}
	}
	return &fragment{json: n.appendJSON(nil), refs: c.refs}
}

// collectDefs returns the value of $defs for the given references and all that they lead to,
// nearest first, within a number of bytes; nil if there are none.
func (s *schemas) collectDefs(refs []target, input bool, most int) ([]byte, error) {
	var out []byte
	seen := map[target]bool{}
	for len(refs) > 0 {
		t := refs[0]
		refs = refs[1:]
		if seen[t] {
			continue
		}
		seen[t] = true
		f := s.fragmentOf(use{t, input})
		if f.err != nil && input {
			return nil, f.err
		}
		text := f.json
		if f.err != nil || len(out)+len(text) > most {
			text = []byte(`{}`)
		} else {
			refs = append(refs, f.refs...)
		}
		if out == nil {
			out = append(out, '{')
		} else {
			out = append(out, ',')
		}
		out = append(append(appendString(out, s.nameTarget(t)), ':'), text...)
	}
	if out != nil {
		out = append(out, '}')
	}
	return out, nil
}

// A converter converts one schema.
type converter struct {
	*schemas
	file  string
	input bool
	refs  []target
}

// Keywords by the form of their values.
var (
	schemaKeys = []string{"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
		"unevaluatedItems", "unevaluatedProperties"}
	schemaListKeys = []string{"oneOf", "anyOf", "allOf", "prefixItems"}
	schemaMapKeys  = []string{"properties", "patternProperties", "dependentSchemas"}
	countKeys      = []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
		"minContains", "maxContains"}
	numberKeys  = []string{"minimum", "maximum", "multipleOf"}
	textKeys    = []string{"title", "description", "format", "contentEncoding", "contentMediaType"}
	flagKeys    = []string{"deprecated", "readOnly", "writeOnly", "uniqueItems"}
	schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}
)

func (c *converter) convertNode(n *node, depth int) (*node, error) {
	switch {
	case n == nil:
		return newMap(), nil
	case depth > maxDepth/2:
		return nil, errors.New("a schema is nested too deeply")
	case n.kind == boolKind:
		return n, nil
	case n.kind != mapKind:
		return nil, errors.New("a schema is not a map")
	}
	out := newMap()
	if ref := n.getField("$ref"); ref != nil && ref.kind == stringKind {
		t, err := c.doc.resolveTarget(c.file, ref.text)
		if err != nil {
			return nil, err
		}
		if _, err := c.doc.findTarget(t); err != nil {
			return nil, err
		}
		c.refs = append(c.refs, t)
		out.addField("$ref", newText("#/$defs/"+c.nameTarget(t)))
		if c.doc.old {
			return out, nil
		}
	}
	if c.input && n.getText("format") == "binary" {
		return fileSchema(n), nil
	}
	for _, f := range n.fields {
		v, err := c.convertKeyword(n, f, depth)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out.addField(f.name, v)
		}
	}
	if c.doc.old {
		return convertBounds(n, out), nil
	}
	return out, nil
}

// fileSchema returns the schema of a file's content: text, or bytes as base64.
func fileSchema(n *node) *node {
	text := newMap(field{"type", newText("string")})
	props := newMap()
	for _, name := range []string{"base64", "filename", "content_type"} {
		props.addField(name, text)
	}
	object := newMap(field{"type", newText("object")}, field{"properties", props},
		field{"required", &node{kind: listKind, list: []*node{newText("base64")}}})
	out := newMap(field{"anyOf", &node{kind: listKind, list: []*node{text, object}}})
	if d := n.getText("description"); d != "" {
		out.addField("description", newText(d))
	}
	return out
}

// convertKeyword returns the value of a keyword, or nil to leave it out.
func (c *converter) convertKeyword(n *node, f field, depth int) (*node, error) {
	v := f.value
	switch {
	case f.name == "type":
		return v, checkType(v)
	case slices.Contains(schemaKeys, f.name):
		return c.convertNode(v, depth+1)
	case slices.Contains(schemaListKeys, f.name):
		if v.kind != listKind || len(v.list) == 0 {
			return nil, nil
		}
		out := &node{kind: listKind}
		for _, e := range v.list {
			converted, err := c.convertNode(e, depth+1)
			if err != nil {
				return nil, err
			}
			out.list = append(out.list, converted)
		}
		return out, nil
	case slices.Contains(schemaMapKeys, f.name):
		return c.convertMap(f, depth)
	case f.name == "required":
		return c.convertRequiredNames(n, v), nil
	case f.name == "enum" && v.kind == listKind && len(v.list) > 0, f.name == "const", f.name == "default",
		slices.Contains(countKeys, f.name) && v.kind == numberKind && !strings.ContainsAny(v.text, "-.eE"),
		slices.Contains(numberKeys, f.name) && v.kind == numberKind,
		strings.HasPrefix(f.name, "exclusive") && !c.doc.old && v.kind == numberKind,
		slices.Contains(textKeys, f.name) && v.kind == stringKind,
		slices.Contains(flagKeys, f.name) && v.kind == boolKind:
		return v, nil
	case f.name == "pattern" && v.kind == stringKind:
		if _, err := regexp.Compile(v.text); err == nil { // else one of another dialect
			return v, nil
		}
	}
	return nil, nil
}

func (c *converter) convertMap(f field, depth int) (*node, error) {
	if f.value.kind != mapKind {
		return nil, nil
	}
	out := newMap()
	for _, p := range f.value.fields {
		if _, err := regexp.Compile(p.name); f.name == "patternProperties" && err != nil {
			continue
		}
		v, err := c.convertNode(p.value, depth+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", web.ClipText(p.name), err)
		}
		out.addField(p.name, v)
	}
	return out, nil
}

// convertRequiredNames leaves out properties that only the other side sends.
func (c *converter) convertRequiredNames(n, v *node) *node {
	if v.kind != listKind {
		return nil
	}
	other := "readOnly"
	if !c.input {
		other = "writeOnly"
	}
	out := &node{kind: listKind}
	for _, e := range v.list {
		if e.kind == stringKind && !n.getField("properties").getField(e.text).getField(other).isTrue() &&
			!slices.ContainsFunc(out.list, func(o *node) bool { return o.text == e.text }) {
			out.list = append(out.list, e)
		}
	}
	return out
}

func checkType(v *node) error {
	all := []*node{v}
	if v.kind == listKind {
		all = v.list
	}
	for _, t := range all {
		if t.kind != stringKind || !slices.Contains(schemaTypes, t.text) {
			return fmt.Errorf("a schema has the unknown type %s", web.ClipText(string(t.appendJSON(nil))))
		}
	}
	return nil
}

// convertBounds converts nullable, and bounds given as flags, in an OpenAPI 3.0 schema.
func convertBounds(n, out *node) *node {
	for _, side := range []struct{ flag, bound string }{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum",
		"maximum"}} {
		bound := out.getField(side.bound)
		if bound == nil || !n.getField(side.flag).isTrue() {
			continue
		}
		for i := range out.fields {
			if out.fields[i].name == side.bound {
				out.fields[i].name = side.flag
			}
		}
	}
	if !n.getField("nullable").isTrue() {
		return out
	}
	null := newText("null")
	typ := out.getField("type")
	if typ == nil {
		return newMap(field{"anyOf", &node{kind: listKind, list: []*node{out, newMap(field{"type", null})}}})
	}
	for i, f := range out.fields {
		switch {
		case f.name == "type" && f.value.kind == stringKind:
			out.fields[i].value = &node{kind: listKind, list: []*node{f.value, null}}
		case f.name == "enum" && !slices.ContainsFunc(f.value.list, func(e *node) bool { return e.kind == nullKind }):
			out.fields[i].value = &node{kind: listKind, list: append(slices.Clone(f.value.list), &node{})}
		}
	}
	return out
}
