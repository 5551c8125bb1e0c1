package graphql

import (
	"encoding/json"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// Limits of one tool's schemas.
const (
	maxInput = 48 << 10 // bytes of the arguments' types; beyond them, types accept any value
	maxText  = 4 << 10  // bytes of a description
	maxEnum  = 500      // values; an enumeration with more accepts any string
)

// A jsonSchema is a JSON Schema. Its fields are in the order in which they are shown.
type jsonSchema struct {
	Type        any                    `json:"type,omitempty"` // a string or a list
	Description string                 `json:"description,omitempty"`
	Enum        []string               `json:"enum,omitempty"`
	Ref         string                 `json:"$ref,omitempty"`
	AnyOf       []*jsonSchema          `json:"anyOf,omitempty"`
	Items       *jsonSchema            `json:"items,omitempty"`
	Properties  *properties            `json:"properties,omitempty"`
	Required    []string               `json:"required,omitempty"`
	Additional  *bool                  `json:"additionalProperties,omitempty"`
	Defs        map[string]*jsonSchema `json:"$defs,omitempty"`
}

// properties keeps the order of properties.
type properties struct {
	names   []string
	schemas []*jsonSchema
}

func (p *properties) addProperty(name string, s *jsonSchema) {
	p.names, p.schemas = append(p.names, name), append(p.schemas, s)
}

// MarshalJSON returns the JSON object.
func (p *properties) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, name := range p.names {
		if i > 0 {
			out = append(out, ',')
		}
		key, err := tool.Marshal(name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(p.schemas[i])
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	return append(out, '}'), nil
}

// allowNull returns the schema that accepts null, too.
func (s *jsonSchema) allowNull() *jsonSchema {
	switch t := s.Type.(type) {
	case string:
		if s.Enum == nil {
			s.Type = []string{t, "null"}
			return s
		}
	case []string:
		s.Type = append(t, "null")
		return s
	case nil:
		if s.Ref == "" && s.AnyOf == nil {
			return s // any value
		}
	}
	return &jsonSchema{AnyOf: []*jsonSchema{s, {Type: "null"}}}
}

// An inputs makes the JSON Schema of the arguments of one field.
type inputs struct {
	schema *ast.Schema
	wanted []string // types that are referred to, nearest first
	seen   map[string]bool
}

// argumentSchema returns the JSON Schema of a field's arguments.
func argumentSchema(schema *ast.Schema, all ast.ArgumentDefinitionList) ([]byte, error) {
	in := &inputs{schema: schema, seen: map[string]bool{}}
	closed := false
	out := &jsonSchema{Type: "object", Properties: &properties{}, Additional: &closed}
	for _, a := range all {
		s := describeSchema(in.convertType(a.Type), a.Description, a.DefaultValue)
		out.Properties.addProperty(a.Name, s)
		if a.Type.NonNull && a.DefaultValue == nil {
			out.Required = append(out.Required, a.Name)
		}
	}
	size := 0
	for i := 0; i < len(in.wanted); i++ {
		if out.Defs == nil {
			out.Defs = map[string]*jsonSchema{}
		}
		name := in.wanted[i]
		before := len(in.wanted)
		s := in.convertDefinition(schema.Types[name])
		text, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		if size += len(text); size > maxInput {
			s, size = &jsonSchema{}, size-len(text)
			for _, left := range in.wanted[before:] {
				delete(in.seen, left)
			}
			in.wanted = in.wanted[:before]
		}
		out.Defs[name] = s
	}
	return tool.Marshal(out)
}

func describeSchema(s *jsonSchema, text string, literal *ast.Value) *jsonSchema {
	text = web.ClipBytes(strings.TrimSpace(text), maxText)
	if literal != nil {
		text = strings.TrimSpace(text + " (default: " + web.ClipText(literal.String()) + ")")
	}
	if text == "" {
		return s
	}
	if s.Ref != "" {
		s = &jsonSchema{AnyOf: []*jsonSchema{s}}
	}
	s.Description = text
	return s
}

func (in *inputs) convertType(t *ast.Type) *jsonSchema {
	var s *jsonSchema
	if t.Elem != nil {
		s = &jsonSchema{Type: "array", Items: in.convertType(t.Elem)}
	} else {
		s = in.namedType(t.NamedType)
	}
	if !t.NonNull {
		s = s.allowNull()
	}
	return s
}

func (in *inputs) namedType(name string) *jsonSchema {
	d := in.schema.Types[name]
	if d == nil || d.Kind == ast.Scalar {
		return scalarSchema(name, true)
	}
	if !in.seen[name] {
		in.seen[name] = true
		in.wanted = append(in.wanted, name)
	}
	return &jsonSchema{Ref: "#/$defs/" + name}
}

// scalarSchema returns the schema of a scalar. A scalar of the server may have any value.
func scalarSchema(name string, input bool) *jsonSchema {
	switch name {
	case "Int":
		return &jsonSchema{Type: "integer"}
	case "Float":
		return &jsonSchema{Type: "number"}
	case "Boolean":
		return &jsonSchema{Type: "boolean"}
	case "String":
		return &jsonSchema{Type: "string"}
	case "ID":
		if input {
			return &jsonSchema{Type: []string{"string", "integer"}}
		}
		return &jsonSchema{Type: "string"}
	}
	return &jsonSchema{Description: "scalar " + name}
}

func (in *inputs) convertDefinition(d *ast.Definition) *jsonSchema {
	if d.Kind == ast.Enum {
		return enumSchema(d)
	}
	closed := false
	s := &jsonSchema{Type: "object", Properties: &properties{}, Additional: &closed,
		Description: web.ClipBytes(strings.TrimSpace(d.Description), maxText)}
	for _, f := range d.Fields {
		s.Properties.addProperty(f.Name, describeSchema(in.convertType(f.Type), f.Description, f.DefaultValue))
		if f.Type.NonNull && f.DefaultValue == nil {
			s.Required = append(s.Required, f.Name)
		}
	}
	return s
}

func enumSchema(d *ast.Definition) *jsonSchema {
	s := &jsonSchema{Type: "string"}
	for _, v := range d.EnumValues {
		s.Enum = append(s.Enum, v.Name)
	}
	if len(s.Enum) > maxEnum {
		s.Enum = nil
	}
	return s
}
