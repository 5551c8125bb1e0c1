package typegen_test

import (
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"
)

// schemas generates satisfiable JSON Schemas with every kind of keyword that tools use, and with
// hostile names and texts.
func schemas() *rapid.Generator[json.RawMessage] {
	return rapid.Custom(func(t *rapid.T) json.RawMessage {
		g := &schemaDrawer{t: t}
		n := rapid.IntRange(0, 3).Draw(t, "defs")
		for i := range n {
			g.defs = append(g.defs,
				fmt.Sprintf("%sDef%d", rapid.SampledFrom([]string{"", "a/b", "x~y", "é", "Promise "}).Draw(t, "def"),
					i))
		}
		s := g.object(0)
		if n > 0 {
			defs := map[string]any{}
			for i, name := range g.defs {
				// a definition refers to later ones freely, and to any other only through an
				// optional property
				g.level = i + 1
				defs[name] = g.schema(1)
			}
			s["$defs"] = defs
		}
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		return b
	})
}

type schemaDrawer struct {
	t     *rapid.T
	defs  []string
	level int
}

var nasty = []string{"id", "name", "list of things", "__proto__", "constructor", "then", "a-b", "x.y", "*/",
	"\"", "\\", "\n",
	"\u2028", "default", "class", "0", "1a", "", "é", "日本", "😀", "${x}", "`", "//", "toString", "length", "$ref",
	"@ts-ignore"}

func (g *schemaDrawer) pick(label string, n int) int { return rapid.IntRange(0, n-1).Draw(g.t, label) }
func (g *schemaDrawer) coin(label string) bool       { return rapid.Bool().Draw(g.t, label) }
func (g *schemaDrawer) name() string                 { return rapid.SampledFrom(nasty).Draw(g.t, "name") }

func (g *schemaDrawer) schema(depth int) map[string]any {
	kinds := 6
	if depth < 3 {
		kinds = 14
	}
	var s map[string]any
	switch g.pick("kind", kinds) {
	case 0:
		s = g.string()
	case 1:
		s = g.number("integer")
	case 2:
		s = g.number("number")
	case 3:
		s = map[string]any{"type": "boolean"}
	case 4:
		s = map[string]any{"enum": []any{g.name(), 1, "b", nil, 2.5, true}}
	case 5:
		s = map[string]any{"const": []any{"x", 3, map[string]any{g.name(): g.name()},
			[]any{1, "a"}}[g.pick("const", 4)]}
	case 6, 7, 8:
		s = g.object(depth + 1)
	case 9, 10:
		s = g.array(depth + 1)
	case 11:
		key := []string{"anyOf", "oneOf"}[g.pick("of", 2)]
		s = map[string]any{key: []any{g.string(), map[string]any{"type": "null"}, g.array(depth + 1)}}
	case 12:
		s = map[string]any{"allOf": []any{g.object(depth + 1),
			map[string]any{"type": "object", "description": g.name()}}}
	default:
		s = g.ref()
	}
	if g.coin("described") {
		s["description"] = g.name() + " */ " + g.name()
	}
	return s
}

// ref refers to a definition after the current one, so that following references ends. References
// back go through an array.
func (g *schemaDrawer) ref() map[string]any {
	if len(g.defs) == 0 {
		return map[string]any{"type": []any{"string", "null"}}
	}
	i := g.pick("ref", len(g.defs))
	ref := map[string]any{"$ref": "#/$defs/" + escapePointer(g.defs[i])}
	if i < g.level {
		return map[string]any{"type": "array", "items": ref}
	}
	return ref
}

func escapePointer(s string) string {
	out := ""
	for _, r := range s {
		switch r {
		case '~':
			out += "~0"
		case '/':
			out += "~1"
		case ' ':
			out += "%20"
		default:
			out += string(r)
		}
	}
	return out
}

func (g *schemaDrawer) string() map[string]any {
	s := map[string]any{"type": "string"}
	switch g.pick("string", 4) {
	case 0:
		s["format"] = rapid.SampledFrom([]string{"date-time", "date", "time", "email", "uri", "uuid", "ipv4",
			"ipv6", "hostname",
			"duration", "json-pointer", "regex", "uri-template", "unheard-of"}).Draw(g.t, "format")
	case 1:
		s["pattern"] = rapid.SampledFrom([]string{"^[a-z]{3,5}$", "^\\d{4}-\\d{2}$", "^(red|green)$", "x",
			"^[A-Z][A-Za-z0-9_-]*$",
			"^\\S+@\\S+$", "^#[0-9a-f]{6}$", "^v?\\d+(\\.\\d+)*$", "^[^/]+/[^/]+$", "^\\u0041+$"}).Draw(g.t, "pattern")
	case 2:
		lo := rapid.IntRange(0, 30).Draw(g.t, "minLength")
		s["minLength"] = lo
		s["maxLength"] = lo + rapid.IntRange(0, 5).Draw(g.t, "more")
	}
	return s
}

func (g *schemaDrawer) number(kind string) map[string]any {
	s := map[string]any{"type": kind}
	lo := rapid.IntRange(-1000, 1000).Draw(g.t, "minimum")
	switch g.pick("number", 4) {
	case 0:
		s["minimum"], s["maximum"] = lo, lo+rapid.IntRange(0, 9).Draw(g.t, "more")
	case 1:
		s["exclusiveMinimum"], s["exclusiveMaximum"] = lo, lo+2
	case 2:
		s["minimum"], s["multipleOf"] = lo, rapid.IntRange(1, 50).Draw(g.t, "multipleOf")
	case 3:
		if kind == "number" {
			s["multipleOf"] = 0.25
		} else {
			s["minimum"] = json.Number("9007199254740993")
		}
	}
	return s
}

func (g *schemaDrawer) array(depth int) map[string]any {
	s := map[string]any{"type": "array"}
	switch g.pick("array", 3) {
	case 0:
		s["items"] = g.schema(depth)
		if g.coin("some") {
			s["minItems"] = rapid.IntRange(0, 4).Draw(g.t, "minItems")
		}
	case 1:
		s["items"] = map[string]any{"type": "string"}
		s["minItems"], s["uniqueItems"] = rapid.IntRange(0, 6).Draw(g.t, "minItems"), true
	case 2:
		s["prefixItems"] = []any{g.schema(depth), g.schema(depth)}
		if g.coin("closed") {
			s["items"] = false
		}
		s["minItems"] = rapid.IntRange(0, 2).Draw(g.t, "minItems")
	}
	return s
}

func (g *schemaDrawer) object(depth int) map[string]any {
	s := map[string]any{"type": "object"}
	props := map[string]any{}
	required := []any{}
	for range g.pick("properties", 5) {
		name := g.name()
		if _, dup := props[name]; dup {
			continue
		}
		props[name] = g.schema(depth)
		if g.coin("required") {
			required = append(required, name)
		}
	}
	s["properties"] = props
	if len(required) > 0 {
		s["required"] = required
	}
	switch g.pick("additional", 5) {
	case 0:
		s["additionalProperties"] = false
	case 1:
		s["additionalProperties"] = g.schema(depth + 1)
	case 2:
		s["patternProperties"] = map[string]any{"^x_[a-z]+$": map[string]any{"type": "integer"}}
		s["minProperties"] = len(required)
	}
	return s
}
