package yamldoc

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// A form has a field of each kind that readers of YAML use.
type form struct {
	Text string            `yaml:"text"`
	List []string          `yaml:"list"`
	Map  map[string]string `yaml:"map"`
	Flag *bool             `yaml:"flag"`
	Any  any               `yaml:"any"`
}

func TestDecode(t *testing.T) {
	yes := true
	for source, want := range map[string]form{
		"":               {},
		"# nothing\n---": {},
		"text: a\nlist: [b, 'c']\nmap: {d: e}\nflag: true": {Text: "a", List: []string{"b", "c"},
			Map: map[string]string{"d": "e"}, Flag: &yes},
		`{"text":"a & *b !c <<","any":{"n":[1,null,2.5]}}`: {Text: "a & *b !c <<",
			Any: map[string]any{"n": []any{uint64(1), nil, 2.5}}},
		"any:\n" + nest(30) + "x: 1\n": {Any: deepMap(30)},
	} {
		var got form
		if err := DecodeStrictly([]byte(source), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("DecodeStrictly(%q): got %+v, %v, want %+v", source, got, err, want)
		}
	}
	var got form
	if err := DecodeDocument([]byte("other: 1\ntext: a"), &got); err != nil || got.Text != "a" {
		t.Errorf("DecodeDocument: got %+v, %v, want the text, and no error for an unknown key", got, err)
	}
}

// nest returns lines of block maps, each one level deeper.
func nest(levels int) string {
	var b strings.Builder
	for i := range levels {
		b.WriteString(strings.Repeat(" ", i+1) + "x:\n")
	}
	return b.String() + strings.Repeat(" ", levels+1)
}

func deepMap(levels int) any {
	var v any = map[string]any{"x": uint64(1)}
	for range levels {
		v = map[string]any{"x": v}
	}
	return v
}

// TestHostile checks that texts made to cost much, or to make the library panic, are errors.
func TestHostile(t *testing.T) {
	laughs := "a: &a [x, x]\n"
	for i := range 25 {
		laughs += fmt.Sprintf("%c: &%c [*%c, *%c]\n", 'b'+i, 'b'+i, 'a'+i, 'a'+i)
	}
	for source, want := range map[string]string{
		laughs:                                "line 1: aliases (&, *, <<) are not supported here",
		"a: {<<: {b: 1}}":                     "line 1: aliases",
		"args: !0\n  a: b\nc: d":              "line 1: tags are not supported: remove !0",
		"a: !!binary x":                       "line 1: tags",
		strings.Repeat("[", 1000):             "line 1: nested too deeply",
		strings.Repeat("{a: ", 1000):          "line 1: nested too deeply",
		strings.Repeat("- ", 1000):            "line 1: nested too deeply",
		strings.Repeat("? ", 1000):            "line 1: nested too deeply",
		nest(1100):                            "line 999: nested too deeply",
		strings.Repeat("- a\n", 100_000):      "line 25001: too many values",
		strings.Repeat("# comment\n", 200000): "it has 2.0 MB, at most 1.0 MB are read",
		"text: a\n---\ntext: b":               "line 3: this begins a second document",
		"text: [a]":                           "line 1: ",
		"list: {a: b}":                        "line 1: ",
		"flag: [":                             "line 1: ",
		"text: a\ntext: b":                    "line 2: ",
		"other: 1":                            "line 1: unknown field \"other\"",
	} {
		err := DecodeStrictly([]byte(source), &form{})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("DecodeStrictly(%.40q): got %v, want %q", source, err, want)
		}
	}
	if _, err := ParseDocument([]byte(laughs)); err != nil {
		t.Errorf("ParseDocument: %v, want aliases as they are", err)
	}
}

// FuzzDecode checks that no text makes the library panic, and that what is accepted has the size of
// its text.
func FuzzDecode(f *testing.F) {
	f.Add("text: a\nlist: [b]\nmap: {c: d}\nflag: true\nany: [1, {x: y}]\n")
	f.Add("any: !0\n  a: b\n00: 0\n")
	f.Add("a: &a [*a]\nb: {<<: *a}\n? c\n: |\n  d\n--- e\n")
	f.Add("\"\\x\": 'a''b'\n- >-\n\tz: 0x1_0\n.inf: .nan\n~: 1e999\n")
	f.Fuzz(func(t *testing.T, source string) {
		if _, err := ParseDocument([]byte(source)); err != nil && err.Message == "" {
			t.Error("ParseDocument: an error without a message")
		}
		if err := DecodeStrictly([]byte(source), &form{}); err != nil && err.Error() == "" {
			t.Error("DecodeStrictly: an error without a message")
		}
		var v any
		if DecodeDocument([]byte(source), &v) != nil {
			return
		}
		if text, err := json.Marshal(v); err == nil && len(text) > 1000+20*len(source) {
			t.Errorf("%d bytes expand to %d", len(source), len(text))
		}
	})
}
