package check

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/grafana/sobek/ast"
	js "github.com/grafana/sobek/token"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/schema"
)

// A value is what is statically known about an argument.
type value struct {
	at     int    // offset in the parsed code
	kind   string // JSON type: "null", "boolean", "number", "string", "array", "object"; "" if unknown
	scalar any    // nil, bool, float64 or string; only valid if exact
	exact  bool   // the value is completely known
	text   string // scalar as JSON
	keys   []string
	fields map[string]*value
	items  []*value
	open   bool // an object or array may have additional, unknown elements: spreads, computed keys
}

// checkArguments checks the arguments of a tool call.
func (c *checker) checkArguments(e *ast.CallExpression, entry tool.Entry, args []ast.Expression, s *scope) {
	v := &value{at: int(e.Idx0()) - 1, kind: "object", exact: true, fields: map[string]*value{}}
	if len(args) > 0 {
		if _, spread := args[0].(*ast.SpreadElement); spread {
			return
		}
		c.checkAwaited(args[0], s, "which can't be an argument")
		v = c.valueOf(args[0], s, 0)
	}
	switch {
	case len(args) > 1, v.kind != "" && v.kind != "null" && v.kind != "object":
		c.checkPositions(v, entry, args, s)
		return
	case v.kind != "object": // null counts as no arguments
		return
	}
	v.rename(entry)
	f := &fit{root: c.index.inputSchema(entry), steps: new(int)}
	f.checkValue(v, f.root, "", 0)
	if given := strangersOf(v, f.root); len(given) > 1 && len(f.found) > 0 {
		first := &f.found[0] // agents may see only the first problem
		first.message += "\nyou gave " + cutList(given) + "; " + entry.Path() + " takes " + entry.ListArguments()
	}
	for _, p := range f.found {
		c.reportAt(p.at, "%s: %s", entry.Path(), p.message)
	}
	for _, n := range f.notes {
		c.notes = append(c.notes, entry.Path()+": "+n)
	}
	if len(f.found) > 0 || !v.exact || f.root.IsZero() {
		return
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return
	}
	if err := entry.CheckArguments(raw); err != nil && tool.AsError(err).Kind == tool.Invalid {
		c.reportAt(v.at, "%s", tool.AsError(err).Msg)
	}
}

// MarshalJSON encodes the value, which must be exact.
func (v *value) MarshalJSON() ([]byte, error) {
	switch {
	case v.kind == "array" && v.items == nil:
		return []byte("[]"), nil
	case v.kind == "array":
		return json.Marshal(v.items)
	case v.kind == "object":
		return json.Marshal(v.fields) // which is never nil
	}
	return []byte(v.text), nil
}

const maxLiteral = 30 // maximum nesting of literals

// valueOf determines what is known about an expression.
func (c *checker) valueOf(e ast.Expression, s *scope, depth int) *value {
	v := &value{at: int(e.Idx0()) - 1}
	if depth > maxLiteral {
		return v
	}
	switch e := e.(type) {
	case *ast.NullLiteral:
		v.set("null", nil)
	case *ast.BooleanLiteral:
		v.set("boolean", e.Value)
	case *ast.StringLiteral:
		v.set("string", e.Value.String())
	case *ast.NumberLiteral:
		v.number(e, 1)
	case *ast.UnaryExpression:
		if n, ok := e.Operand.(*ast.NumberLiteral); ok && e.Operator == js.MINUS {
			v.number(n, -1)
		}
	case *ast.TemplateLiteral:
		if e.Tag == nil {
			v.kind = "string"
		}
	case *ast.ArrayLiteral:
		c.addItems(v, e, s, depth)
	case *ast.ObjectLiteral:
		c.addFields(v, e, s, depth)
	case *ast.Identifier: // only scalar constants: the contents of an object may have changed
		if b := s.lookup(e.Name.String()); b != nil && b.init != nil && len(b.keys) == 0 {
			switch b.init.(type) {
			case *ast.NullLiteral, *ast.BooleanLiteral, *ast.StringLiteral, *ast.NumberLiteral, *ast.TemplateLiteral:
				at := v.at
				v = c.valueOf(b.init, b.scope, depth+1)
				v.at = at
			}
		}
	}
	return v
}

func (v *value) set(kind string, scalar any) {
	b, err := tool.Marshal(scalar)
	v.kind, v.scalar, v.exact, v.text = kind, scalar, err == nil, string(b)
}

func (v *value) number(n *ast.NumberLiteral, sign float64) {
	switch x := n.Value.(type) {
	case int64:
		v.set("number", sign*float64(x))
	case float64:
		if !math.IsInf(x, 0) && !math.IsNaN(x) {
			v.set("number", sign*x)
		}
	}
	if f, ok := v.scalar.(float64); ok && math.Abs(f) > 1<<53 {
		v.exact = false
	}
}

func (c *checker) addItems(v *value, e *ast.ArrayLiteral, s *scope, depth int) {
	v.kind, v.exact = "array", true
	for _, x := range e.Value {
		if x == nil {
			v.exact, v.open = false, true
			continue
		}
		if _, spread := x.(*ast.SpreadElement); spread {
			v.exact, v.open = false, true
			continue
		}
		item := c.valueOf(x, s, depth+1)
		v.exact = v.exact && item.exact
		v.items = append(v.items, item)
	}
}

func (c *checker) addFields(v *value, e *ast.ObjectLiteral, s *scope, depth int) {
	v.kind, v.exact, v.fields = "object", true, map[string]*value{}
	put := func(key string, at int, x *value) {
		if key == "__proto__" || key == "toJSON" {
			v.kind, v.exact, v.open = "", false, true
		}
		x.at = at
		if _, again := v.fields[key]; !again {
			v.keys = append(v.keys, key)
		}
		v.fields[key] = x
		v.exact = v.exact && x.exact
	}
	for _, p := range e.Value {
		switch p := p.(type) {
		case *ast.PropertyShort:
			put(p.Name.Name.String(), int(p.Idx0())-1, c.valueOf(&p.Name, s, depth+1))
		case *ast.PropertyKeyed:
			key, ok := p.Key.(*ast.StringLiteral)
			if !ok || p.Computed || p.Kind != ast.PropertyKindValue {
				v.exact, v.open = false, true
				continue
			}
			c.checkAwaited(p.Value, s, "which can't be an argument")
			put(key.Value.String(), int(p.Key.Idx0())-1, c.valueOf(p.Value, s, depth+1))
		default:
			v.exact, v.open = false, true
		}
	}
	if v.kind == "" {
		v.exact = false
	}
}

// A fit collects the definite violations of a JSON Schema by a partially known value.
type fit struct {
	root  schema.Schema
	found []misfit
	notes []string
	steps *int // number of schemas visited: a hostile schema may refer to itself endlessly
}

// A misfit is a violation.
type misfit struct {
	at      int // offset in the parsed code
	message string
	typed   bool // the type is wrong
}

func (f *fit) say(at int, format string, a ...any) {
	f.found = append(f.found, misfit{at: at, message: fmt.Sprintf(format, a...)})
}

const (
	maxSchemaDepth = 40
	maxSchemaSteps = 10_000
)

// checkValue checks v against s. where is the name of v for messages, "" for the arguments as a
// whole.
func (f *fit) checkValue(v *value, s schema.Schema, where string, depth int) {
	if *f.steps++; s.IsZero() || depth > maxSchemaDepth || *f.steps > maxSchemaSteps || v == nil ||
		len(f.found) > maxProblems {
		return
	}
	if ref, ok := s.Ref(); ok {
		f.checkValue(v, f.resolve(ref), where, depth+1)
	}
	for _, part := range s.Parts("allOf") {
		f.checkValue(v, part, where, depth+1)
	}
	for _, keyword := range [...]string{"anyOf", "oneOf"} {
		f.choice(v, s.Parts(keyword), where, depth)
	}
	if v.kind == "" || !f.typed(v, s, where) {
		return
	}
	f.checkEnum(v, s, where)
	switch v.kind {
	case "object":
		f.object(v, s, where, depth)
	case "array":
		if !s.Has("prefixItems") {
			for _, x := range v.items {
				f.checkValue(x, s.Part("items"), where+"[]", depth+1)
			}
		}
	}
}

// choice checks that v may match one of several forms.
func (f *fit) choice(v *value, forms []schema.Schema, where string, depth int) {
	if len(forms) == 0 {
		return
	}
	var best *fit
	right := 0 // forms that match v's type
	for _, form := range forms {
		g := &fit{root: f.root, steps: f.steps}
		g.checkValue(v, form, where, depth+1)
		if len(g.found) == 0 {
			return
		}
		if first := g.found[0]; first.at != v.at || !first.typed {
			right++
			best = g
		}
	}
	if right == 1 {
		f.found = append(f.found, best.found...)
		return
	}
	var types []string
	for _, form := range forms {
		types = append(types, form.TypeNames()...)
	}
	slices.Sort(types)
	if types = slices.Compact(types); len(types) > 0 && !slices.Contains(types, v.kind) {
		f.say(v.at, "%s must be %s, got %s", quotePath(where), orList(types), v.describe())
		return
	}
	f.say(v.at, "%s matches none of the allowed schemas, got %s", quotePath(where), v.describe())
}

// typed checks the type of v.
func (f *fit) typed(v *value, s schema.Schema, where string) bool {
	types := s.TypeNames()
	if len(types) == 0 || slices.Contains(types, v.kind) {
		return true
	}
	if v.kind == "number" && slices.Contains(types, "integer") {
		n, ok := v.scalar.(float64)
		if !ok || n == math.Trunc(n) {
			return true
		}
	}
	f.say(v.at, "%s must be %s, got %s", quotePath(where), orList(types), v.describe())
	f.found[len(f.found)-1].typed = true
	return false
}

// checkEnum checks a scalar against enum and const.
func (f *fit) checkEnum(v *value, s schema.Schema, where string) {
	if !v.exact || v.kind == "object" || v.kind == "array" {
		return
	}
	allowed := s.EnumValues()
	if s.Has("const") {
		allowed = []any{s.ValueOf("const")}
	}
	if len(allowed) == 0 || slices.ContainsFunc(allowed, func(a any) bool { return same(a, v.scalar) }) {
		return
	}
	var texts, names []string
	for _, a := range allowed {
		b, _ := tool.Marshal(a)
		texts = append(texts, string(b))
		if n, ok := a.(string); ok {
			names = append(names, n)
		}
	}
	hint := ""
	if n, ok := v.scalar.(string); ok && len(names) > 1 {
		if near := Nearest(n, names); near != "" {
			hint = "; did you mean " + strconv.Quote(near) + "?"
		}
	}
	f.say(v.at, "%s must be %s, got %s%s", quotePath(where), orList(texts), v.describe(), hint)
}

func same(a, b any) bool {
	switch a.(type) {
	case nil, bool, float64, string:
		return a == b
	}
	return false
}

// object checks the members of v.
func (f *fit) object(v *value, s schema.Schema, where string, depth int) {
	var missing []string
	for _, name := range s.RequiredNames() {
		if v.fields[name] == nil && !v.open && !hasDefault(s, name) {
			missing = append(missing, name)
		}
	}
	var strangers []string
	for _, k := range v.keys {
		if property, ok := s.Property(k); ok {
			f.checkValue(v.fields[k], property, join(where, k), depth+1)
		} else if !hasPatterns(s) {
			strangers = append(strangers, k)
			if s.ValueOf("patternProperties") == nil {
				f.checkValue(v.fields[k], s.Part("additionalProperties"), join(where, k), depth+1)
			}
		}
	}
	for _, name := range missing {
		hint := ""
		if near := Nearest(name, strangers); near != "" {
			hint = "; you gave " + near
		} else if len(missing) == 1 && len(strangers) == 1 {
			hint = "; you gave " + strangers[0]
		}
		f.say(v.at, "missing argument %s%s%s", join(where, name), f.typeNote(s, name), hint)
	}
	if !s.Part("properties").IsZero() {
		f.strangers(v, s, strangers, missing, where)
	}
}

// hasDefault reports whether a property of s has a default, which the gateway fills in.
func hasDefault(s schema.Schema, name string) bool {
	property, _ := s.Property(name)
	return property.Has("default")
}

// strangersOf returns the names of arguments that a schema doesn't declare, in the order of v.
func strangersOf(v *value, s schema.Schema) (names []string) {
	if s.Part("properties").IsZero() || hasPatterns(s) {
		return nil
	}
	for _, k := range v.keys {
		if _, ok := s.Property(k); !ok {
			names = append(names, k)
		}
	}
	return names
}

// strangers reports members that the schema doesn't declare. They are errors if the schema is
// closed. Otherwise, one that resembles an unused declared name becomes a note.
func (f *fit) strangers(v *value, s schema.Schema, strangers, missing []string, where string) {
	declared := s.PropertyNames()
	var free []string
	for _, k := range declared {
		if v.fields[k] == nil {
			free = append(free, k)
		}
	}
	for _, k := range strangers {
		near := Nearest(k, free)
		switch {
		case s.IsClosed():
			hint := ""
			if near != "" {
				hint = "; did you mean " + near + "?"
			}
			f.say(v.fields[k].at, "unknown argument %s%s Allowed: %s", join(where, k), orDot(hint), cutList(declared))
		case near != "" && !s.Has("additionalProperties") && !slices.Contains(missing, near):
			f.notes = append(f.notes,
				fmt.Sprintf("argument %s is not declared; did you mean %s?", join(where, k), near))
		}
	}
}

func orDot(hint string) string {
	if hint == "" {
		return "."
	}
	return hint
}

// hasPatterns reports whether keyword patternProperties of s may allow other properties. The
// patterns are not evaluated, so any name may be allowed.
func hasPatterns(s schema.Schema) bool { return !s.Part("patternProperties").IsZero() }

// resolve resolves a reference inside the document. It returns the zero Schema if it can't.
func (f *fit) resolve(ref string) schema.Schema {
	switch {
	case ref == "#":
		return f.root
	case len(ref) > 501:
		return schema.Schema{}
	}
	return f.root.Resolve(ref)
}

// typeNote returns the types of a property in parentheses, or "" if they are unknown.
func (f *fit) typeNote(s schema.Schema, name string) string {
	property, _ := s.Property(name)
	if ref, ok := property.Ref(); ok {
		property = f.resolve(ref)
	}
	if t := property.TypeNames(); len(t) > 0 {
		return " (" + strings.Join(t, " or ") + ")"
	}
	return ""
}

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

func quotePath(where string) string {
	if where == "" {
		return "the argument"
	}
	return where
}

func orList(texts []string) string {
	if len(texts) > 12 {
		texts = append(texts[:12:12], "…")
	}
	if len(texts) == 1 {
		return texts[0]
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " or " + texts[len(texts)-1]
}

func cutList(names []string) string {
	if len(names) > 20 {
		names = append(names[:20:20], "…")
	}
	return strings.Join(names, ", ")
}

func article(kind string) string {
	if kind == "array" {
		return "an array"
	}
	return "a " + kind
}

// describe describes a value for messages.
func (v *value) describe() string {
	if v.exact && v.text != "" && v.kind != "null" {
		t := v.text
		if len(t) > 60 {
			r := []rune(t)
			t = string(r[:min(len(r), 40)]) + "…"
		}
		return "the " + v.kind + " " + t
	}
	if v.kind == "null" {
		return "null"
	}
	return article(v.kind)
}

// Nearest returns the name that is most similar to s, or "" if none is similar.
func Nearest(s string, names []string) string {
	best, least := "", 1+len(s)/4
	for _, n := range names {
		if d := text.Distance(fold(s), fold(n), least); d <= least &&
			(best == "" || d < text.Distance(fold(s), fold(best), least)) {
			best = n
		}
	}
	if best == "" && len(s) >= 3 {
		for _, n := range names {
			if a, b := fold(s), fold(n); len(b) >= 3 && (strings.HasPrefix(a, b) || strings.HasPrefix(b, a) ||
				strings.HasSuffix(b, a) || strings.HasSuffix(a, b)) {
				return n
			}
		}
	}
	return best
}

// fold removes differences in style between names of arguments: case, '_' and '-'.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}
