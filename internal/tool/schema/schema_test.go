package schema_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool/schema"
)

func parse(t *testing.T, text string) schema.Schema {
	t.Helper()
	s, err := schema.Parse(json.RawMessage(text))
	if err != nil {
		t.Fatalf("schema.Parse: %v", err)
	}
	return s
}

func TestKeywords(t *testing.T) {
	s := parse(t, `{"type": "object", "required": ["id", "at"], "additionalProperties": false, "x-team": "ops",
		"properties": {"id": {"type": "integer"}, "at": {"$ref": "#/$defs/time"}, "any": true},
		"anyOf": [{"type": ["string", "null"]}, {"type": "string", "nullable": true}, false],
		"enum": ["a", 1], "$defs": {"time": {"format": "date-time"}}}`)
	id, declared := s.Property("id")
	if !declared || !slices.Equal(id.TypeNames(), []string{"integer"}) {
		t.Errorf("property id: %v, declared %v; want an integer", id, declared)
	}
	if names := s.PropertyNames(); !slices.Equal(names, []string{"any", "at", "id"}) {
		t.Errorf("property names: %q", names)
	}
	if any, declared := s.Property("any"); !declared || !any.IsZero() {
		t.Errorf("property any: %v, declared %v; want the zero Schema", any, declared)
	}
	if _, declared := s.Property("other"); declared {
		t.Error("an undeclared property is declared")
	}
	if names := s.RequiredNames(); !slices.Equal(names, []string{"id", "at"}) {
		t.Errorf("required names: %q", names)
	}
	if !s.IsClosed() || !s.Has("x-team") || s.TextOf("x-team") != "ops" || s.Has("items") {
		t.Errorf("closed %v, x-team %v %q, items %v", s.IsClosed(), s.Has("x-team"), s.TextOf("x-team"), s.Has("items"))
	}
	forms := s.Parts("anyOf")
	if len(forms) != 3 || !forms[2].IsZero() {
		t.Fatalf("forms: %v", forms)
	}
	for _, f := range forms[:2] {
		if names := f.TypeNames(); !slices.Equal(names, []string{"string", "null"}) {
			t.Errorf("types of %v: %q", f, names)
		}
	}
	if v := s.EnumValues(); len(v) != 2 || v[0] != "a" || v[1] != 1.0 {
		t.Errorf("enum: %v", v)
	}
}

func TestResolve(t *testing.T) {
	s := parse(t, `{"components": {"schemas": {"a/b~c": {"type": "string"}}}, "items": [1]}`)
	for ref, want := range map[string]string{
		"#/components/schemas/a~1b~0c": "string",
		"#/components/schemas/other":   "",
		"#/items/0":                    "",
		"#":                            "",
		"#anchor":                      "",
		"other.json#/components":       "",
		"":                             "",
	} {
		if got := s.Resolve(ref); got.TextOf("type") != want || want == "" && !got.IsZero() {
			t.Errorf("%q leads to %v; want type %q", ref, got, want)
		}
	}
}

// TestBrokenKeywords checks that keywords whose values have the wrong type count as missing.
func TestBrokenKeywords(t *testing.T) {
	s := parse(t, `{"type": 3, "properties": [], "required": "id", "anyOf": {}, "items": 1, "enum": "a", "$ref": 2}`)
	if _, ok := s.Ref(); ok || s.TypeNames() != nil || s.PropertyNames() != nil || len(s.RequiredNames()) != 0 ||
		s.Parts("anyOf") != nil || !s.Part("items").IsZero() || s.EnumValues() != nil {
		t.Errorf("a keyword of %v counts", s)
	}
	if got := parse(t, `{"required": [1, "id"], "type": [null, "string"]}`); !slices.Equal(got.RequiredNames(),
		[]string{"id"}) || !slices.Equal(got.TypeNames(), []string{"string"}) {
		t.Errorf("required %q, types %q", got.RequiredNames(), got.TypeNames())
	}
	for _, text := range []string{`true`, `null`, `[]`, `"x"`, `{}`} {
		if s := parse(t, text); !s.IsZero() {
			t.Errorf("%s is read as %v; want the zero Schema", text, s)
		}
	}
	if _, err := schema.Parse(json.RawMessage(`{`)); err == nil {
		t.Error("incomplete JSON is parsed without an error")
	}
}
