package shape

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A schemaNode is the JSON Schema of a Shape.
type schemaNode struct {
	Type       []string               `json:"type,omitempty"`
	Properties map[string]*schemaNode `json:"properties,omitempty"`
	Required   []string               `json:"required,omitempty"`
	Additional *schemaNode            `json:"additionalProperties,omitempty"`
	Items      *schemaNode            `json:"items,omitempty"`
}

// typeNames are the names of kinds in JSON Schema, in the order of signatures.
var typeNames = []struct {
	kind Kinds
	name string
}{{Object, "object"}, {Array, "array"}, {String, "string"}, {Number, "number"}, {Integer, "integer"},
	{Boolean, "boolean"}, {Null, "null"}}

// EncodeSchema returns s as JSON Schema, with the fields that may be shown. Values that s describes
// are valid.
func (s *Shape) EncodeSchema() json.RawMessage {
	raw, err := tool.Marshal(s.schemaNode())
	if err != nil {
		panic(err) // can't happen: strings always marshal
	}
	return raw
}

func (s *Shape) schemaNode() *schemaNode {
	n := &schemaNode{}
	if s == nil || s.Kinds&Any != 0 {
		return n
	}
	for _, t := range typeNames {
		if s.Kinds&t.kind != 0 && !(t.kind == Integer && s.Kinds&Number != 0) {
			n.Type = append(n.Type, t.name)
		}
	}
	if s.Items != nil {
		n.Items = s.Items.schemaNode()
	}
	if s.Values != nil {
		n.Additional = s.Values.schemaNode()
	}
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		f := s.Fields[name]
		if !f.IsShown() {
			continue
		}
		if n.Properties == nil {
			n.Properties = map[string]*schemaNode{}
		}
		n.Properties[name] = f.schemaNode()
		if !f.Optional {
			n.Required = append(n.Required, name)
		}
	}
	return n
}
