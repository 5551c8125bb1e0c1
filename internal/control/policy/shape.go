package policy

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
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

// A shape holds the types that a tool's JSON Schema gives to its arguments. It types both the
// values at run time and the schema that policies are checked against, so the two agree. Nil is
// anyShape.
type shape struct {
	kind     shapeKind
	items    *shape            // of a set
	fields   map[string]*shape // of a record
	required map[string]bool
}

func (s *shape) isKind(k shapeKind) bool { return s != nil && s.kind == k }

func (s *shape) fieldShape(name string) *shape {
	if s.isKind(recordShape) {
		return s.fields[name]
	}
	return nil
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
	r := &schemaReader{}
	if len(raw) > schemaBytes {
		return nil
	}
	if err := json.Unmarshal(raw, &r.root); err != nil {
		return nil
	}
	return r.readShape(r.root, 0)
}

type schemaReader struct {
	root  any
	count int
}

func (r *schemaReader) readShape(v any, depth int) *shape {
	m, ok := v.(map[string]any)
	if r.count++; !ok || depth > schemaDepth || r.count > schemaParts {
		return nil
	}
	if ref, ok := m["$ref"].(string); ok {
		return r.readShape(r.resolveRef(ref), depth+1)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if forms, ok := m[key].([]any); ok {
			return r.oneForm(forms, depth)
		}
	}
	for _, key := range []string{"allOf", "not", "if", "$dynamicRef"} {
		if _, ok := m[key]; ok && m["type"] != "object" {
			return nil
		}
	}
	switch typeOf(m) {
	case "string":
		return &shape{kind: stringShape}
	case "boolean":
		return &shape{kind: boolShape}
	case "integer":
		return &shape{kind: longShape}
	case "number":
		return &shape{kind: decimalShape}
	case "array":
		return &shape{kind: setShape, items: r.readShape(m["items"], depth+1)}
	case "object":
		return r.readObject(m, depth)
	}
	return nil
}

// resolveRef resolves a reference within the schema.
func (r *schemaReader) resolveRef(ref string) any {
	rest, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	at := r.root
	for part := range strings.SplitSeq(rest, "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return at
}

// oneForm returns the shape of a value with alternatives, if exactly one of them is not null.
func (r *schemaReader) oneForm(forms []any, depth int) *shape {
	var real []any
	for _, f := range forms {
		if m, ok := f.(map[string]any); ok && m["type"] == "null" {
			continue
		}
		real = append(real, f)
	}
	if len(real) != 1 {
		return nil
	}
	return r.readShape(real[0], depth+1)
}

func (r *schemaReader) readObject(m map[string]any, depth int) *shape {
	props, ok := m["properties"].(map[string]any)
	if !ok && m["additionalProperties"] != false && depth > 0 {
		return nil // with arbitrary names
	}
	s := &shape{kind: recordShape, fields: map[string]*shape{}, required: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		s.fields[name] = r.readShape(props[name], depth+1)
	}
	list, _ := m["required"].([]any)
	for _, v := range list {
		if name, ok := v.(string); ok && !isNullable(props[name]) {
			s.required[name] = true
		}
	}
	return s
}

// typeOf returns the only type of a schema besides null; "" if there are several.
func typeOf(m map[string]any) string {
	switch t := m["type"].(type) {
	case string:
		return t
	case []any:
		one := ""
		for _, v := range t {
			if s, _ := v.(string); s != "null" {
				if one != "" {
					return ""
				}
				one = s
			}
		}
		return one
	}
	if _, ok := m["properties"]; ok {
		return "object"
	}
	values, _ := m["enum"].([]any)
	if c, ok := m["const"]; ok {
		values = append(values, c)
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
func isNullable(v any) bool {
	m, ok := v.(map[string]any)
	if !ok {
		return true // unspecified
	}
	if list, ok := m["type"].([]any); ok && slices.Contains(list, any("null")) {
		return true
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		forms, _ := m[key].([]any)
		for _, f := range forms {
			if isNullable(f) {
				return true
			}
		}
	}
	t, typed := m["type"].(string)
	return !typed || t == "null"
}
