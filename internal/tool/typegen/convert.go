package typegen

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds on a converted schema. Anything beyond them becomes unknown, with a note.
const (
	maxTypeDepth = 40
	maxTypes     = 20_000
	maxEnum      = 1_000
	maxLiteral   = 500 // bytes of a string literal type
)

// A converter converts one schema document to types. It reads JSON Schema 2020-12 (section numbers
// refer to its core document), draft-07 and the extensions of OpenAPI 3.0. Keywords that types
// can't express (not, if, dependentSchemas, contains) are ignored. That makes a type wider, never
// wrong.
type converter struct {
	root    *node
	input   bool // arguments, which the agent writes; otherwise results, which it reads
	whole   bool // integers are a separate type without bounds, as in Python
	anchors map[string]*node
	named   map[*node]*named
	order   []*named
	left    int
	most    int // maximum number of named parts that are converted; 0: all
}

// A document is a schema converted to types.
type document struct {
	root typ
	self *named   // the whole schema, if parts refer to it; root is then a reference to it
	defs []*named // types to declare, including self, in order of first use
}

// convertSchema converts a whole schema.
func convertSchema(raw json.RawMessage, input bool) *document {
	return (&converter{input: input}).document(raw)
}

// maxNear is the maximum number of named parts that a signature considers. Each takes over 40 bytes
// (smallType), so that its 2,000 bytes hold fewer. Two small parts count as one: see isSmall.
const maxNear = 50

// convertNear converts a schema, but only the named parts that are nearest to its root.
func convertNear(raw json.RawMessage, input bool) *document {
	return (&converter{input: input, most: maxNear}).document(raw)
}

func (c *converter) document(raw json.RawMessage) *document {
	root, err := parseJSON(raw)
	if err != nil {
		return &document{root: unknownBecause("its schema can't be read: " + oneLine(err.Error(), 100))}
	}
	c.root, c.named, c.left = root, map[*node]*named{}, maxTypes
	self := &named{doc: root.str("description")}
	c.named[root] = self
	self.body = c.convert(root, 0)
	// Parts that are near to the root come first: what is cut is far away. Depth starts at 0 again:
	// c.named ends cycles, and c.left bounds everything else.
	for i, room := 0, 2*c.most; i < len(c.order); i++ { // converting one may add more
		if c.most > 0 && room <= 0 {
			c.order[i].body = unknownBecause("cut: the schema has too many types")
			continue
		}
		c.order[i].body = c.convert(c.order[i].schema, 0)
		if room -= 2; c.most > 0 && isSmall(c.order[i].body) {
			room++
		}
	}
	return settle(self, c.order)
}

// isSmall reports whether a type refers to no others, and is written inline at each use.
func isSmall(t typ) bool {
	_, small := inlineText(t, smallType)
	return small && !hasRef(t)
}

func hasRef(t typ) bool {
	_, found := t.(*refType)
	children(t, func(t typ, _ bool) { found = found || hasRef(t) })
	return found
}

// convert converts one schema.
func (c *converter) convert(n *node, depth int) typ {
	if c.left--; c.left < 0 {
		return unknownBecause("cut: the schema is too large")
	}
	if depth > maxTypeDepth {
		return unknownBecause("cut: the schema is too deep")
	}
	switch n.kind {
	case jBool:
		if n.b {
			return tUnknown
		}
		return tNever
	case jObject:
	default:
		return unknownBecause("not a schema")
	}
	var parts []typ
	if ref, ok := refOf(n); ok {
		parts = append(parts, c.ref(ref))
	}
	parts = append(parts, c.base(n, depth))
	for _, s := range n.list("allOf") {
		parts = append(parts, c.convert(s, depth+1))
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if arms := n.list(key); len(arms) > 0 && !onlyRequires(arms) {
			parts = append(parts, c.union(arms, depth))
		}
	}
	t := intersect(parts...)
	if n.isTrue("nullable") && !isPrim(t, "unknown") { // OpenAPI 3.0
		t = union(t, tNull)
	}
	return t
}

func (c *converter) union(arms []*node, depth int) typ {
	out := make([]typ, 0, len(arms))
	for _, a := range arms {
		out = append(out, c.convert(a, depth+1))
	}
	return union(out...)
}

// onlyRequires reports whether the branches only require properties that are declared elsewhere.
func onlyRequires(arms []*node) bool {
	for _, a := range arms {
		if a.kind != jObject || len(a.keys) == 0 {
			return false
		}
		for _, k := range a.keys {
			if k != "required" && k != "not" && k != "description" && k != "title" {
				return false
			}
		}
	}
	return true
}

// base converts the schema's own type, enum, const and shape, ignoring references and combinations.
func (c *converter) base(n *node, depth int) typ {
	if v := n.get("const"); v != nil {
		return c.literal(v, 0)
	}
	types := typesOf(n)
	if enum := n.get("enum"); enum != nil && enum.kind == jArray {
		return c.enum(enum.vals, types)
	}
	if len(types) == 0 {
		types = shapeOf(n)
	}
	var arms []typ
	for _, t := range types {
		switch t {
		case "string":
			arms = append(arms, tString)
		case "number":
			arms = append(arms, tNumber)
		case "integer":
			switch {
			case c.whole:
				arms = append(arms, tInteger)
			case c.input && isWide(n):
				arms = append(arms, tNumber, tBigint)
			default:
				arms = append(arms, tNumber)
			}
		case "boolean":
			arms = append(arms, tBoolean)
		case "null":
			arms = append(arms, tNull)
		case "object":
			arms = append(arms, c.object(n, depth))
		case "array":
			arms = append(arms, c.array(n, depth))
		default:
			arms = append(arms, unknownBecause("type "+strconv.Quote(oneLine(t, 40))))
		}
	}
	if len(arms) == 0 {
		return tUnknown
	}
	return union(arms...)
}

// typesOf returns the names in type, which is a string or an array of strings.
func typesOf(n *node) []string {
	if s := n.str("type"); s != "" {
		return []string{s}
	}
	return n.strings("type")
}

// shapeOf guesses the type of a schema without one from its keywords. It returns nil if they
// suggest none.
func shapeOf(n *node) []string {
	for _, k := range []string{"properties", "additionalProperties", "patternProperties", "required"} {
		if n.get(k) != nil {
			return []string{"object"}
		}
	}
	for _, k := range []string{"items", "prefixItems"} {
		if n.get(k) != nil {
			return []string{"array"}
		}
	}
	return nil
}

// isWide reports whether an integer may exceed 2^53, beyond which a JavaScript number is inexact.
func isWide(n *node) bool {
	if f := n.str("format"); f == "int64" || f == "uint64" {
		return true
	}
	for _, k := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		if v := n.get(k); v != nil && v.kind == jNumber {
			if _, ok := numberLiteral(v.s); !ok {
				return true
			}
		}
	}
	return false
}

func (c *converter) enum(vals []*node, types []string) typ {
	var arms []typ
	for _, v := range vals {
		if len(arms) >= maxEnum {
			return unknownOr(types, fmt.Sprintf("one of %d values", len(vals)))
		}
		if len(types) > 0 && !hasType(v, types) {
			continue
		}
		arms = append(arms, c.literal(v, 0))
	}
	return union(arms...)
}

// unknownOr returns the plain type with a note if there is just one, and otherwise unknown.
func unknownOr(types []string, note string) typ {
	if len(types) == 1 && (types[0] == "string" || types[0] == "number" || types[0] == "boolean") {
		return prim{types[0], note}
	}
	return unknownBecause(note)
}

func hasType(v *node, types []string) bool {
	var name string
	switch v.kind {
	case jNull:
		name = "null"
	case jBool:
		name = "boolean"
	case jString:
		name = "string"
	case jNumber:
		if slices.Contains(types, "integer") {
			return true
		}
		name = "number"
	case jArray:
		name = "array"
	case jObject:
		name = "object"
	}
	return slices.Contains(types, name)
}

// literal returns the type of exactly one value.
func (c *converter) literal(v *node, depth int) typ {
	if c.left--; c.left < 0 || depth > 8 {
		return tUnknown
	}
	switch v.kind {
	case jNull:
		return tNull
	case jBool:
		return prim{text: strconv.FormatBool(v.b)}
	case jNumber:
		if s, ok := numberLiteral(v.s); ok {
			return prim{text: s}
		}
		return union(tNumber, tBigint)
	case jString:
		if len(v.s) > maxLiteral {
			return prim{"string", "one text of " + strconv.Itoa(len(v.s)) + " bytes"}
		}
		return prim{text: quote(v.s)}
	case jArray:
		t := &tupleType{min: len(v.vals)}
		for _, e := range v.vals {
			t.elems = append(t.elems, c.literal(e, depth+1))
		}
		return t
	}
	o := &objectType{}
	for i, k := range v.keys {
		o.props = append(o.props, property{name: k, typ: c.literal(v.vals[i], depth+1)})
	}
	return o
}

func (c *converter) array(n *node, depth int) typ {
	prefix := n.list("prefixItems")
	items := n.get("items")
	if items != nil && items.kind == jArray { // tuples in draft-07
		prefix, items = items.vals, n.get("additionalItems")
	}
	var rest typ = tUnknown
	if items != nil {
		rest = c.convert(items, depth+1)
	}
	if len(prefix) == 0 {
		if isPrim(rest, "never") {
			return &tupleType{}
		}
		return &arrayType{rest}
	}
	t := &tupleType{min: int(smallInt(n.get("minItems"), 0))}
	for _, p := range prefix {
		t.elems = append(t.elems, c.convert(p, depth+1))
	}
	if t.min == 0 && !c.input {
		t.min = len(t.elems) // a tuple in a result has all its elements, even if the schema doesn't say so
	}
	t.min = min(t.min, len(t.elems))
	closed := isPrim(rest, "never") || items == nil && smallInt(n.get("maxItems"), -1) == int64(len(prefix))
	if !closed {
		t.rest = rest
	}
	return t
}

func (c *converter) object(n *node, depth int) typ {
	o := &objectType{}
	required := map[string]bool{}
	for _, r := range n.strings("required") {
		required[r] = true
	}
	declared := map[string]bool{}
	if ps := n.object("properties"); ps != nil {
		for i, k := range ps.keys {
			declared[k] = true
			filled := c.input && ps.vals[i].get("default") != nil // the gateway fills it in
			if p, ok := c.property(k, ps.vals[i], required[k] && !filled, depth); ok {
				o.props = append(o.props, p)
			}
		}
	}
	for _, k := range n.strings("required") {
		if !declared[k] {
			declared[k] = true
			o.props = append(o.props, property{name: k, typ: tUnknown})
		}
	}
	o.index = c.index(n, depth)
	if names := n.object("propertyNames").strings("enum"); len(names) > 0 && len(names) <= 50 && o.index != nil {
		for _, k := range names {
			if !declared[k] {
				declared[k] = true
				o.props = append(o.props, property{name: k, optional: true, typ: o.index})
			}
		}
		o.index = nil
	}
	if len(o.props) == 0 && o.index == nil && n.get("additionalProperties") == nil {
		o.index, o.open = tUnknown, true
	}
	return o
}

func (c *converter) property(name string, n *node, required bool, depth int) (property, bool) {
	t := c.convert(n, depth+1)
	if isPrim(t, "never") && !required {
		return property{}, false // "name": false forbids it
	}
	p := property{name: name, optional: !required, typ: t, doc: c.describe(n), facts: facts(n, c.input)}
	return p, true
}

// describe returns the description of a schema, or of the schema it refers to.
func (c *converter) describe(n *node) string {
	for range 4 {
		if d := n.str("description"); d != "" {
			return d
		}
		ref, ok := refOf(n)
		if !ok {
			break
		}
		if n = c.lookup(ref); n == nil {
			break
		}
	}
	return ""
}

// index returns the type of the members not named in properties, or nil if there are none or they
// are unspecified.
func (c *converter) index(n *node, depth int) typ {
	var arms []typ
	if pp := n.object("patternProperties"); pp != nil {
		for _, v := range pp.vals {
			arms = append(arms, c.convert(v, depth+1))
		}
	}
	ap := n.get("additionalProperties")
	switch {
	case ap == nil:
	case ap.kind == jBool && !ap.b:
	default:
		arms = append(arms, c.convert(ap, depth+1))
	}
	if len(arms) == 0 {
		return nil
	}
	return union(arms...)
}

// refOf returns the reference in a schema ($ref, or $dynamicRef and $recursiveRef treated as
// static).
func refOf(n *node) (string, bool) {
	for _, k := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		if v := n.get(k); v != nil && v.kind == jString {
			return v.s, true
		}
	}
	return "", false
}

func (c *converter) ref(ref string) typ {
	target := c.lookup(ref)
	if target == nil {
		return unknownBecause("$ref " + strconv.Quote(oneLine(ref, 80)) + " can't be resolved")
	}
	nm := c.named[target]
	if nm == nil {
		nm = &named{want: pascal(lastSegment(ref)), schema: target, doc: target.str("description")}
		if nm.want == "" || ref == "#" {
			nm.want = pascal(target.str("title"))
		}
		c.named[target] = nm
		c.order = append(c.order, nm)
	}
	nm.uses++
	return &refType{nm}
}

func lastSegment(ref string) string {
	if i := strings.LastIndexAny(ref, "/#"); i >= 0 {
		return ref[i+1:]
	}
	return ref
}

// lookup resolves a reference inside the document: "#", a JSON pointer, an anchor or an embedded
// $id. Nothing outside the document is fetched. It returns nil if there is no such schema.
func (c *converter) lookup(ref string) *node {
	if ref == "#" || ref == "" {
		return c.root
	}
	base, frag, hasFrag := strings.Cut(ref, "#")
	if plain := base == "" && strings.HasPrefix(frag, "/"); !plain && c.anchors == nil {
		c.anchors = map[string]*node{}
		collectAnchors(c.root, c.anchors)
	}
	at := c.root
	if base != "" {
		if at = c.anchors[base]; at == nil {
			return nil
		}
	}
	switch {
	case !hasFrag || frag == "":
	case strings.HasPrefix(frag, "/"):
		at = pointer(at, frag)
	default:
		at = c.anchors["#"+frag]
	}
	if at != nil && at.kind != jObject && at.kind != jBool {
		return nil
	}
	return at
}

func collectAnchors(n *node, into map[string]*node) {
	for _, k := range []string{"$anchor", "$dynamicAnchor"} {
		if a := n.str(k); a != "" {
			into["#"+a] = n
		}
	}
	if id := n.str("$id"); id != "" {
		into[id] = n // draft-07 writes anchors as "$id": "#name"
	}
	for _, v := range n.vals {
		if v.load(); v.kind == jObject || v.kind == jArray {
			collectAnchors(v, into)
		}
	}
}

// pointer resolves a JSON pointer (RFC 6901) in a URI fragment.
func pointer(n *node, ptr string) *node {
	for _, seg := range strings.Split(ptr[1:], "/") {
		seg = unescapePercent(seg)
		seg = strings.ReplaceAll(strings.ReplaceAll(seg, "~1", "/"), "~0", "~")
		switch {
		case n == nil:
			return nil
		case n.kind == jObject:
			n = n.get(seg)
		case n.kind == jArray:
			i, err := strconv.Atoi(seg)
			if err != nil || i < 0 || i >= len(n.vals) {
				return nil
			}
			n = n.vals[i]
		default:
			return nil
		}
	}
	return n
}

func unescapePercent(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// smallInt returns an integer, or def if n is not one.
func smallInt(n *node, def int64) int64 {
	if n == nil || n.kind != jNumber {
		return def
	}
	if i, err := strconv.ParseInt(n.s, 10, 64); err == nil {
		return i
	}
	if f, err := strconv.ParseFloat(n.s, 64); err == nil && f == float64(int64(f)) {
		return int64(f)
	}
	return def
}
