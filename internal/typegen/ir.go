package typegen

import "strings"

// A typ is a TypeScript type before it is written.
type typ interface{ isTyp() }

type (
	// prim is a type of the language, or a literal, as it is written; note says why it is no better.
	prim struct {
		text string
		note string
	}
	arrayType struct{ elem typ }
	tupleType struct {
		elems []typ
		min   int // elements from here on are optional
		rest  typ // nil: closed
	}
	objectType struct {
		props []property
		index typ  // of the members that have no property; nil: none
		open  bool // nothing at all is known of the members
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
	doc      string // description, as the schema has it
	facts    string // what the type can't say: format, bounds, default
}

// A named is a part of a schema that others refer to. It is declared under its name where it is recursive, or used
// more than once and large; else it is written where it is used.
type named struct {
	want string // the name it would like
	name string // the name it has, once it is declared
	doc  string
	body typ
	uses int

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
	tInteger = prim{text: "integer"} // of a converter for whole numbers
	tBoolean = prim{text: "boolean"}
)

func unknownBecause(note string) typ { return prim{"unknown", note} }

func isPrim(t typ, text string) bool {
	p, ok := t.(prim)
	return ok && p.text == text
}

// union joins types that a value may have. unknown takes in all others; never adds nothing.
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

// maxProduct bounds how many combinations an intersection of unions may have: the compiler multiplies them out.
const maxProduct = 500

// intersect joins types that a value has all of. Objects that are written here become one.
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
				continue // the others say more
			}
			if object >= 0 {
				out[object] = mergeObjects(out[object].(*objectType), t)
				continue
			}
			object = len(out)
		}
		if product *= width(a, 0); product > maxProduct {
			continue // the value has fewer types than it is said to: still true of it
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

// width is how many arms t has where it is a union.
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

// children calls f for the types that t is made of; guarded says whether a type may refer to itself through there
// (TypeScript allows that inside objects, arrays and tuples only).
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

// rewrite gives t with every type in it replaced by what f makes of it, innermost first.
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
