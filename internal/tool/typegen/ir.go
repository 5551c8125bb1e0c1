package typegen

import "strings"

// A typ is the representation of a TypeScript type.
type typ interface{ isTyp() }

type (
	// prim is a built-in type or a literal, as TypeScript; note says why it is not more precise.
	prim struct {
		text string
		note string
	}
	arrayType struct{ elem typ }
	tupleType struct {
		elems []typ
		min   int // elements from this index on are optional
		rest  typ // nil: closed
	}
	objectType struct {
		props []property
		index typ  // type of members without a property; nil: none
		open  bool // nothing is known about the members
	}
	unionType struct{ arms []typ }
	interType struct{ arms []typ }
	refType   struct{ to *named }
)

func (prim) isTyp()        {}
func (*arrayType) isTyp()  {}
func (*tupleType) isTyp()  {}
func (*objectType) isTyp() {}
func (*unionType) isTyp()  {}
func (*interType) isTyp()  {}
func (*refType) isTyp()    {}

type property struct {
	name     string
	optional bool
	typ      typ
	doc      string // description in the schema
	facts    string // constraints that the type can't express: format, bounds, default
}

// A named is a part of a schema that is referred to. It is declared under its name if it is
// recursive, or if it is large and used more than once. Otherwise it is written inline.
type named struct {
	schema *node
	want   string // preferred name
	name   string // actual name, once it is declared
	doc    string
	body   typ
	uses   int

	recursive bool
	inline    bool
}

var (
	tUnknown = prim{text: "unknown"}
	tNever   = prim{text: "never"}
	tNull    = prim{text: "null"}
	tString  = prim{text: "string"}
	tNumber  = prim{text: "number"}
	tBigint  = prim{text: "bigint"}
	tInteger = prim{text: "integer"} // used by a converter with whole set
	tBoolean = prim{text: "boolean"}
)

func unknownBecause(note string) typ { return prim{"unknown", note} }

func isPrim(t typ, text string) bool {
	p, ok := t.(prim)
	return ok && p.text == text
}

// union returns the union of types. unknown absorbs all others; never is dropped.
func union(arms ...typ) typ {
	var out []typ
	seen := map[string]bool{}
	for _, a := range flattenUnion(arms, nil) {
		if p, ok := a.(prim); ok {
			switch {
			case p.text == "unknown":
				return a
			case p.text == "never", seen[p.text]:
				continue
			}
			seen[p.text] = true
		}
		out = append(out, a)
	}
	switch len(out) {
	case 0:
		return tNever
	case 1:
		return out[0]
	}
	return &unionType{out}
}

func flattenUnion(arms, out []typ) []typ {
	for _, a := range arms {
		if u, ok := a.(*unionType); ok {
			out = flattenUnion(u.arms, out)
		} else {
			out = append(out, a)
		}
	}
	return out
}

// maxProduct bounds the number of combinations in an intersection of unions: the compiler
// multiplies them out.
const maxProduct = 500

// intersect returns the intersection of types. Inline objects are merged into one.
func intersect(arms ...typ) typ {
	var out []typ
	seen := map[string]bool{}
	object := -1
	product := 1
	var open typ
	for _, a := range arms {
		switch t := a.(type) {
		case prim:
			if t.text == "unknown" || seen[t.text] {
				continue
			}
			seen[t.text] = true
		case *objectType:
			if t.open && len(arms) > 1 {
				open = t
				continue // the others are more precise
			}
			if object >= 0 {
				out[object] = mergeObjects(out[object].(*objectType), t)
				continue
			}
			object = len(out)
		}
		if product *= width(a, 0); product > maxProduct {
			continue // leaving it out makes the type wider: still correct
		}
		out = append(out, a)
	}
	switch len(out) {
	case 0:
		if open != nil {
			return open
		}
		for _, a := range arms {
			return a // unknown, with its note
		}
		return tUnknown
	case 1:
		return out[0]
	}
	return &interType{out}
}

// width returns the number of alternatives of t.
func width(t typ, depth int) int {
	if depth > 8 {
		return maxProduct
	}
	switch t := t.(type) {
	case *unionType:
		n := 0
		for _, a := range t.arms {
			n += width(a, depth+1)
		}
		return n
	case *interType:
		n := 1
		for _, a := range t.arms {
			n = min(n*width(a, depth+1), maxProduct+1)
		}
		return n
	case *refType:
		if t.to.body != nil {
			return width(t.to.body, depth+1)
		}
	}
	return 1
}

func mergeObjects(a, b *objectType) *objectType {
	out := &objectType{props: append([]property(nil), a.props...), index: a.index}
	at := make(map[string]int, len(out.props))
	for i, p := range out.props {
		at[p.name] = i
	}
	for _, p := range b.props {
		i, dup := at[p.name]
		if !dup {
			out.props = append(out.props, p)
			continue
		}
		q := &out.props[i]
		q.optional = q.optional && p.optional
		if !sameType(q.typ, p.typ) {
			q.typ = intersect(q.typ, p.typ)
		}
		if q.doc == "" {
			q.doc = p.doc
		}
		if q.facts == "" {
			q.facts = p.facts
		}
	}
	if out.index == nil {
		out.index = b.index
	} else if b.index != nil && !sameType(out.index, b.index) {
		out.index = intersect(out.index, b.index)
	}
	return out
}

func sameType(a, b typ) bool {
	x, ok := inlineText(a, 200)
	y, ok2 := inlineText(b, 200)
	return ok && ok2 && x == y && !strings.Contains(x, unnamed)
}

// children calls f for the direct components of t. guarded reports whether a type may refer to
// itself there: TypeScript allows that only inside objects, arrays and tuples.
func children(t typ, f func(t typ, guarded bool)) {
	switch t := t.(type) {
	case *arrayType:
		f(t.elem, true)
	case *tupleType:
		for _, e := range t.elems {
			f(e, true)
		}
		if t.rest != nil {
			f(t.rest, true)
		}
	case *objectType:
		for _, p := range t.props {
			f(p.typ, true)
		}
		if t.index != nil {
			f(t.index, true)
		}
	case *unionType:
		for _, a := range t.arms {
			f(a, false)
		}
	case *interType:
		for _, a := range t.arms {
			f(a, false)
		}
	}
}

// rewrite returns t with every type in it replaced by f's result, innermost first.
func rewrite(t typ, f func(typ) typ) typ {
	switch v := t.(type) {
	case *arrayType:
		return f(&arrayType{rewrite(v.elem, f)})
	case *tupleType:
		out := &tupleType{min: v.min}
		for _, e := range v.elems {
			out.elems = append(out.elems, rewrite(e, f))
		}
		if v.rest != nil {
			out.rest = rewrite(v.rest, f)
		}
		return f(out)
	case *objectType:
		out := &objectType{open: v.open}
		for _, p := range v.props {
			p.typ = rewrite(p.typ, f)
			out.props = append(out.props, p)
		}
		if v.index != nil {
			out.index = rewrite(v.index, f)
		}
		return f(out)
	case *unionType:
		return f(union(rewriteAll(v.arms, f)...))
	case *interType:
		return f(intersect(rewriteAll(v.arms, f)...))
	}
	return f(t)
}

func rewriteAll(ts []typ, f func(typ) typ) []typ {
	out := make([]typ, len(ts))
	for i, t := range ts {
		out[i] = rewrite(t, f)
	}
	return out
}
