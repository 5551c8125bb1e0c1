package plaintext_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/upstream/plaintext"
)

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                     "plain\ttext\n",
		"a\r\nb\rc\u2028d":                  "a\nb\nc\nd",
		"\x1b[31mred\x1b[0m \x1b]0;t\aend":  "red end",
		"\x1b]0;t\x1b\\shown\aend":          "shownend",
		"\x1b]0;t\ashown\x1b\\end":          "shownend",
		"left\u202eright\u2066x\u200f":      "leftrightx",
		"tags\U000e0041\U000e0042":          "tags",
		"zero\u200bwidth\u2060\ufeff\u00ad": "zerowidth",
		"bell\a\x00\u009b":                  "bell",
		"selectors\U000e0101\ufe01":         "selectors",
		"a\u200cb\u200dc\ufe0f":             "abc",
		"\u200d\u200c":                      "",
		"👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 می\u200cخواهم": "👨\u200d👩\u200d👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 " +
			"می\u200cخواهم",
		"🔥\u200d\u200c\u200d": "🔥\u200d",
		"bad \xff utf8 ü":     "bad \xff utf8 ü",
	} {
		if got := plaintext.CleanText(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

const tag = `\udb40\udc41`

func TestDefinition(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing hidden", `{ "name":"a", "n": 9007199254740993.10, "description":"caf\u00e9 \n <b>" }`, ""},
		{"escaped", `{"name":"a","title":"x\u001b[31my` + tag + `","n":9007199254740993.10}`,
			`{"name":"a","title":"xy","n":9007199254740993.10}`},
		{"literal", "{\"name\":\"a\",\"description\":\"x\u202ey\"}", `{"name":"a","description":"xy"}`},
		{"schema texts", `{"inputSchema":{"type":"object","properties":{"a":{"description":"x` + tag +
			`y","title":"\u200bz","examples":["\u202e1"]}}}}`,
			`{"inputSchema":{"type":"object","properties":{"a":{"description":"xy","title":"z","examples":["1"]}}}}`},
		{"enumerations", `{"inputSchema":{"properties":{"a":{"enum":["one","two\u202e",3,{"x":"\u200b"}]}}}}`,
			`{"inputSchema":{"properties":{"a":{"enum":["one",3]}}}}`},
		{"defaults and patterns",
			`{"inputSchema":{"properties":{"a":{"default":"\u202e","pattern":"^[^\u0000]*$","type":"string"}}}}`,
			`{"inputSchema":{"properties":{"a":{"type":"string"}}}}`},
		{"annotations", `{"annotations":{"title":"x\u202ey","\u200bx":1,"readOnlyHint":true},"_meta":{"a":["\u200bz"]}}`, `{"annotations":{"title":"xy","readOnlyHint":true},"_meta":{"a":["z"]}}`},
		{"an output schema", `{"name":"a","outputSchema":{"properties":{"x\u202e":{}}}}`, `{"name":"a"}`},
		{"the name is left", `{"name":"a\u202e","title":"\u200bx"}`, `{"name":"a` + "\u202e" + `","title":"x"}`},
		{"unknown keywords", `{"inputSchema":{"x-note":"a` + tag +
			`","allOf":[{"description":"b\u202e"}],"items":{"$comment":"\u200bc"}}}`,
			`{"inputSchema":{"x-note":"a","allOf":[{"description":"b"}],"items":{"$comment":"c"}}}`},
	} {
		if c.want == "" {
			c.want = c.in
		}
		got, err := plaintext.Definition(json.RawMessage(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.name, got, err, c.want)
		}
	}
	for _, in := range []string{
		`{"inputSchema":{"properties":{"a\u202e":{}}}}`, `{"inputSchema":{"required":["a\u200b"]}}`,
		`{"inputSchema":{"properties":{"a":{"const":"x` + tag + `"}}}}`,
		`{"inputSchema":{"properties":{"a":{"enum":["\u200b"]}}}}`, `{"inputSchema":{"x\u202e":1}}`,
		`{"inputSchema":{"$defs":{"a\u202e":{}}}}`,
		`{"inputSchema":{"items":[{"properties":{"a":{"properties":{"\u200b":{}}}}}]}}`,
	} {
		if got, err := plaintext.Definition(json.RawMessage(in)); err == nil {
			t.Errorf("in = %s, got = %s, want err != nil", in, got)
		}
	}
}

// The result of Definition contains nothing hidden, whatever the input, and is valid JSON.
func FuzzDefinition(f *testing.F) {
	f.Add([]byte(`{"description":"\u001b[31m\u202e","inputSchema":{"properties":{"a":{"enum":["b\u200b",1]}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var v map[string]json.RawMessage
		if json.Unmarshal(raw, &v) != nil || v == nil {
			return
		}
		delete(v, "name")
		raw, _ = json.Marshal(v)
		out, err := plaintext.Definition(raw)
		if err != nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%s became %s", raw, out)
		}
		var any any
		_ = json.Unmarshal(out, &any)
		plain, _ := json.Marshal(any)
		var s []string
		walk(any, &s)
		for _, text := range s {
			if strings.ContainsFunc(text, plaintext.IsHidden) {
				t.Fatalf("%s holds %q", plain, text)
			}
		}
	})
}

// walk appends all strings of a JSON value, including names.
func walk(v any, out *[]string) {
	switch v := v.(type) {
	case string:
		*out = append(*out, v)
	case []any:
		for _, x := range v {
			walk(x, out)
		}
	case map[string]any:
		for k, x := range v {
			*out = append(*out, k)
			walk(x, out)
		}
	}
}

func TestListHidden(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":"plain"}`:                      "[]",
		`{"a":"x\u202ey\u202e","b\u200b":1}`: "[U+202E U+200B]",
		`{"a":"line\r\nline\u00ad\ufeff"}`:   "[]",
		`{"a":"👩\u200d🔧 ❤\ufe0f"}`:           "[]",
		"{\"a\":\"\U000e0041\"}":             "[U+E0041]",
		`["\u2066","\u2067","\u200e","\u200f","\u2060"]`: "[U+2066 U+2067 U+200E U+200F " +
			"U+2060]",
	} {
		if got := fmt.Sprintf("%U", plaintext.ListHidden([]byte(raw))); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
