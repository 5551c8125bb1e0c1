package tool

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// TestCanonicalPlain checks that plain JSON has the same canonical form without decoding it, and
// that the arguments of common calls are plain.
func TestCanonicalPlain(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{}`, `[]`: `[]`, `{"x":7,"ms":0}`: `{"ms":0,"x":7}`, `[{"b":[],"a":{}}]`: `[{"a":{},"b":[]}]`,
		`{"z":false,"a":"b c","n":-12,"o":{"p":[1,true,null,"x"]}}`: `{"a":"b c","n":-12,"o":{"p":[1,true,null,"x"]},` +
			`"z":false}`,
	} {
		if out, ok := canonicalizePlain([]byte(in)); !ok || string(out) != want {
			t.Errorf("canonicalizePlain(%s) = %s, %v, want %s", in, out, ok, want)
		}
	}
	for _, s := range []string{`{"a":1,"a":2}`, `{"x": 7}`, `{"x":1.0}`, `{"x":1e2}`, `{"x":-0}`, `{"x":01}`,
		`{"x":1234567890123456}`, `{"x":"\u0041"}`, `{"x":"ä"}`, `{"x":7`, `{"x"}`, `{"x":7}}`, `[1,]`,
		`{,}`, `tru`, `-`,
		"\"a\x7f\"", `{"x":nul}`, ``} {
		if out, ok := canonicalizePlain([]byte(s)); ok {
			t.Errorf("canonicalizePlain(%s) = %s, want it not to be plain", s, out)
		}
	}
	text := rapid.SliceOfN(rapid.SampledFrom([]byte(`{}[]",:-0123456789.eE\truefalsn abcdefghijklmopqvwxyz~`)), 0, 40)
	rapid.Check(t, func(t *rapid.T) {
		b := text.Draw(t, "text")
		if rapid.Bool().Draw(t, "valid") {
			b = value(3).Draw(t, "value")
		}
		out, ok := canonicalizePlain(b)
		if !ok {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("canonicalizePlain accepts %q, which isn't JSON", b)
		}
		if want := canonicalizeAny(b); string(out) != string(want) {
			t.Fatalf("canonicalizePlain(%s) = %s, want %s", b, out, want)
		}
	})
}

// value generates JSON texts of at most depth levels, in canonical form or nearly.
func value(depth int) *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		kind := rapid.IntRange(0, 5).Draw(t, "kind")
		if depth == 0 {
			kind %= 3
		}
		switch kind {
		case 0:
			b, _ := json.Marshal(rapid.Int64().Draw(t, "integer"))
			return b
		case 1:
			b, _ := json.Marshal(rapid.Float64Range(-1e6, 1e6).Draw(t, "number"))
			return b
		case 2:
			b, _ := json.Marshal(rapid.StringOfN(rapid.RuneFrom([]rune("aZ0 \"\\ä\n<")), 0, 6, -1).Draw(t, "text"))
			return b
		case 3:
			b := []byte("[")
			for i := range rapid.IntRange(0, 3).Draw(t, "length") {
				if i > 0 {
					b = append(b, ',')
				}
				b = append(b, value(depth-1).Draw(t, "element")...)
			}
			return append(b, ']')
		}
		b := []byte("{")
		for i := range rapid.IntRange(0, 3).Draw(t, "members") {
			if i > 0 {
				b = append(b, ',')
			}
			name, _ := json.Marshal(rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "name"))
			b = append(append(append(b, name...), ':'), value(depth-1).Draw(t, "member")...)
		}
		return append(b, '}')
	})
}

// BenchmarkDigest measures the digest of plain arguments, and of others.
func BenchmarkDigest(b *testing.B) {
	for name, args := range map[string]string{
		"plain": `{"repo":"biplane","query":"open issues","limit":100}`,
		"other": `{"repo":"biplane","query":"offene Frägen","limit":100}`,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				CallDigest("github.list_issues", json.RawMessage(args))
			}
		})
	}
}
