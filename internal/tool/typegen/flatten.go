package typegen

import "strings"

// flatten returns a schema equivalent to n without references and combinations. It merges the
// schemas that n refers to, its allOf, and the chosen branches of its anyOf or oneOf (arm; nil: the
// first) and of its if. It returns nil if a reference can't be resolved.
func (m *maker) flatten(n, arm *node, depth int) *node {
	if n == nil || n.kind != jObject || depth > 24 {
		return n
	}
	if m.left--; m.left < 0 {
		return nil
	}
	out := &node{kind: jObject}
	for i, k := range n.keys {
		switch k {
		case "$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "if", "then", "else":
		default:
			out.set(k, n.vals[i])
		}
	}
	for _, p := range m.parts(n, arm, depth) {
		f := m.flatten(p.schema, p.arm, depth+1)
		if f == nil {
			return nil
		}
		out = merge(out, f)
	}
	return out
}

// A part is a schema that another one combines, and its own chosen branch.
type part struct{ schema, arm *node }

// parts returns the schemas that a schema combines. A nil schema is a reference that can't be
// resolved.
func (m *maker) parts(n, arm *node, depth int) []part {
	var out []part
	branches := n.list("anyOf")
	if len(branches) == 0 {
		branches = n.list("oneOf")
	}
	if ref, ok := refOf(n); ok {
		inner := arm
		if len(branches) > 0 {
			inner = nil // arm is one of n's own branches
		}
		out = append(out, part{m.doc.lookup(ref), inner})
	}
	for _, s := range n.list("allOf") {
		out = append(out, part{s, m.first(s, depth)})
	}
	for _, k := range []string{"anyOf", "oneOf"} {
		arms := n.list(k)
		if len(arms) == 0 {
			continue
		}
		pick := arms[0]
		for _, a := range arms {
			if a == arm {
				pick = a
			}
		}
		out = append(out, part{pick, m.first(pick, depth)})
	}
	add := func(key string) {
		if s := n.get(key); s != nil {
			out = append(out, part{s, nil})
		}
	}
	switch m.plan.then {
	case 1:
		if n.get("if") != nil {
			add("if")
			add("then")
		}
	case 2:
		add("else")
	}
	return out
}

// first returns the branch of a schema to try first, or nil if it has no branches.
func (m *maker) first(n *node, depth int) *node {
	if c := m.choices(n, depth); len(c) > 0 {
		return c[0]
	}
	return nil
}

// merge returns a schema with the constraints of both a and b, as far as keywords can be combined.
func merge(a, b *node) *node {
	switch {
	case b == nil, b.kind == jBool && b.b:
		return a
	case a == nil, a.kind == jBool && a.b:
		return b
	case a.kind == jBool:
		return a
	case b.kind == jBool:
		return b
	}
	out := &node{kind: jObject, keys: append([]string(nil), a.keys...), vals: append([]*node(nil), a.vals...)}
	for i, k := range b.keys {
		old := out.get(k)
		if old == nil {
			out.set(k, b.vals[i])
		} else {
			out.set(k, mergeKeyword(k, old, b.vals[i]))
		}
	}
	return out
}

func mergeKeyword(key string, a, b *node) *node {
	switch key {
	case "properties", "patternProperties":
		if a.kind != jObject || b.kind != jObject {
			return a // not a valid schema
		}
		out := &node{kind: jObject, keys: append([]string(nil), a.keys...), vals: append([]*node(nil), a.vals...)}
		for i, k := range b.keys {
			if old := out.get(k); old != nil {
				both := &node{kind: jArray, vals: []*node{old, b.vals[i]}}
				out.set(k, &node{kind: jObject, keys: []string{"allOf"}, vals: []*node{both}})
			} else {
				out.set(k, b.vals[i])
			}
		}
		return out
	case "required":
		out := &node{kind: jArray, vals: append([]*node(nil), a.vals...)}
		for _, v := range b.vals {
			if !contains(out.vals, v) {
				out.vals = append(out.vals, v)
			}
		}
		return out
	case "enum":
		return keepCommon(a, b)
	case "type":
		return keepCommon(asList(a), asList(b))
	case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
		if less(a, b) {
			return b
		}
	case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
		if less(b, a) {
			return b
		}
	case "additionalProperties", "items", "propertyNames":
		if a.kind != jArray && b.kind != jArray { // an array is a tuple of draft 7
			return merge(a, b)
		}
	case "description", "title":
		return a
	case "const", "pattern", "format", "default", "examples", "example":
		return b
	}
	return a
}

func asList(n *node) *node {
	if n.kind == jArray {
		return n
	}
	return &node{kind: jArray, vals: []*node{n}}
}

func keepCommon(a, b *node) *node {
	out := &node{kind: jArray}
	for _, v := range a.vals {
		if contains(b.vals, v) {
			out.vals = append(out.vals, v)
		} else if v.text() == "number" && contains(b.vals, str("integer")) {
			out.vals = append(out.vals, str("integer"))
		} else if v.text() == "integer" && contains(b.vals, str("number")) {
			out.vals = append(out.vals, v)
		}
	}
	return out
}

func contains(vs []*node, v *node) bool {
	want := string(v.appendJSON(nil))
	for _, x := range vs {
		if string(x.appendJSON(nil)) == want {
			return true
		}
	}
	return false
}

func less(a, b *node) bool {
	x, y := rational(a), rational(b)
	return x != nil && y != nil && x.Cmp(y) < 0
}

// literalText returns a value as JavaScript. Keys have no quotes where that is allowed, integers
// beyond 2^53 are BigInts, and "__proto__" is an ordinary key.
func literalText(n *node) string {
	s := literalLine(n)
	if len(s) <= 100 || n.kind != jObject {
		return s
	}
	var b strings.Builder
	b.WriteString("{\n")
	for i, k := range n.keys {
		b.WriteString("  " + literalKey(k) + ": " + literalLine(n.vals[i]) + ",\n")
	}
	return b.String() + "}"
}

func literalKey(k string) string {
	if k == "__proto__" {
		return `["__proto__"]`
	}
	return propertyName(k)
}

func literalLine(n *node) string {
	var b strings.Builder
	switch n.kind {
	case jArray:
		b.WriteByte('[')
		for i, v := range n.vals {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(literalLine(v))
		}
		b.WriteByte(']')
	case jObject:
		if len(n.keys) == 0 {
			return "{}"
		}
		b.WriteString("{ ")
		for i, k := range n.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(literalKey(k) + ": " + literalLine(n.vals[i]))
		}
		b.WriteString(" }")
	case jString:
		return quote(n.s)
	case jNumber:
		if _, ok := numberLiteral(n.s); !ok && !strings.ContainsAny(n.s, ".eE") {
			return n.s + "n"
		}
		return n.s
	default:
		return string(n.appendJSON(nil))
	}
	return b.String()
}
