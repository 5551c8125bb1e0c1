// Package shape learns what tools return. Most tools declare no type of their results, so agents
// write programs without knowing the names in them. A Learner reads the results of calls, and keeps
// their Shapes: names and types of fields, never values. Signatures show a shape as observed.
//
// Results come from outside, and names of fields may be personal data: { "ann@example.com": 3 }. So
// a Shape is bounded in depth and size, and an object whose names look like data has no names in
// its Shape. A name is shown only after it was observed in two results.
package shape

import (
	"maps"
	"slices"
)

// Limits of a Shape. What exceeds them becomes less precise: a record or any value.
const (
	maxDepth  = 8   // levels of objects and arrays
	maxFields = 128 // of one object
	maxNodes  = 512 // of all levels
	maxName   = 64  // bytes
)

// minShown is the number of results in which a field must have been observed before it is shown.
const minShown = 2

// Kinds is a set of kinds of JSON values.
type Kinds uint8

// The kinds of JSON values. Any includes all others. A Number need not be an Integer.
const (
	Null Kinds = 1 << iota
	Boolean
	Integer
	Number
	String
	Array
	Object
	Any
)

// A Shape describes JSON values. It is immutable: MergeShapes returns another one. The zero Shape
// describes no value.
type Shape struct {
	Kinds Kinds `json:"kinds"`
	// Items describes the items of arrays; nil if all arrays were empty.
	Items *Shape `json:"items,omitempty"`
	// Fields are the fields of objects by name. It is empty if Values is set.
	Fields map[string]*Field `json:"fields,omitempty"`
	// Values describes the members of objects whose names are data, and not kept.
	Values *Shape `json:"values,omitempty"`
	// Partial means that some of the arrays and objects were not read to their end.
	Partial bool `json:"partial,omitempty"`
}

// A Field describes a field of an object.
type Field struct {
	Shape
	Optional bool `json:"optional,omitempty"` // some of the objects don't have it
	Results  int  `json:"results"`            // in which it was observed, counted up to minShown
}

// IsShown reports whether the field was observed often enough to be shown.
func (f *Field) IsShown() bool { return f.Results >= minShown }

// anyShape describes every value.
func anyShape() *Shape { return &Shape{Kinds: Any} }

// MergeShapes returns a Shape that describes the values of both, which are of different results.
// Either may be nil.
func MergeShapes(a, b *Shape) *Shape {
	return limitNodes(joinShapes(a, b, func(a, b int) int { return min(a+b, minShown) }))
}

// sameResult joins the counts of two values from the same result, which counts once.
func sameResult(a, b int) int { return max(a, b) }

// joinShapes returns a Shape that describes the values of both. count returns the number of results
// of a field that both have.
func joinShapes(a, b *Shape, count func(a, b int) int) *Shape {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case (a.Kinds|b.Kinds)&Any != 0:
		return anyShape()
	}
	out := &Shape{Kinds: a.Kinds | b.Kinds, Items: joinShapes(a.Items, b.Items, count),
		Partial: a.Partial || b.Partial}
	switch {
	case a.Kinds&Object == 0:
		out.Fields, out.Values = b.Fields, b.Values
	case b.Kinds&Object == 0:
		out.Fields, out.Values = a.Fields, a.Values
	case a.Values != nil || b.Values != nil:
		out.Values = joinShapes(valuesOf(a), valuesOf(b), count)
	default:
		out.Fields = joinFields(a.Fields, b.Fields, count)
		out.dropDataNames()
	}
	return out
}

func joinFields(a, b map[string]*Field, count func(a, b int) int) map[string]*Field {
	out := make(map[string]*Field, max(len(a), len(b)))
	for name, f := range a {
		g := b[name]
		if g == nil {
			own := *f
			own.Optional = true
			out[name] = &own
			continue
		}
		out[name] = &Field{Shape: *joinShapes(&f.Shape, &g.Shape, count), Optional: f.Optional || g.Optional,
			Results: count(f.Results, g.Results)}
	}
	for name, f := range b {
		if a[name] == nil {
			own := *f
			own.Optional = true
			out[name] = &own
		}
	}
	return out
}

// valuesOf returns the Shape of all members of s, whatever their names; nil if there are none.
func valuesOf(s *Shape) *Shape {
	out := s.Values
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		out = joinShapes(out, &s.Fields[name].Shape, sameResult)
	}
	return out
}

// dropDataNames replaces the fields of s by Values if their names may be data.
func (s *Shape) dropDataNames() {
	if len(s.Fields) > maxFields || hasDataName(s.Fields) || isMap(s.Fields) {
		s.Values, s.Fields = valuesOf(s), nil
	}
}

// limitNodes returns s, or a Shape that also describes its values and has at most maxNodes nodes.
func limitNodes(s *Shape) *Shape {
	for depth := maxDepth; s.countNodes() > maxNodes; depth-- {
		s = s.cutBelow(depth)
	}
	return s
}

func (s *Shape) countNodes() int {
	if s == nil {
		return 0
	}
	n := 1 + s.Items.countNodes() + s.Values.countNodes()
	for _, f := range s.Fields {
		n += f.countNodes()
	}
	return n
}

// cutBelow returns s with any value in place of what is nested deeper.
func (s *Shape) cutBelow(depth int) *Shape {
	switch {
	case s == nil || s.Items == nil && s.Values == nil && len(s.Fields) == 0:
		return s
	case depth == 0:
		return anyShape()
	}
	out := *s
	out.Items, out.Values = s.Items.cutBelow(depth-1), s.Values.cutBelow(depth-1)
	if s.Fields != nil {
		out.Fields = make(map[string]*Field, len(s.Fields))
		for name, f := range s.Fields {
			out.Fields[name] = &Field{Shape: *f.Shape.cutBelow(depth - 1), Optional: f.Optional, Results: f.Results}
		}
	}
	return &out
}

// isEqual reports whether two Shapes are the same.
func (s *Shape) isEqual(o *Shape) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Kinds == o.Kinds && s.Partial == o.Partial && s.Items.isEqual(o.Items) && s.Values.isEqual(o.Values) &&
		maps.EqualFunc(s.Fields, o.Fields, func(f, g *Field) bool {
			return f.Optional == g.Optional && f.Results == g.Results && f.Shape.isEqual(&g.Shape)
		})
}
