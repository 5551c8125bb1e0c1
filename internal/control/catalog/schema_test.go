package catalog_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

func entry(t testing.TB, schema string) *catalog.Entry {
	t.Helper()
	c := catalog.New(catalog.Config{})
	c.Set(catalog.Source{Name: "gh",
		Tools: []*tool.Tool{{Upstream: "gh", Name: "list", InputSchema: json.RawMessage(schema)}}})
	return c.View().Entries()[0]
}

const issues = `{"type":"object","additionalProperties":false,"required":["owner","repo"],"properties":{
	"owner":{"type":"string"},"repo":{"type":"string","minLength":1},
	"state":{"enum":["open","closed","all"]},
	"per_page":{"type":"integer","minimum":1,"maximum":100},
	"labels":{"type":"array","items":{"type":"string"},"uniqueItems":true},
	"since":{"type":["string","null"],"format":"date-time","pattern":"^(?=2)\\d"},
	"filter":{"anyOf":[{"type":"string"},{"type":"object","required":["field","op"],"properties":{"field":{"type":"string"},"op":{"enum":["eq","lt"]}},"additionalProperties":false}]},
	"shape":{"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},
		{"type":"object","properties":{"kind":{"const":"square"},"side":{"type":"number"}},"required":["kind","side"]}]},
	"big":{"type":"integer","maximum":9007199254740993},
	"tree":{"$ref":"#/$defs/node"}},
	"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["name"],"additionalProperties":false}}}`

func TestValidate(t *testing.T) {
	e := entry(t, issues)
	ok := `"owner":"a","repo":"b"`
	for _, test := range []struct{ args, want string }{
		{`{` + ok + `}`, ""},
		{`{` + ok + `,"since":"never","state":"all","labels":["x"],"filter":{"field":"f","op":"eq"},` +
			`"shape":{"kind":"circle","r":1.5},"big":9007199254740993,"tree":{"name":"n","children":[{"name":"m"}]}}`,
			""},
		{``, "- owner: missing; expected string\n- repo: missing; expected string"},
		{`null`, "they are one object with the arguments by name; got null"},
		{`[1]`, "got array of 1"},
		{`{"owner":"a","repository":"b"}`, "- repo: missing; expected string (given as \"repository\"?)\n- " +
			"repository: unknown argument; did you mean repo? allowed: big, filter, labels, owner, per_page, repo, " +
			"shape, since, state, tree"},
		{`{` + ok + `,"per_page":"ten"}`, `- per_page: expected integer; got string "ten"`},
		{`{` + ok + `,"per_page":101}`, `- per_page: must be at most 100; got 101`},
		{`{` + ok + `,"per_page":1.5}`, `- per_page: expected integer; got number 1.5`},
		{`{` + ok + `,"big":9007199254740994}`, `- big: must be at most 9007199254740993; got 9007199254740994`},
		{`{` + ok + `,"state":"opened"}`,
			`- state: expected one of "open", "closed", "all"; got string "opened" (did you mean "open"?)`},
		{`{` + ok + `,"labels":["a",2]}`, `- labels[1]: expected string; got number 2`},
		{`{` + ok + `,"labels":["a","a"]}`, `- labels: items 0 and 1 are the same, all must differ`},
		{`{` + ok + `,"labels":"a"}`, `- labels: expected array; got string "a"`},
		{`{` + ok + `,"since":5}`, `- since: expected null or string; got number 5`},
		{`{` + ok + `,"filter":3}`, `- filter: expected string or object with field, op; got number 3`},
		{`{` + ok + `,"filter":{"field":"x"}}`, `- filter.op: missing; expected one of "eq", "lt"`},
		{`{` + ok + `,"filter":{"field":"x","op":"gt"}}`, `- filter.op: expected one of "eq", "lt"; got string "gt"`},
		{`{` + ok + `,"shape":{"kind":"square","r":2}}`, `- shape.side: missing; expected number`},
		{`{` + ok + `,"tree":{"name":"n","children":[{"name":"m"},{"nam":"x"}]}}`,
			`- tree.children[1].nam: unknown member; did you mean name? allowed: children, name`},
		{`{"repo":"","owner":"x"}`, `- repo: must have at least 1 characters; got 0`},
		{`{"owner":"a","owner":"b","repo":"c"}`, `"owner" is given twice`},
		{`{"owner":"a"`, "the JSON ends too early"},
		{`{"owner":"a"} {}`, "there is more after the JSON value"},
		{`{` + ok + `,"big":1e999999999}`, "the number 1e999999999 is out of range"},
		{`{"owner":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "nested too deeply"},
		{`{` + ok + `,"a\nb":1,"c d":2}`, `- ["a\nb"]: unknown argument`},
	} {
		err := e.Validate(json.RawMessage(test.args))
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%.60s: %v", test.args, err)
		case test.want != "" &&
			(err == nil || kindOf(err) != tool.Invalid || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%.60s:\n got %v\nwant %s", test.args, err, test.want)
		case test.want != "" && !strings.HasPrefix(err.Error(), "wrong arguments for gh.list:"):
			t.Errorf("%.60s: %v", test.args, err)
		}
	}
}

func TestValidateManyProblems(t *testing.T) {
	var args []string
	for i := range 5000 {
		args = append(args, fmt.Sprintf("%q:1", fmt.Sprintf("%d%s", i, strings.Repeat("x", 200))))
	}
	err := entry(t, issues).Validate(json.RawMessage("{" + strings.Join(args, ",") + "}"))
	if n := strings.Count(err.Error(), "\n- "); n != 9 || len(err.Error()) > 5000 {
		t.Errorf("%d lines, %d bytes:\n%.3000s", n, len(err.Error()), err)
	}
}

func TestDrafts(t *testing.T) {
	for _, test := range []struct{ schema, good, bad string }{
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",` +
			`"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":["x"]}`,
			`{"a":["x",1]}`},
		// draft-07, undeclared
		{`{"type":"object","properties":{"a":{"items":[{"type":"string"}]}}}`, `{"a":["x"]}`, `{"a":[1]}`},
		// draft-04, undeclared
		{`{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`,
			`{"n":1}`, `{"n":0}`},
		// unknown
		{`{"$schema":"https://example.com/dialect","type":"object","properties":{"a":{"type":"string"}}}`,
			`{"a":"x"}`, `{"a":1}`},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",` +
			`"properties":{"a":{"prefixItems":[{"type":"string"}]}}}`, `{"a":[""]}`, `{"a":[1]}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"x":{"type":"string",` +
			`"format":"email"}},"properties":{"a":{"$ref":"#/definitions/x"}}}`, `{"a":"no mail"}`, `{"a":1}`},
		{`{"$id":"https://example.com/s.json","$defs":{"x":{"type":"string"}},"properties":{"a":{"$ref":"#/$defs/x"}}}`,
			`{"a":"x"}`, `{"a":1}`},
		{`true`, `{"a":1}`, `[]`},
		{`{}`, `{"a":1}`, `[]`},
	} {
		e := entry(t, test.schema)
		if err := e.Validate(json.RawMessage(test.good)); err != nil {
			t.Errorf("test.schema = %s, err = %v, want nil", test.schema, err)
		}
		if err := e.Validate(json.RawMessage(test.bad)); err == nil ||
			!strings.HasPrefix(err.Error(), "wrong arguments") {
			t.Errorf("%s takes %s: %v", test.schema, test.bad, err)
		}
	}
}

func TestBrokenSchemas(t *testing.T) {
	var bomb strings.Builder // each level doubles the work
	bomb.WriteString(`{"$ref":"#/$defs/a0","$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&bomb, `"a%d":{"anyOf":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, i+1, i+1)
	}
	bomb.WriteString(`"a60":{"required":["x"]}}}`)
	var bomb7 = `{"$schema":"http://json-schema.org/draft-07/schema#",` +
		strings.ReplaceAll(bomb.String()[1:], "anyOf", "oneOf")
	for name, schema := range map[string]string{
		"empty":                 ``,
		"no json":               `{`,
		"no schema":             `[1]`,
		"wrong type":            `{"type":"objekt"}`,
		"remote ref":            `{"$ref":"https://example.com/other.json"}`,
		"file ref":              `{"properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		"dangling ref":          `{"$ref":"#/$defs/none"}`,
		"endless ref":           `{"$ref":"#"}`,
		"exponential":           bomb.String(),
		"exponential, draft-07": bomb7,
		"deep":                  strings.Repeat(`{"properties":{"a":`, 200) + `{}` + strings.Repeat(`}}`, 200),
		"huge":                  `{"description":"` + strings.Repeat("x", 2<<20) + `"}`,
		"many values":           `{"enum":[` + strings.Repeat("1,", 50000) + `1]}`,
		"huge number":           `{"minimum":1e999999}`,
	} {
		e := entry(t, schema)
		for range 2 {
			err := e.Validate(json.RawMessage(`{"a":1}`))
			want := tool.Invalid
			if strings.HasPrefix(name, "exponential") {
				want = tool.Limit
			}
			if kindOf(err) != want || !strings.Contains(err.Error(), "gh.list") || len(err.Error()) > 1000 {
				t.Errorf("%s, err = %v, want kindOf(err) == want && strings.Contains(err.Error(), "+
					"\"gh.list\") && len(err.Error()) <= 1000", name, err)
			}
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(issues, `{"owner":"a","repository":1,"filter":{},"shape":[],"labels":[1,1],"tree":{"children":[{}]}}`)
	f.Add(`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"]},`+
		`"patternProperties":{"^x":false},"not":{"required":["z"]}}`, `{"a":1,"x1":2,"z":3}`)
	f.Add(`{"propertyNames":{"maxLength":2},"minProperties":3,"unevaluatedProperties":false}`, `{"abc":1e400}`)
	f.Add(`{"properties":{"a":{"contains":{"const":1},"prefixItems":[true],"items":false,"multipleOf":0.1}}}`,
		`{"a":[2,{}]}`)
	f.Fuzz(func(t *testing.T, schema, args string) {
		err := entry(t, schema).Validate(json.RawMessage(args))
		if err == nil {
			if s := strings.TrimSpace(args); s != "" && s[0] != '{' {
				t.Fatalf("took %q", args)
			}
			return
		}
		if kind := kindOf(err); kind != tool.Invalid && kind != tool.Limit || len(err.Error()) > 6000 {
			t.Fatalf("error of kind %q with %d bytes: %.300s", kindOf(err), len(err.Error()), err)
		}
	})
}
