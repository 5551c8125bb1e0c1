package catalog

import (
	"encoding/json"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestAddFlags checks the types of arguments that are written as flags.
func TestAddFlags(t *testing.T) {
	e := &Entry{Tool: &tool.Tool{InputSchema: json.RawMessage(`{"type":"object","properties":{
		"repo":{"type":"string"},"limit":{"type":"integer"},"issue_number":{"type":["integer","null"]},
		"ratio":{"type":"number"},"draft":{"type":"boolean"},"labels":{"type":"array","items":{"type":"string"}},
		"ids":{"type":"array","items":{"type":"integer"}},"where":{"type":"object"},"any":{},
		"state":{"enum":["open",3]},"level":{"anyOf":[{"type":"integer"},{"type":"null"}]},
		"tags":{"$ref":"#/$defs/tags"},"one_or_more":{"anyOf":[{"type":"string"},{"type":"array"}]}},
		"$defs":{"tags":{"type":"array","items":{"type":"string"}}}}`)}}
	text := func(s string) *string { return &s }
	for _, c := range []struct {
		args  string
		flags []Flag
		want  string
	}{
		{"", []Flag{{"repo", text("3")}, {"limit", text("3")}}, `{"repo":"3","limit":3}`},
		{`{"limit":1,"repo":"a"}`, []Flag{{"limit", text("2")}}, `{"repo":"a","limit":2}`},
		{"", []Flag{{"issue-number", text("12345678901234567890")}}, `{"issue_number":12345678901234567890}`},
		{"", []Flag{{"issueNumber", text("null")}}, `{"issue_number":null}`},
		{"", []Flag{{"draft", nil}, {"ratio", text("-1.5")}}, `{"draft":true,"ratio":-1.5}`},
		{"", []Flag{{"no-draft", nil}}, `{"draft":false}`},
		{"", []Flag{{"draft", text("false")}}, `{"draft":false}`},
		{"", []Flag{{"labels", text("a")}, {"repo", text("r")}, {"labels", text("2")}},
			`{"labels":["a","2"],"repo":"r"}`},
		{"", []Flag{{"labels", text("a")}}, `{"labels":["a"]}`},
		{"", []Flag{{"labels", text(`["a","b"]`)}}, `{"labels":["a","b"]}`},
		{"", []Flag{{"ids", text("1")}, {"ids", text("2")}}, `{"ids":[1,2]}`},
		{"", []Flag{{"tags", text("1")}}, `{"tags":["1"]}`},
		{"", []Flag{{"where", text(`{"a":1}`)}}, `{"where":{"a":1}}`},
		{"", []Flag{{"any", text("5")}, {"unknown", text("x")}}, `{"any":5,"unknown":"x"}`},
		{"", []Flag{{"state", text("open")}}, `{"state":"open"}`},
		{"", []Flag{{"level", text("7")}}, `{"level":7}`},
		{"", []Flag{{"one_or_more", text("a")}}, `{"one_or_more":"a"}`},
		{"", []Flag{{"one_or_more", text("a")}, {"one_or_more", text("b")}}, `{"one_or_more":["a","b"]}`},
		{"", []Flag{{"limit", text("many")}}, `{"limit":"many"}`},
		{"", []Flag{{"limit", text(`"3"`)}}, `{"limit":"\"3\""}`},
		{"[1]", []Flag{{"limit", text("3")}}, `[1]`},
	} {
		if got := e.addFlags(json.RawMessage(c.args), c.flags); string(got) != c.want {
			t.Errorf("%s with %+v: %s, want %s", c.args, c.flags, got, c.want)
		}
	}
}
