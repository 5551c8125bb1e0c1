package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ name, paths, raw, want string }{
		{"structured", "a.b", `{"content":[],"structuredContent":{"a":{"b":"secret","c":12345678901234567890.10},` +
			`"b":"kept"}}`,
			`{"content":[],"structuredContent":{"a":{"b":"[redacted]","c":12345678901234567890.10},"b":"kept"}}`},
		{"lists are gone through", "items.price",
			`{"content":[],"structuredContent":{"items":[{"price":1},[{"price":{"x":2},"n":1}]]}}`,
			`{"content":[],"structuredContent":{"items":[{"price":"[redacted]"},[{"n":1,"price":"[redacted]"}]]}}`},
		{"any field", "*.ssn", `{"content":[],"structuredContent":{"a":{"ssn":1},"b":{"c":{"ssn":2}}}}`,
			`{"content":[],"structuredContent":{"a":{"ssn":"[redacted]"},"b":{"c":{"ssn":2}}}}`},
		{"any depth", "**.ssn", `{"content":[],"structuredContent":{"ssn":0,"a":{"ssn":1},"b":[{"c":{"SSN":[2]}}]}}`,
			`{"content":[],"structuredContent":{"a":{"ssn":"[redacted]"},"b":[{"c":{"SSN":"[redacted]"}}],` +
				`"ssn":"[redacted]"}}`},
		{"any depth, then more", "**.card.number",
			`{"content":[],"structuredContent":{"number":1,"x":{"card":{"number":2,"card":{"number":3}}}}}`,
			`{"content":[],"structuredContent":{"number":1,"x":{"card":{"card":{"number":"[redacted]"},` +
				`"number":"[redacted]"}}}}`},
		{"all", "*", `{"content":[],"structuredContent":{"a":1,"b":[2]}}`,
			`{"content":[],"structuredContent":{"a":"[redacted]","b":"[redacted]"}}`},
		{"texts of JSON", "a", `{"content":[{"type":"text","text":" {\"a\":1,\"b\":2} "}]}`,
			`{"content":[{"type":"text","text":"{\"a\":\"[redacted]\",\"b\":2}"}]}`},
		{"what is not JSON is left out", "a",
			`{"content":[{"type":"text","text":"a is secret"},{"type":"text","text":"{\"a\":1} and secret"},` +
				`{"type":"image","data":"secret"},{"type":"text","text":"\"secret\""}],"_meta":{"a":"secret"},` +
				`"isError":true}`,
			`{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"[redacted: policy removes `+
				`fields from this result, and this part is not JSON]"},`, 4), ",") + `],"isError":true}`},
		{"too deep", "a", `{"content":[],"structuredContent":{"x":` + strings.Repeat("[", 300) + `{"a":"secret"}` +
			strings.Repeat("]", 300) + `}}`, `{"content":[],"structuredContent":{}}`},
	} {
		r, err := tool.ParseResult(json.RawMessage(c.raw))
		if err != nil {
			t.Fatalf("tool.ParseResult: %v", err)
		}
		if got := policy.Redact(r, []string{c.paths}); string(got.Raw) != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got.Raw, c.want)
		}
	}
}

// TestNoSecretIsLeft checks that a secret in a named field is removed from results of any shape.
func TestNoSecretIsLeft(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.SampledFrom([]any{"x", 1.5, true, nil})
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "key"}), value(depth-1), 0, 3),
				func(m map[string]any) any {
					if _, ok := m["key"]; ok {
						m["key"] = map[string]any{"deep": []any{"SECRET"}}
					}
					return m
				}))
	}
	rapid.Check(t, func(t *rapid.T) {
		doc, _ := json.Marshal(map[string]any{"a": value(4).Draw(t, "value")})
		raw, _ := json.Marshal(map[string]any{"content": []any{map[string]any{"type": "text", "text": string(doc)}},
			"structuredContent": json.RawMessage(doc)})
		r, err := tool.ParseResult(raw)
		if err != nil {
			t.Fatalf("tool.ParseResult: %v", err)
		}
		if got := policy.Redact(r, []string{"**.key"}); strings.Contains(string(got.Raw), "SECRET") {
			t.Fatalf("%s became %s", raw, got.Raw)
		}
	})
}
