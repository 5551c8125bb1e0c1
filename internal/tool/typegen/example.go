package typegen

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A plan is one way to fill in a schema. Plans are tried in order, from the most useful to the
// plainest.
type plan struct {
	hints    bool // use examples and defaults
	optional int  // how many optional properties of the root to include; -1: all, at every level
	arm      int  // which branch of anyOf, oneOf and enum to start with
	then     int  // which branch of if to satisfy: 0 neither, 1 then, 2 else
}

var plans = []plan{
	{hints: true, optional: 1},
	{hints: true},
	{optional: 1},
	{},
	{arm: 1},
	{then: 1, optional: -1},
	{then: 2},
	{optional: -1},
	{arm: 2, then: 1},
	{arm: 3, optional: -1},
}

// exampleValue returns a value that validates. With an error it returns the best value that failed
// or could not be validated, or nil.
func exampleValue(schema json.RawMessage) (*node, error) {
	if len(schema) > maxExampleSchema {
		return nil, fmt.Errorf("the schema is %d bytes, examples are written for up to %d", len(schema),
			maxExampleSchema)
	}
	root, err := parseJSON(schema)
	if err != nil {
		return nil, err
	}
	strict, err := compileSchema(root, true)
	if err != nil {
		return (&maker{doc: &converter{root: root}, left: maxBuilds}).try(root), err
	}
	var best *node
	for _, v := range ownExamples(root) {
		if strict.check(v) == nil {
			return v, nil
		}
	}
	for _, p := range plans {
		m := &maker{doc: &converter{root: root}, plan: p, left: maxBuilds}
		v := m.try(root)
		if v == nil {
			err = errors.Join(err, m.why)
			continue
		}
		bad := strict.check(v)
		if bad == nil {
			return v, nil
		}
		if best == nil {
			best, err = v, bad
		}
	}
	if loose, e := compileSchema(root, false); e == nil && best != nil && loose.check(best) == nil {
		return best, nil // invalid only by a format, which validators need not check
	}
	if err == nil {
		err = errors.New("nothing satisfies the schema")
	}
	return best, err
}

func ownExamples(root *node) []*node {
	var out []*node
	for _, v := range append(root.list("examples"), root.get("example")) {
		if v != nil && v.kind == jObject && len(v.keys) > 0 && len(v.appendJSON(nil)) < 600 {
			out = append(out, v)
		}
	}
	return out
}

// Bounds on the search for an example.
const (
	maxExampleSchema = 128 << 10 // bytes: the validator's work grows with their square
	maxBuilds        = 5_000     // values built in one plan
	maxExampleDepth  = 16
	maxExampleSize   = 64 // maximum of elements or properties that minItems and the like may require
)

// A maker fills in a schema according to a plan.
type maker struct {
	doc  *converter // resolves references
	plan plan
	left int
	open map[*node]int // schemas being built, including those reached by reference, with their nesting
	why  error         // the first failure
}

// try returns a value for the root, or nil.
func (m *maker) try(root *node) *node {
	v, ok := m.build(root, "", 0, 0)
	if !ok {
		return nil
	}
	return v
}

func (m *maker) fail(why string) (*node, bool) {
	if m.why == nil {
		m.why = errors.New(why)
	}
	return nil, false
}

// build builds a value of schema n for the property name. The values of an array differ by variant.
func (m *maker) build(n *node, name string, variant, depth int) (*node, bool) {
	if m.left--; m.left < 0 || depth > maxExampleDepth {
		return m.fail("the schema is too deep or too large")
	}
	if n.kind == jBool {
		if n.b {
			return str("example"), true
		}
		return m.fail("a required value is forbidden (false)")
	}
	defer m.enter(n)()
	arms := m.choices(n, depth)
	if len(arms) == 0 {
		return m.from(m.flatten(n, nil, 0), name, variant, depth)
	}
	for _, a := range arms {
		if v, ok := m.from(m.flatten(n, a, 0), name, variant, depth); ok {
			return v, true
		}
	}
	return nil, false
}

// choices returns the branches of anyOf and oneOf in the order to try them. They are those of n, or
// of the first schema it refers to that has some. Branches without recursion come first, so that
// recursion ends.
func (m *maker) choices(n *node, depth int) []*node {
	for hops := 0; n != nil && hops < 8; hops++ {
		for _, k := range []string{"anyOf", "oneOf"} {
			arms := n.list(k)
			if len(arms) == 0 {
				continue
			}
			out := make([]*node, 0, len(arms))
			for i := range arms {
				out = append(out, arms[(i+m.plan.arm)%len(arms)])
			}
			slices.SortStableFunc(out, func(a, b *node) int { return m.weight(a, depth) - m.weight(b, depth) })
			return out
		}
		ref, ok := refOf(n)
		if !ok {
			return nil
		}
		n = m.doc.lookup(ref)
	}
	return nil
}

// enter records that a value of schema n is being built, until leave is called.
func (m *maker) enter(n *node) (leave func()) {
	if m.open == nil {
		m.open = map[*node]int{}
	}
	at := []*node{n}
	for ref, ok := refOf(n); ok && len(at) < 8; ref, ok = refOf(n) {
		if n = m.doc.lookup(ref); n == nil {
			break
		}
		at = append(at, n)
	}
	for _, n := range at {
		m.open[n]++
	}
	return func() {
		for _, n := range at {
			m.open[n]--
		}
	}
}

func (m *maker) weight(n *node, depth int) int {
	w := 0
	if budget := 300; m.recurs(n, &budget) {
		w += 4
	}
	if n.str("type") == "null" && depth <= 3 {
		w++
	}
	return w
}

// recurs reports whether a schema refers to one that is being built.
func (m *maker) recurs(n *node, budget *int) bool {
	if *budget--; *budget < 0 || n == nil {
		return false
	}
	if ref, ok := refOf(n); ok && m.open[m.doc.lookup(ref)] > 0 {
		return true
	}
	for _, v := range n.vals {
		if v.load().kind >= jArray && m.recurs(v, budget) {
			return true
		}
	}
	return false
}

// from builds a value of a schema without references and combinations.
func (m *maker) from(n *node, name string, variant, depth int) (*node, bool) {
	if n == nil {
		return m.fail("a reference that can't be resolved")
	}
	if v := n.get("const"); v != nil {
		return v, true
	}
	if m.plan.hints && variant == 0 {
		if v := hint(n); v != nil {
			return v, true
		}
	}
	if enum := n.list("enum"); len(enum) > 0 {
		return pickEnum(enum, typesOf(n), m.plan.arm+variant), true
	}
	types := typesOf(n)
	if len(types) == 0 {
		types = impliedTypes(n)
	}
	for i := range types {
		t := types[(i+m.plan.arm)%len(types)]
		if t == "null" && len(types) > 1 {
			continue
		}
		switch t {
		case "object":
			return m.object(n, depth)
		case "array":
			return m.array(n, name, depth)
		case "integer", "number":
			return m.number(n, name, t == "integer", variant)
		case "boolean":
			return &node{kind: jBool, b: variant%2 == 0}, true
		case "null":
			return &node{}, true
		case "string":
			return m.str(n, name, variant)
		}
	}
	return m.str(n, name, variant)
}

// impliedTypes returns the type that a schema's keywords imply if it names none.
func impliedTypes(n *node) []string {
	if t := shapeOf(n); t != nil {
		return t
	}
	for _, t := range []struct {
		name string
		keys []string
	}{
		{"object", []string{"minProperties", "maxProperties", "propertyNames", "dependentRequired"}},
		{"array", []string{"minItems", "maxItems", "contains", "uniqueItems"}},
		{"number", []string{"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"}},
	} {
		for _, k := range t.keys {
			if n.get(k) != nil {
				return []string{t.name}
			}
		}
	}
	return nil
}

// hint returns an example or default from the schema, or nil.
func hint(n *node) *node {
	for _, v := range append(n.list("examples"), n.get("example"), n.get("default")) {
		if v == nil || v.kind == jNull || len(v.appendJSON(nil)) > 200 {
			continue
		}
		if types := typesOf(n); len(types) == 0 || hasType(v, types) {
			return v
		}
	}
	return nil
}

func pickEnum(vals []*node, types []string, i int) *node {
	var fit []*node
	for _, v := range vals {
		if (len(types) == 0 || hasType(v, types)) && (v.kind != jNull || len(vals) == 1) {
			fit = append(fit, v)
		}
	}
	if len(fit) == 0 {
		fit = vals
	}
	return fit[i%len(fit)]
}

func (m *maker) object(n *node, depth int) (*node, bool) {
	out := &node{kind: jObject}
	required := n.strings("required")
	ps := n.object("properties")
	if ps == nil {
		ps = &node{kind: jObject}
	}
	need := map[string]bool{}
	for _, k := range required {
		need[k] = true
	}
	for _, k := range required { // including properties that required ones depend on
		for _, d := range n.object("dependentRequired").strings(k) {
			if !need[d] {
				need[d] = true
				required = append(required, d)
			}
		}
	}
	extra := m.optional(ps, need, depth)
	for i, k := range ps.keys {
		if !need[k] && !extra[k] {
			continue
		}
		v, ok := m.build(ps.vals[i], k, 0, depth+1)
		if !ok {
			if need[k] {
				return nil, false
			}
			continue
		}
		out.set(k, v)
	}
	for _, k := range required {
		if ps.get(k) == nil {
			v, ok := m.build(additional(n, k), k, 0, depth+1)
			if !ok {
				return nil, false
			}
			out.set(k, v)
		}
	}
	return m.fill(n, ps, out, depth)
}

// optional picks the optional properties to include: at the root, the most informative one (enum,
// example).
func (m *maker) optional(ps *node, need map[string]bool, depth int) map[string]bool {
	pick := map[string]bool{}
	if m.plan.optional < 0 && depth < 4 {
		for _, k := range ps.keys {
			pick[k] = true
		}
		return pick
	}
	if depth > 0 || m.plan.optional <= 0 {
		return pick
	}
	best := 0
	name := ""
	for i, k := range ps.keys {
		if score := m.worth(ps.vals[i]); !need[k] && score > best && (score > 1 || len(need) == 0) {
			best, name = score, k
		}
	}
	if name != "" {
		pick[name] = true
	}
	return pick
}

func (m *maker) worth(n *node) int {
	n = m.flatten(n, nil, 0)
	if n == nil || n.isTrue("deprecated") {
		return 0
	}
	types := typesOf(n)
	if slices.Contains(types, "object") || slices.Contains(types, "array") || len(types) == 0 && n.get("enum") == nil {
		return 0
	}
	switch {
	case n.get("examples") != nil || n.get("example") != nil:
		return 4
	case n.get("enum") != nil:
		return 3
	}
	return 1
}

// additional returns the schema of a member not named in properties.
func additional(n *node, key string) *node {
	if pp := n.object("patternProperties"); pp != nil {
		for i, p := range pp.keys {
			if re, err := compileRegexp(p); err == nil && re.MatchString(key) {
				return pp.vals[i]
			}
		}
	}
	if ap := n.get("additionalProperties"); ap != nil {
		return ap
	}
	return &node{kind: jBool, b: true}
}

// fill adds members until there are at least minProperties.
func (m *maker) fill(n, ps, out *node, depth int) (*node, bool) {
	least := smallInt(n.get("minProperties"), 0)
	if least > maxExampleSize {
		return m.fail("minProperties asks for too much")
	}
	for i, k := range ps.keys {
		if int64(len(out.keys)) >= least {
			return out, true
		}
		if out.get(k) == nil {
			if v, ok := m.build(ps.vals[i], k, 0, depth+1); ok {
				out.set(k, v)
			}
		}
	}
	for i := 0; int64(len(out.keys)) < least && i < 2*maxExampleSize; i++ {
		k, ok := m.key(n, i)
		if !ok {
			break
		}
		v, ok := m.build(additional(n, k), k, i, depth+1)
		if !ok {
			return nil, false
		}
		out.set(k, v)
	}
	return out, true
}

// key returns a name for an additional member.
func (m *maker) key(n *node, i int) (string, bool) {
	if names := n.get("propertyNames"); names != nil && names.kind == jObject {
		v, ok := m.str(m.flatten(names, nil, 0), "key", i)
		if enum := names.list("enum"); len(enum) > 0 {
			v, ok = enum[i%len(enum)], true
		}
		return v.text(), ok
	}
	if pp := n.object("patternProperties"); pp != nil && len(pp.keys) > 0 {
		v, ok := m.str(&node{kind: jObject, keys: []string{"pattern"}, vals: []*node{str(pp.keys[0])}}, "key", i)
		return v.text(), ok
	}
	return "key" + strings.Repeat("y", i), true
}

func (m *maker) array(n *node, name string, depth int) (*node, bool) {
	out := &node{kind: jArray}
	prefix := n.list("prefixItems")
	items := n.get("items")
	if items != nil && items.kind == jArray {
		prefix, items = items.vals, n.get("additionalItems")
	}
	least := smallInt(n.get("minItems"), 0)
	most := smallInt(n.get("maxItems"), maxExampleSize)
	if least > maxExampleSize {
		return m.fail("minItems asks for too much")
	}
	if items == nil {
		items = &node{kind: jBool, b: true}
	}
	single := strings.TrimSuffix(name, "s")
	want := max(least, 1)
	if c := n.get("contains"); c != nil {
		for i := range max(smallInt(n.get("minContains"), 1), 0) {
			if i < maxExampleSize {
				if v, ok := m.build(merge(c, items), single, int(i), depth+1); ok {
					out.vals = append(out.vals, v)
				}
			}
		}
	} else if want < int64(len(prefix)) {
		want = int64(len(prefix))
	}
	want = min(want, most)
	for i := len(out.vals); int64(i) < want; i++ {
		s := items
		if i < len(prefix) {
			s = prefix[i]
		}
		v, ok := m.build(s, single, i, depth+1)
		if !ok {
			if int64(len(out.vals)) >= least {
				break
			}
			return nil, false
		}
		out.vals = append(out.vals, v)
	}
	return out, true
}

func str(s string) *node { return &node{kind: jString, s: s} }

// text returns the value of a string, and "" for nil and all other kinds.
func (n *node) text() string {
	if n == nil || n.kind != jString {
		return ""
	}
	return n.s
}
