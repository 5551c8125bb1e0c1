package cli

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

func TestWriteYAML(t *testing.T) {
	var b strings.Builder
	err := writeYAML(&b, []byte(`{"name":"a b","n":12345678901234567890123,"f":1.50,"e":{},"l":[],"no":"no",`+
		`"t":"a\tb\n","list":[1,[2,3],{"x":null,"y":[true]}],"k: v":{"deep":{"er":"\u009b"}}}`))
	want := `name: a b
"n": 12345678901234567890123
f: 1.50
e: {}
l: []
"no": "no"
t: "a\tb\n"
list:
  - 1
  - - 2
    - 3
  - x: null
    "y":
      - true
"k: v":
  deep:
    er: "\u009b"
`
	if err != nil || b.String() != want {
		t.Errorf("got\n%s, %v\nwant\n%s", b.String(), err, want)
	}
}

// TestYAMLProperty checks that a reader of YAML gets what a reader of JSON gets.
func TestYAMLProperty(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.IntRange(-1<<40, 1<<40), func(n int) any { return float64(n) }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.SampledFrom([]any{nil, "~", "null", "1", "- a", "a: b", "#", "<<", "0x1f", "|", "2026-01-01", " "}))
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.StringN(1, 5, -1), value(depth-1), 0, 3),
				func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(r *rapid.T) {
		v := map[string]any{"v": value(3).Draw(r, "v")}
		raw, err := json.Marshal(v)
		if err != nil {
			r.Fatalf("json.Marshal: %v", err)
		}
		var out bytes.Buffer
		if err := writeYAML(&out, raw); err != nil {
			r.Fatalf("writeYAML(%s): %v", raw, err)
		}
		var got any
		if err := yaml.Unmarshal(out.Bytes(), &got); err != nil {
			r.Fatalf("%s became %s: %v", raw, out.Bytes(), err)
		}
		again, err := json.Marshal(got)
		if err != nil {
			r.Fatalf("json.Marshal: %v", err)
		}
		var a, b any
		if json.Unmarshal(raw, &a) != nil || json.Unmarshal(again, &b) != nil || !reflect.DeepEqual(a, b) {
			r.Fatalf("%s became\n%s, which is %s", raw, out.Bytes(), again)
		}
	})
}
