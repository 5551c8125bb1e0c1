package graphql

import (
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
)

// Limits of the default selection of a tool.
const (
	maxLevels    = 4   // of objects below the tool's field
	maxFields    = 100 // in all
	maxFragments = 10  // possible types of an interface or union
)

// A selected is a field of a default selection.
type selected struct {
	field    *ast.FieldDefinition
	on       string // type of the inline fragment that has it; "": none
	children []*selected
	typ      *ast.Definition
	above    *selected // the object that has it; nil for the tool's field
}

// A selector chooses the fields that a tool returns: those without required arguments, level by
// level, until there are enough. A type is not entered again below itself.
type selector struct {
	schema *ast.Schema
	left   int
}

// selectFields returns the default selection of a field, pruned of objects without fields.
func selectFields(schema *ast.Schema, f *ast.FieldDefinition) *selected {
	s := &selector{schema: schema, left: maxFields}
	root := &selected{field: f, typ: schema.Types[f.Type.Name()]}
	level := []*selected{root}
	for range maxLevels {
		var next []*selected
		for _, n := range level {
			next = append(next, s.addFields(n)...)
		}
		level = next
	}
	root.pruneEmpty()
	return root
}

// addFields adds fields to an object: first those without fields of their own. It returns the
// objects among them.
func (s *selector) addFields(n *selected) (objects []*selected) {
	if n.typ == nil || n.typ.IsLeafType() {
		return nil
	}
	s.addFieldsOf(n, n.typ, "", &objects)
	if !n.typ.IsAbstractType() {
		return objects
	}
	possible := s.schema.GetPossibleTypes(n.typ)
	for _, d := range possible[:min(len(possible), maxFragments)] {
		if d != nil && d.Kind == ast.Object {
			s.addFieldsOf(n, d, d.Name, &objects)
		}
	}
	return objects
}

func (s *selector) addFieldsOf(n *selected, d *ast.Definition, on string, objects *[]*selected) {
	for _, leaf := range []bool{true, false} {
		for _, f := range d.Fields {
			typ := s.schema.Types[f.Type.Name()]
			if s.left == 0 || typ == nil || typ.IsLeafType() != leaf || !isPlain(f, leaf) || n.hasField(f, on) ||
				!leaf && (on == typ.Name || n.isBelow(typ) || f.Name == "edges" && d.Fields.ForName("nodes") != nil) {
				continue
			}
			s.left--
			one := &selected{field: f, on: on, typ: typ, above: n}
			n.children = append(n.children, one)
			if !leaf {
				*objects = append(*objects, one)
			}
		}
	}
}

// isPlain reports whether a field is selected without arguments. Lists of objects with arguments
// are pages, which servers often refuse without a size.
func isPlain(f *ast.FieldDefinition, leaf bool) bool {
	if strings.HasPrefix(f.Name, "__") || f.Directives.ForName("deprecated") != nil || !leaf && len(f.Arguments) > 0 {
		return false
	}
	return !slices.ContainsFunc(f.Arguments, isRequired)
}

func isRequired(a *ast.ArgumentDefinition) bool { return a.Type.NonNull && a.DefaultValue == nil }

// hasField reports whether an object has a field of this name already. Fields of one name in
// several fragments could have types that can't be merged.
func (n *selected) hasField(f *ast.FieldDefinition, on string) bool {
	return slices.ContainsFunc(n.children, func(c *selected) bool {
		return c.field.Name == f.Name && (c.on == on || c.on == "" || c.field.Type.String() != f.Type.String() ||
			!c.typ.IsLeafType())
	})
}

// isBelow reports whether n is an object of a type, or is inside one.
func (n *selected) isBelow(typ *ast.Definition) bool {
	for ; n != nil; n = n.above {
		if n.typ == typ || n.on == typ.Name {
			return true
		}
	}
	return false
}

// pruneEmpty removes objects without fields.
func (n *selected) pruneEmpty() {
	n.children = slices.DeleteFunc(n.children, func(c *selected) bool {
		c.pruneEmpty()
		return !c.typ.IsLeafType() && len(c.children) == 0
	})
}

// appendText appends the selection below n as text.
func (n *selected) appendText(b *strings.Builder) {
	if n.typ == nil || n.typ.IsLeafType() {
		return
	}
	b.WriteString(" {")
	if n.typ.IsAbstractType() || len(n.children) == 0 {
		b.WriteString(" __typename")
	}
	on := ""
	for _, c := range n.sortByFragment() {
		if c.on != on {
			if on != "" {
				b.WriteString(" }")
			}
			b.WriteString(" ... on " + c.on + " {")
			on = c.on
		}
		b.WriteString(" " + c.field.Name)
		c.appendText(b)
	}
	if on != "" {
		b.WriteString(" }")
	}
	b.WriteString(" }")
}

// sortByFragment returns the fields of each fragment together, those outside of fragments first.
func (n *selected) sortByFragment() []*selected {
	return slices.SortedStableFunc(slices.Values(n.children), func(a, b *selected) int {
		return strings.Compare(a.on, b.on)
	})
}

// outputSchema returns the JSON Schema of the selection's value.
func (n *selected) outputSchema() *jsonSchema { return n.wrapType(n.field.Type) }

func (n *selected) wrapType(t *ast.Type) *jsonSchema {
	var s *jsonSchema
	if t.Elem != nil {
		s = &jsonSchema{Type: "array", Items: n.wrapType(t.Elem)}
	} else {
		s = n.namedSchema()
	}
	if !t.NonNull {
		s = s.allowNull()
	}
	return s
}

func (n *selected) namedSchema() *jsonSchema {
	switch {
	case n.typ == nil || n.typ.Kind == ast.Scalar:
		return scalarSchema(n.field.Type.Name(), false)
	case n.typ.Kind == ast.Enum:
		return enumSchema(n.typ)
	}
	s := &jsonSchema{Type: "object", Properties: &properties{}}
	if n.typ.IsAbstractType() || len(n.children) == 0 {
		s.Properties.addProperty("__typename", &jsonSchema{Type: "string"})
		s.Required = append(s.Required, "__typename")
	}
	for _, c := range n.sortByFragment() {
		if slices.Contains(s.Properties.names, c.field.Name) {
			continue // of another fragment, with the same type
		}
		s.Properties.addProperty(c.field.Name, c.outputSchema())
		if c.on == "" {
			s.Required = append(s.Required, c.field.Name)
		}
	}
	return s
}
