package catalog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/jsonvalue"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/third_party/jsonschema"
	"github.com/biplane-dev/biplane/third_party/jsonschema/kind"
)

const (
	maxProblems    = 8
	maxProblemLine = 400 // bytes
)

// explain describes the problems with the arguments of a call, one per line, so that the next
// attempt can correct them.
func explain(t *tool.Tool, s *jsonschema.Schema, args any, err *jsonschema.ValidationError) string {
	x := explainer{root: s, args: args}
	x.add(err)
	lines := slices.Compact(slices.SortedFunc(slices.Values(x.lines), func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.path, b.path), cmp.Compare(a.text, b.text))
	}))
	var b strings.Builder
	fmt.Fprintf(&b, "wrong arguments for %s:", toolName(t))
	for i, l := range lines {
		if i == maxProblems {
			fmt.Fprintf(&b, "\n- and %d more", len(lines)-i)
			break
		}
		fmt.Fprintf(&b, "\n- %s", oneLine(l.path+": "+l.text, maxProblemLine))
	}
	if given := x.undeclaredMembers(nil); len(given) > 1 {
		fmt.Fprintf(&b, "\nyou gave %s; it takes %s", nameList(given), formatParameters(s))
	}
	return b.String()
}

// undeclaredMembers returns the sorted names of members at a location that the schema doesn't
// declare.
func (x *explainer) undeclaredMembers(at []string) (names []string) {
	declared := x.properties(at)
	given, _ := jsonvalue.AsObject(x.value(at))
	for name := range given {
		if len(declared) > 0 && declared[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// formatParameters formats a schema's declarations in short TypeScript-like form: { owner: string,
// state?: one of "open" }.
func formatParameters(s *jsonschema.Schema) string {
	x := explainer{root: s}
	declared, required := x.properties(nil), map[string]bool{}
	for _, s := range x.schemasAt(nil) {
		for _, name := range s.Required {
			required[name] = declared[name] == nil || declared[name].Default == nil
		}
	}
	names := slices.SortedFunc(maps.Keys(declared), func(a, b string) int {
		if required[a] != required[b] {
			return map[bool]int{true: -1, false: 1}[required[a]]
		}
		return cmp.Compare(a, b)
	})
	var parts []string
	for i, name := range names {
		if i == 24 {
			parts = append(parts, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		part := cut(name, 60)
		if !required[name] {
			part += "?"
		}
		parts = append(parts, part+": "+cmp.Or(cut(typeText(declared[name], 0), 120), "any"))
	}
	return "{ " + oneLine(strings.Join(parts, ", "), 1200) + " }"
}

type problem struct{ path, text string }

type explainer struct {
	root  *jsonschema.Schema
	args  any
	lines []problem
}

func (x *explainer) say(at []string, format string, a ...any) {
	if len(x.lines) < 20*maxProblems {
		x.lines = append(x.lines, problem{x.path(at), fmt.Sprintf(format, a...)})
	}
}

// path formats a location in the arguments as in a program: filters[0].name.
func (x *explainer) path(at []string) string {
	if len(at) == 0 {
		return "arguments"
	}
	var b strings.Builder
	v := x.args
	for i, tok := range at {
		_, inList := v.([]any)
		v = jsonvalue.StepInto(v, tok)
		switch {
		case inList:
			fmt.Fprintf(&b, "[%s]", tok)
		case !isIdentifier(tok):
			fmt.Fprintf(&b, "[%s]", quoteShort(tok))
		case i > 0:
			b.WriteByte('.')
			fallthrough
		default:
			b.WriteString(cut(tok, 80))
		}
	}
	return b.String()
}

// add adds the problems of err, or of its causes.
func (x *explainer) add(err *jsonschema.ValidationError) {
	at := err.InstanceLocation
	switch k := err.ErrorKind.(type) {
	case *kind.Required:
		x.reportMissing(at, k.Missing)
	case *kind.AdditionalProperties:
		x.reportUnknown(at, k.Properties)
	case *kind.FalseSchema:
		if len(at) > 0 {
			x.reportUnknown(at[:len(at)-1], at[len(at)-1:])
		} else {
			x.say(at, "no value is allowed here")
		}
	case *kind.Type:
		x.say(at, "expected %s; got %s", strings.Join(k.Want, " or "), describe(x.value(at)))
	case *kind.Enum:
		x.say(at, "expected one of %s; got %s%s", alternatives(k.Want), describe(k.Got), suggestValue(k.Got, k.Want))
	case *kind.Const:
		x.say(at, "expected %s; got %s", short(k.Want), describe(k.Got))
	case *kind.AnyOf:
		x.reportForms(err, "any")
	case *kind.OneOf:
		if len(k.Subschemas) == 2 {
			x.say(at, "fits more than one of the forms that exclude each other (number %d and %d)", k.Subschemas[0]+1,
				k.Subschemas[1]+1)
			return
		}
		x.reportForms(err, "one")
	case *kind.PropertyNames:
		x.say(at, "the name %s is not allowed", quoteShort(k.Property))
	case *kind.Dependency:
		x.say(at, "with %s also %s must be given", k.Prop, strings.Join(k.Missing, ", "))
	case *kind.DependentRequired:
		x.say(at, "with %s also %s must be given", k.Prop, strings.Join(k.Missing, ", "))
	default:
		if len(err.Causes) == 0 {
			x.say(at, "%s", describeBound(err.ErrorKind))
			return
		}
		for _, c := range err.Causes {
			x.add(c)
		}
	}
}

// describeBound describes the violation of a bound.
func describeBound(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return fmt.Sprintf("must be at least %s; got %s", number(k.Want), number(k.Got))
	case *kind.Maximum:
		return fmt.Sprintf("must be at most %s; got %s", number(k.Want), number(k.Got))
	case *kind.ExclusiveMinimum:
		return fmt.Sprintf("must be more than %s; got %s", number(k.Want), number(k.Got))
	case *kind.ExclusiveMaximum:
		return fmt.Sprintf("must be less than %s; got %s", number(k.Want), number(k.Got))
	case *kind.MultipleOf:
		return fmt.Sprintf("must be a multiple of %s; got %s", number(k.Want), number(k.Got))
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters; got %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters; got %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items; got %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items; got %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members; got %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members; got %d", k.Want, k.Got)
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are the same, all must differ", k.Duplicates[0], k.Duplicates[1])
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d items too many", k.Count)
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %s; got %s", cut(k.Want, 120), short(k.Got))
	case *kind.Contains, *kind.MinContains:
		return "has too few items of the kind that it must contain"
	case *kind.MaxContains:
		return "has too many items of one kind"
	case *kind.Not:
		return "has a form that is not allowed"
	case *kind.RefCycle:
		return "can't be checked: its schema refers to itself without end"
	}
	return "is not valid (" + strings.Join(k.KeywordPath(), ".") + ")"
}

// reportMissing reports missing members, and unknown members that may be misspellings of them.
func (x *explainer) reportMissing(at, names []string) {
	declared := x.properties(at)
	strangers := x.undeclaredMembers(at)
	for _, name := range names {
		text := "missing"
		if want := typeText(declared[name], 0); want != "" {
			text += "; expected " + want
		}
		if s := nearestName(name, strangers); s != "" {
			text += fmt.Sprintf(" (given as %s?)", quoteShort(s))
		}
		x.say(append(slices.Clone(at), name), "%s", text)
	}
}

// reportUnknown reports members that are not allowed, and lists the allowed ones.
func (x *explainer) reportUnknown(at, names []string) {
	declared := slices.Sorted(maps.Keys(x.properties(at)))
	allowed := "none is allowed here"
	if len(declared) > 0 {
		allowed = "allowed: " + nameList(declared)
	}
	what := "unknown argument"
	if len(at) > 0 {
		what = "unknown member"
	}
	slices.Sort(names)
	for _, name := range names {
		sep := ";"
		if n := nearestName(name, declared); n != "" {
			sep = "; did you mean " + cut(n, 80) + "?"
		}
		x.say(append(slices.Clone(at), name), "%s%s %s", what, sep, allowed)
	}
}

// reportForms reports why a value fits none of several forms. If one form is clearly nearest, it
// reports the problems of that form; otherwise it lists the forms.
func (x *explainer) reportForms(err *jsonschema.ValidationError, which string) {
	at := err.InstanceLocation
	if best := nearestForm(err.Causes, len(at)); best != nil {
		x.add(best)
		return
	}
	var forms []string
	for _, s := range x.schemasAt(at) {
		for _, f := range append(slices.Clone(s.AnyOf), s.OneOf...) {
			if t := typeText(f, 0); t != "" && !slices.Contains(forms, t) {
				forms = append(forms, t)
			}
		}
	}
	if len(forms) == 0 {
		x.say(at, "fits none of the %d forms, of which it must fit %s; got %s", len(err.Causes), which,
			describe(x.value(at)))
		return
	}
	x.say(at, "expected %s; got %s", cut(strings.Join(forms, " or "), 240), describe(x.value(at)))
}

// nearestForm returns the cause with the fewest problems, if there is only one such cause. Causes
// that don't match the value's own type or constant are ignored.
func nearestForm(causes []*jsonschema.ValidationError, depth int) *jsonschema.ValidationError {
	var best *jsonschema.ValidationError
	least, ties := 0, 0
	for _, c := range causes {
		n, off := countProblems(c, depth)
		if off {
			continue
		}
		switch {
		case best == nil || n < least:
			best, least, ties = c, n, 1
		case n == least:
			ties++
		}
	}
	if ties != 1 {
		return nil
	}
	return best
}

// countProblems counts the problems in err. off reports whether one of them is with the value at
// depth itself, or is a constant (the name of another form) that does not match.
func countProblems(err *jsonschema.ValidationError, depth int) (n int, off bool) {
	if len(err.Causes) == 0 {
		switch k := err.ErrorKind.(type) {
		case *kind.Type, *kind.Enum:
			return 1, len(err.InstanceLocation) == depth
		case *kind.Const:
			return 1, true
		case *kind.Required:
			return len(k.Missing), false
		case *kind.AdditionalProperties:
			return len(k.Properties), false
		}
		return 1, false
	}
	for _, c := range err.Causes {
		m, o := countProblems(c, depth)
		n, off = n+m, off || o
	}
	return n, off
}

// value returns the value at a location in the arguments.
func (x *explainer) value(at []string) any {
	v := x.args
	for _, tok := range at {
		v = jsonvalue.StepInto(v, tok)
	}
	return v
}

// properties returns the members that the schema declares at a location.
func (x *explainer) properties(at []string) map[string]*jsonschema.Schema {
	out := map[string]*jsonschema.Schema{}
	for _, s := range x.schemasAt(at) {
		maps.Copy(out, s.Properties)
	}
	return out
}

// schemasAt returns the schemas that apply, or may apply, at a location.
func (x *explainer) schemasAt(at []string) []*jsonschema.Schema {
	here := expandSchemas([]*jsonschema.Schema{x.root})
	for _, tok := range at {
		var next []*jsonschema.Schema
		for _, s := range here {
			if p := s.Properties[tok]; p != nil {
				next = append(next, p)
				continue
			}
			n, err := strconv.Atoi(tok)
			switch items := s.Items.(type) {
			case []*jsonschema.Schema:
				if err == nil && n >= 0 && n < len(items) {
					next = append(next, items[n])
				}
			case *jsonschema.Schema:
				next = append(next, items)
			}
			if err == nil && n >= 0 && n < len(s.PrefixItems) {
				next = append(next, s.PrefixItems[n])
			} else if s.Items2020 != nil {
				next = append(next, s.Items2020)
			}
			next = appendSchemas(next, s.AdditionalProperties)
		}
		here = expandSchemas(next)
	}
	return here
}

// expandSchemas adds to schemas the schemas that they refer to or combine.
func expandSchemas(list []*jsonschema.Schema) []*jsonschema.Schema {
	seen := map[*jsonschema.Schema]bool{}
	var out []*jsonschema.Schema
	for len(list) > 0 && len(out) < 500 {
		s := list[0]
		list = list[1:]
		if s == nil || seen[s] {
			continue
		}
		seen[s] = true
		out = append(out, s)
		list = append(list, s.Ref, s.Then, s.Else)
		list = append(append(append(list, s.AllOf...), s.AnyOf...), s.OneOf...)
	}
	return out
}

// typeText describes in a few words what a schema expects, or returns "" if that is unknown.
func typeText(s *jsonschema.Schema, depth int) string {
	switch {
	case s == nil || depth > 4:
		return ""
	case s.Const != nil:
		return short(*s.Const)
	case s.Enum != nil:
		return "one of " + alternatives(s.Enum.Values)
	case s.Ref != nil:
		return typeText(s.Ref, depth+1)
	}
	var types []string
	if s.Types != nil {
		types = s.Types.ToStrings()
	}
	if len(types) == 0 && s.Properties != nil {
		types = []string{"object"}
	}
	for _, f := range append(slices.Clone(s.AnyOf), s.OneOf...) {
		if t := typeText(f, depth+1); t != "" && len(types) < 6 && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	text := strings.Join(types, " or ")
	switch {
	case text == "object" && len(s.Required) > 0:
		return "object with " + nameList(s.Required)
	case text == "array" && s.Items2020 != nil && typeText(s.Items2020, depth+1) != "":
		return "array of " + typeText(s.Items2020, depth+1)
	}
	return text
}

func nameList(names []string) string {
	var out []string
	for i, n := range names {
		if i == 24 {
			out = append(out, fmt.Sprintf("and %d more", len(names)-i))
			break
		}
		out = append(out, cut(n, 60))
	}
	return strings.Join(out, ", ")
}

func alternatives(values []any) string {
	var out []string
	for i, v := range values {
		if i == 12 {
			out = append(out, fmt.Sprintf("and %d more", len(values)-i))
			break
		}
		out = append(out, short(v))
	}
	return strings.Join(out, ", ")
}

// suggestValue suggests the allowed string that is most similar to the given one.
func suggestValue(got any, want []any) string {
	s, ok := got.(string)
	if !ok {
		return ""
	}
	var names []string
	for _, w := range want {
		if n, ok := w.(string); ok {
			names = append(names, n)
		}
	}
	if n := nearestName(s, names); n != "" {
		return " (did you mean " + quoteShort(n) + "?)"
	}
	return ""
}

// describe describes a value: its type, and the value itself if it is short.
func describe(v any) string {
	switch v := jsonvalue.ForSwitch(v).(type) {
	case nil:
		return "null"
	case bool:
		return "boolean " + strconv.FormatBool(v)
	case json.Number:
		return "number " + cut(string(v), 40)
	case string:
		return "string " + short(v)
	case []any:
		return fmt.Sprintf("array of %d", len(v))
	case jsonvalue.Object:
		return fmt.Sprintf("object with %d members", len(v))
	}
	return "a value"
}

// short formats a value as JSON, truncated to a few bytes.
func short(v any) string {
	if s, ok := v.(string); ok {
		v = cut(s, 48)
	}
	b, err := tool.Marshal(v)
	if err != nil {
		return "a value"
	}
	return cut(string(b), 60)
}

// number formats a bound, as an integer if it is one.
func number(r *big.Rat) string {
	if r.IsInt() {
		return cut(r.Num().String(), 40)
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
