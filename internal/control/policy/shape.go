package policy

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/biplane-dev/biplane/internal/tool/schema"
)

// A shapeKind is the Cedar type of a part of a tool's arguments.
type shapeKind int

const (
	anyShape shapeKind = iota // unknown, or not expressible in Cedar
	stringShape
	boolShape
	longShape
	decimalShape
	setShape
	recordShape
)

// A shape holds the types of a tool's arguments according to its JSON Schema. It types both the
// values at run time and the schema that policies are checked against, so the two agree. Nil is
// anyShape.
type shape struct {
	kind     shapeKind
	items    *shape            // of a set
	fields   map[string]*shape // of a record
	required map[string]bool
	folded   map[string]string // the names of fields, by foldCase
}

func (s *shape) isKind(k shapeKind) bool { return s != nil && s.kind == k }

func (s *shape) fieldShape(name string) *shape {
	if s.isKind(recordShape) {
		return s.fields[name]
	}
	return nil
}

// differsInCase returns the field whose name differs from name only in case, if name is not itself
// a field. Some recipients ignore case.
func (s *shape) differsInCase(name string) string {
	if !s.isKind(recordShape) || len(s.fields) == 0 {
		return ""
	}
	if _, ok := s.fields[name]; ok {
		return ""
	}
	return s.folded[foldCase(name)]
}

// foldCase returns the same text for all texts that differ only in case.
func foldCase(s string) string {
	return strings.Map(func(r rune) rune {
		for {
			next := unicode.SimpleFold(r)
			if next <= r {
				return next
			}
			r = next
		}
	}, s)
}

func (s *shape) itemShape() *shape {
	if s.isKind(setShape) {
		return s.items
	}
	return nil
}

// Limits on the schemas that shapes are built from. Anything beyond them is anyShape.
const (
	schemaBytes = 1 << 20
	schemaDepth = 12
	schemaParts = 5_000
)

// shapeOf returns the shape of a JSON Schema.
func shapeOf(raw json.RawMessage) *shape {
	if len(raw) > schemaBytes {
		return nil
	}
	root, err := schema.Parse(raw)
	if err != nil {
		return nil
	}
	r := &schemaReader{root: root}
	return r.readShape(root, 0)
}

type schemaReader struct {
	root  schema.Schema
	count int
}

func (r *schemaReader) readShape(s schema.Schema, depth int) *shape {
	if r.count++; s.IsZero() || depth > schemaDepth || r.count > schemaParts {
		return nil
	}
	if ref, ok := s.Ref(); ok {
		return r.readShape(r.root.Resolve(ref), depth+1)
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if forms := s.Parts(keyword); forms != nil {
			return r.oneForm(forms, depth)
		}
	}
	for _, keyword := range []string{"allOf", "not", "if", "$dynamicRef"} {
		if s.Has(keyword) && s.ValueOf("type") != "object" {
			return nil
		}
	}
	switch typeOf(s) {
	case "string":
		return &shape{kind: stringShape}
	case "boolean":
		return &shape{kind: boolShape}
	case "integer":
		return &shape{kind: longShape}
	case "number":
		return &shape{kind: decimalShape}
	case "array":
		return &shape{kind: setShape, items: r.readShape(s.Part("items"), depth+1)}
	case "object":
		return r.readObject(s, depth)
	}
	return nil
}

// oneForm returns the shape of a value with alternatives, if exactly one of them is not null.
func (r *schemaReader) oneForm(forms []schema.Schema, depth int) *shape {
	real := slices.DeleteFunc(forms, func(s schema.Schema) bool { return s.ValueOf("type") == "null" })
	if len(real) != 1 {
		return nil
	}
	return r.readShape(real[0], depth+1)
}

func (r *schemaReader) readObject(s schema.Schema, depth int) *shape {
	names := s.PropertyNames()
	if names == nil && !s.IsClosed() && depth > 0 {
		return nil // with arbitrary names
	}
	record := &shape{kind: recordShape, fields: map[string]*shape{}, required: map[string]bool{},
		folded: map[string]string{}}
	for _, name := range names {
		property, _ := s.Property(name)
		record.fields[name], record.folded[foldCase(name)] = r.readShape(property, depth+1), name
	}
	for _, name := range s.RequiredNames() {
		if property, _ := s.Property(name); !isNullable(property) {
			record.required[name] = true
		}
	}
	return record
}

// typeOf returns the only type of a schema besides null; "" if there are several.
func typeOf(s schema.Schema) string {
	if types := s.TypeNames(); types != nil {
		types = slices.DeleteFunc(types, func(name string) bool { return name == "null" })
		if len(types) == 1 {
			return types[0]
		}
		return ""
	}
	if s.Has("properties") {
		return "object"
	}
	values := s.EnumValues()
	if s.Has("const") {
		values = append(slices.Clip(values), s.ValueOf("const"))
	}
	for _, v := range values {
		if _, ok := v.(string); !ok {
			return ""
		}
	}
	if len(values) > 0 {
		return "string"
	}
	return ""
}

// isNullable reports whether a value may be null, which is treated as missing.
func isNullable(s schema.Schema) bool {
	if name, single := s.ValueOf("type").(string); !single || name == "null" {
		return true // unspecified, or several types
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		if slices.ContainsFunc(s.Parts(keyword), isNullable) {
			return true
		}
	}
	return false
}
