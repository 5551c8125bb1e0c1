// Package schema reads JSON Schemas as upstreams write them.
//
// Many of them have errors: a keyword whose value has the wrong type, or a reference to a part that
// doesn't exist. Such a keyword counts as missing, so that the rest of the schema stays useful.
// Validation is not done here: package catalog compiles schemas for that.
package schema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// A Schema is a JSON Schema, or a part of one. It is a view of the decoded document, which must not
// be modified. The zero Schema allows every value. The schemas true and false, and values that are
// not schemas, are read as the zero Schema.
type Schema struct {
	// The keywords are kept as decoded, unknown ones included, because a reference may pass
	// through any of them, as in #/components/schemas/Item.
	keywords map[string]any
}

// Parse decodes a schema. Its numbers are float64.
func Parse(raw json.RawMessage) (Schema, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return Schema{}, err
	}
	return Of(v), nil
}

// Of returns the schema that a decoded JSON value represents.
func Of(v any) Schema {
	m, _ := v.(map[string]any) // as encoding/json decodes an object into an interface
	return Schema{m}
}

// IsZero reports whether s has no keywords.
func (s Schema) IsZero() bool { return len(s.keywords) == 0 }

// Has reports whether s has a keyword, with a value of any type.
func (s Schema) Has(keyword string) bool {
	_, ok := s.keywords[keyword]
	return ok
}

// ValueOf returns the decoded value of a keyword, or nil if it is missing.
func (s Schema) ValueOf(keyword string) any { return s.keywords[keyword] }

// TextOf returns the value of a keyword that is a string, or "".
func (s Schema) TextOf(keyword string) string {
	t, _ := s.keywords[keyword].(string)
	return t
}

// TypeNames returns the JSON types that s names, or nil if it has no keyword type. They include
// null if OpenAPI's keyword nullable is true.
func (s Schema) TypeNames() []string {
	switch t := s.keywords["type"].(type) {
	case string:
		if s.keywords["nullable"] == true {
			return []string{t, "null"}
		}
		return []string{t}
	case []any:
		return onlyTexts(t)
	}
	return nil
}

// EnumValues returns the allowed values of keyword enum, or nil if there is no list of them.
func (s Schema) EnumValues() []any {
	values, _ := s.keywords["enum"].([]any)
	return values
}

// PropertyNames returns the sorted names of the properties that s declares, or nil if it has no
// keyword properties.
func (s Schema) PropertyNames() []string {
	props := s.Part("properties").keywords
	if props == nil {
		return nil
	}
	names := slices.AppendSeq(make([]string, 0, len(props)), maps.Keys(props))
	slices.Sort(names)
	return names
}

// Property returns the schema of a property, and whether s declares it.
func (s Schema) Property(name string) (Schema, bool) {
	v, ok := s.Part("properties").keywords[name]
	return Of(v), ok
}

// RequiredNames returns the names of the required properties, in the order of the schema.
func (s Schema) RequiredNames() []string {
	names, _ := s.keywords["required"].([]any)
	return onlyTexts(names)
}

// IsClosed reports whether s allows only the properties that it declares.
func (s Schema) IsClosed() bool { return s.keywords["additionalProperties"] == false }

// Part returns the schema that is the value of a keyword, such as items.
func (s Schema) Part(keyword string) Schema { return Of(s.keywords[keyword]) }

// Parts returns the schemas in the value of a keyword, such as anyOf. The result is nil if the
// value is not a list.
func (s Schema) Parts(keyword string) []Schema {
	list, ok := s.keywords[keyword].([]any)
	if !ok {
		return nil
	}
	parts := make([]Schema, len(list))
	for i, v := range list {
		parts[i] = Of(v)
	}
	return parts
}

// Ref returns the reference in keyword $ref, and whether there is one.
func (s Schema) Ref() (string, bool) {
	ref, ok := s.keywords["$ref"].(string)
	return ref, ok
}

// Resolve returns the part of s that a reference leads to: a JSON pointer after "#", as in
// #/$defs/Item. It returns the zero Schema for other references, and if there is no such part.
func (s Schema) Resolve(ref string) Schema {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return Schema{}
	}
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for name := range strings.SplitSeq(path, "/") {
		if s.IsZero() {
			break
		}
		s = s.Part(unescape.Replace(name))
	}
	return s
}

func onlyTexts(list []any) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		if t, ok := v.(string); ok {
			out = append(out, t)
		}
	}
	return out
}
