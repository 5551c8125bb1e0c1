package typegen_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

// parse fails the test if source isn't valid TypeScript.
func parse(t interface{ Fatalf(string, ...any) }, source string) {
	r := api.Transform(source, api.TransformOptions{Loader: api.LoaderTS, LogLevel: api.LogLevelSilent})
	if len(r.Errors) > 0 {
		e := r.Errors[0]
		t.Fatalf("not TypeScript: %s at line %d: %s\n%s", e.Text, e.Location.Line, e.Location.LineText, source)
	}
	if strings.Contains(string(r.Code), "evil") {
		t.Fatalf("code got out of its place:\n%s\nfrom\n%s", r.Code, source)
	}
}

// sigParse checks a signature. Its types come after it, so it is rewritten as an interface up to
// the first of them.
func sigParse(t interface{ Fatalf(string, ...any) }, code string) {
	if !strings.HasPrefix(code, "up.member") {
		t.Fatalf("signature doesn't begin with the call: %s", code)
	}
	head, types, more := strings.Cut(strings.TrimPrefix(code, "up."), "\ntype ")
	if more {
		types = "\ntype " + types
	}
	head, comment, _ := strings.Cut(head, "\n// cut")
	_ = comment
	parse(t, "interface Tools { "+head+" }"+types)
}

func TestWrittenForAnySchema(t *testing.T) { rapid.Check(t, checkWritten) }

// FuzzSchemas does the same with schemas that the fuzzer finds.
func FuzzSchemas(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkWritten)) }

func checkWritten(t *rapid.T) {
	in, out := schemas().Draw(t, "in"), schemas().Draw(t, "out")
	tl := &tool.Tool{Upstream: "up", Name: "member", Description: "*/ evil() /*", InputSchema: in, OutputSchema: out}
	n := typegen.Names{Namespace: "up", Member: "member"}
	file := typegen.File(tl, n)
	parse(t, file)
	code, example, note := typegen.Signature(typegen.Item{Tool: tl, Names: n})
	sigParse(t, code)
	parse(t, "async function f(up: any) { "+example+"\n}")
	if note != "" {
		t.Fatalf("note for a declared result: %s", note)
	}
	if len(code) > 2_100 {
		t.Fatalf("signature of %d bytes", len(code))
	}
	if again := typegen.File(tl, n); again != file {
		t.Fatalf("not deterministic:\n%s\n%s", file, again)
	}
	items := []typegen.Item{{Tool: tl, Names: n}}
	stub := typegen.PythonTree(items)["tools/up/__init__.pyi"]
	if again := typegen.PythonTree(items)["tools/up/__init__.pyi"]; again != stub || !utf8.ValidString(stub) ||
		len(stub) > 2<<20 {
		t.Fatalf("stub of %d bytes:\n%s\n%s", len(stub), stub, again)
	}
}

// TestExampleValidates checks examples with an independent, strict validator.
func TestExampleValidates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := schemas().Draw(t, "schema")
		v, err := typegen.Sample(s)
		if err != nil {
			t.Fatalf("no example: %v\n%s", err, s)
		}
		validate(t, s, v)
	})
}

func validate(t interface{ Fatalf(string, ...any) }, schema, value json.RawMessage) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema))
	if err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(nil)
	if err := c.AddResource("mem:///s.json", doc); err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	sch, err := c.Compile("mem:///s.json")
	if err != nil {
		if strings.Contains(err.Error(), "regex") {
			return // \u escapes are ECMAScript's
		}
		t.Fatalf("err = %v, schema = %s, want err == nil", err, schema)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("err = %v, want nil", err)
	}
	if err := sch.Validate(v); err != nil {
		t.Fatalf("example %s doesn't validate: %v\n%s", value, err, schema)
	}
}

func TestExample(t *testing.T) {
	tests := []struct{ schema, want string }{
		{`{"type":"object","properties":{"n":{"type":"integer","exclusiveMinimum":9007199254740992}},"required":["n"]}`,
			`{"n":9007199254740993}`},
		{`{"type":"object","properties":{"x":{"type":"number","multipleOf":0.01,"minimum":0.015}},"required":["x"]}`,
			`{"x":1}`},
		{`{"type":"object","properties":{"x":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}},` +
			`"required":["x"]}`, `{"x":0.75}`},
		{`{"type":"object","properties":{"a":{"type":"string","examples":["from the schema"]}},"required":["a"]}`,
			`{"a":"from the schema"}`},
		{`{"type":"object","properties":{"a":{"type":"string","examples":[5],"default":"d"}},"required":["a"]}`,
			`{"a":"d"}`},
		{`{"type":"object","properties":{"a":{"type":"string","description":"A city, e.g. \"Oslo\""}},"required":["a"]}`, `{"a":"Oslo"}`},
		{`{"type":"object","properties":{"a":{"type":"string","examples":["no"],"minLength":5}},"required":["a"]}`,
			`{"a":"aabcd"}`},
		{`{"type":"object","properties":{"tags":{"type":"array","items":{"enum":["a","b","c"]},"minItems":3,` +
			`"uniqueItems":true}},"required":["tags"]}`, `{"tags":["a","b","c"]}`},
		{`{"type":"object","properties":{"to":{"type":"array","items":{"type":"string","format":"email"},` +
			`"minItems":2}},"required":["to"]}`, `{"to":["ann@example.com","bob@example.com"]}`},
		{`{"type":"object","required":["k"],"properties":{"k":{"const":"a"},"v":{"type":"integer"}},` +
			`"if":{"properties":{"k":{"const":"a"}}},"then":{"required":["v"]}}`, `{"k":"a","v":1}`},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"boolean"}},` +
			`"dependentRequired":{"a":["b"]}}`, `{"a":"a","b":true}`},
		{`{"type":"object","minProperties":2,"additionalProperties":{"type":"integer"}}`, `{"key":1,"keyy":2}`},
		{`{"type":"object","anyOf":[{"required":["id"]},{"required":["name"]}],"properties":{"id":{"type":"string"},` +
			`"name":{"type":"string"}}}`, `{"id":"123"}`},
		{`{"anyOf":[{"not":{}},{"type":"object","properties":{"b":{"type":"null"}},"required":["b"]}]}`, `{"b":null}`},
		{`{"type":"object","properties":{"p":{"type":"string","pattern":"^[a-f0-9]{8}$"}},"required":["p"]}`,
			`{"p":"abcdefaa"}`},
		{`{"type":"object","properties":{"t":{"items":[{"type":"string"},{"type":"integer"}]}},"required":["t"]}`,
			`{"t":["t",2]}`},
		{`{"$ref":"#/definitions/X","definitions":{"X":{"type":"object","required":["self"],` +
			`"properties":{"self":{"anyOf":[{"$ref":"#/definitions/X"},{"type":"null"}]}}}}}`, `{"self":null}`},
		{`true`, `"example"`},
	}
	for _, tt := range tests {
		got, err := typegen.Sample(json.RawMessage(tt.schema))
		if err != nil || string(got) != tt.want {
			t.Errorf("Sample(%s) = %s, %v; want %s", tt.schema, got, err, tt.want)
		}
	}
}

// TestNoExample checks that an unsatisfiable schema, or one that can't be checked, returns an error
// that says so.
func TestNoExample(t *testing.T) {
	for _, s := range []string{
		`false`,
		`{"type":"object","required":["a"],"properties":{"a":false}}`,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string","pattern":"^(?=.*[a-z])(?=.*[0-9]).{8,}$"}}}`,
		`{"type":"object","required":["a"],"properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		`{"type":"object","required":["self"],"properties":{"self":{"$ref":"#"}}}`,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"string","minLength":100000000}}}`,
		`{"type":"object","required":["a"],"properties":{"a":{"type":"array","minItems":100000000}}}`,
		`{"type":"wrong"}`, `{`, ``, `[]`,
	} {
		v, err := typegen.Sample(json.RawMessage(s))
		if err == nil {
			t.Errorf("Sample(%s) = %s, want an error", s, v)
		} else if e := tool.AsError(err); e.Kind != tool.Invalid {
			t.Errorf("Sample(%s): kind %s of %v", s, e.Kind, err)
		}
	}
}

// TestUnchecked checks that an example that could not be checked says so.
func TestUnchecked(t *testing.T) {
	tl := &tool.Tool{Upstream: "u", Name: "t", InputSchema: json.RawMessage(
		`{"type":"object","required":["a","b"],"properties":{"a":{"type":"string"},"b":{"type":"string",` +
			`"not":{"type":"string"}}}}`)}
	_, example, _ := typegen.Signature(typegen.Item{Tool: tl, Names: typegen.Names{Namespace: "u", Member: "t"}})
	if !strings.Contains(example, "not checked against the schema: /b") {
		t.Errorf(`example = %v, want strings.Contains(example, "not checked against the schema: /b")`, example)
	}
}

// TestBounds checks that schemas made to be expensive are cut, not followed.
func TestBounds(t *testing.T) {
	var laughs strings.Builder
	laughs.WriteString(`{"type":"object","properties":{"x":{"$ref":"#/$defs/d0"}},"required":["x"],"$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&laughs, `"d%d":{"type":"object","required":["a","b"],"properties":{"a":{"$ref":"#/$defs/d%d"},`+
			`"b":{"$ref":"#/$defs/d%d"}}},`, i, i+1, i+1)
	}
	laughs.WriteString(`"d60":{"type":"string"}}}`)
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, 60) + `{}` + strings.Repeat(`}}`, 60)
	deeper := strings.Repeat(`{"items":`, 5000) + `{}` + strings.Repeat(`}`, 5000)
	var wide strings.Builder
	wide.WriteString(`{"type":"object","properties":{"p":{}`)
	for i := range 15_000 {
		fmt.Fprintf(&wide, `,"property_%d":{"enum":["a%d","b"]}`, i, i)
	}
	wide.WriteString(`}}`)
	var arms []string
	for i := range 40 {
		arms = append(arms, fmt.Sprintf(`{"type":"object","properties":{"k%d":{"type":"string"}},"required":["k%d"]}`,
			i, i))
	}
	union := `{"oneOf":[` + strings.Join(arms, ",") + `]}`
	product := `{"allOf":[` + strings.Repeat(union+",", 20) + union + `]}`
	exponent := `{"type":"object","required":["n"],"properties":{"n":{"type":"number","minimum":1e999999}}}`
	chain := `{"$ref":"#/$defs/c0","$defs":{"end":{"type":"string"}`
	for i := range 3000 {
		chain += fmt.Sprintf(`,"c%d":{"$ref":"#/$defs/c%d"}`, i, i+1)
	}
	chain += `,"c3000":{"type":"object"}}}`
	for name, s := range map[string]string{"laughs": laughs.String(), "deep": deep, "deeper": deeper,
		"wide":    wide.String(),
		"product": product, "exponent": exponent, "chain": chain,
		"huge": `{"description":"` + strings.Repeat("x", 2<<20) + `"}`} {
		t.Run(name, func(t *testing.T) {
			tl := &tool.Tool{Upstream: "up", Name: "member", InputSchema: json.RawMessage(s),
				OutputSchema: json.RawMessage(s)}
			n := typegen.Names{Namespace: "up", Member: "member"}
			file := typegen.File(tl, n)
			if len(file) > 3<<20 {
				t.Errorf("a file of %d bytes", len(file))
			}
			parse(t, file)
			code, _, _ := typegen.Signature(typegen.Item{Tool: tl, Names: n})
			if len(code) > 2_100 {
				t.Errorf("a signature of %d bytes", len(code))
			}
			sigParse(t, code)
		})
	}
}

func TestTreePaths(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	item := func(ns, member string) typegen.Item {
		return typegen.Item{Tool: &tool.Tool{Upstream: ns, Name: member, InputSchema: schema},
			Names: typegen.Names{Namespace: ns, Member: member}}
	}
	items := []typegen.Item{item("a", "get"), item("a", "Get"), item("b", "get"), item("B", "get"), item("a", "index"),
		item("a", "delete"),
		item("a", "callTool"), item("a", "../x"), item("a", "con"), item("日本", "語")}
	tree := typegen.Tree(items)
	folded := map[string]string{}
	for p, text := range tree {
		if old, dup := folded[strings.ToLower(p)]; dup {
			t.Errorf("%s and %s are the same on some systems", p, old)
		}
		folded[strings.ToLower(p)] = p
		if !strings.HasPrefix(p, "tools/") || strings.Contains(p, "..") {
			t.Errorf("path %q", p)
		}
		if strings.HasSuffix(p, ".ts") {
			parse(t, text)
		}
	}
	for _, p := range []string{"tools/a/index.ts", "tools/a/index_.ts", "tools/a/delete.ts", "tools/a/con_.ts",
		"tools/日本/語.ts", "tools/lib.globals.d.ts"} {
		if tree[p] == "" {
			t.Errorf("no %s", p)
		}
	}
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	if again := typegen.Tree(items); !reflect.DeepEqual(tree, again) {
		t.Error("the tree depends on the order of the tools")
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#"}}}`), "name", "*/ evil() /*")
	f.Add([]byte(`{"enum":["*/",1e999,-0,1.5,null,{"a":[1]}],"description":"\u2028*/"}`), "__proto__", "@ts-ignore")
	f.Add([]byte(`{"allOf":[{"$ref":"#/allOf/0"},{"anyOf":[true,false,{"type":["string",7]}]}]}`), "delete", "")
	f.Add([]byte(`{"items":[{"type":"integer","format":"int64"}],"additionalItems":{"nullable":true,"type":"string"}}`),
		"a b", "\x00\xff")
	f.Add([]byte(`{"$id":"http://x/","$defs":{"a":{"$anchor":"b","pattern":"(*/"}},"$ref":"#b"}`), "日本", "\r\n*\r/")
	f.Fuzz(func(t *testing.T, schema []byte, name, doc string) {
		if strings.Contains(string(schema)+name, "evil") {
			return // only the description may contain it
		}
		tl := &tool.Tool{Upstream: "up", Name: name, Description: doc, InputSchema: schema, OutputSchema: schema}
		n := typegen.Names{Namespace: "up", Member: "member"}
		parse(t, typegen.File(tl, n))
		parse(t, typegen.File(tl, typegen.Names{Namespace: "up", Member: name}))
		code, example, _ := typegen.Signature(typegen.Item{Tool: tl, Names: n})
		sigParse(t, code)
		parse(t, "async function f(up: any) { "+example+"\n}")
		if v, err := typegen.Sample(schema); err == nil && !json.Valid(v) {
			t.Fatalf("example %q", v)
		}
	})
}

func BenchmarkSignature1000(b *testing.B) {
	bench(b, func(it typegen.Item) { typegen.Signature(it) })
}

// manyTypes returns a tool whose result leads from type to type, 500 times, and then has a field of
// another type.
func manyTypes() *tool.Tool {
	var s strings.Builder
	s.WriteString(`{"type":"object","properties":{"first":{"$ref":"#/$defs/S0"},"last":{"$ref":"#/$defs/Last"}},` +
		`"$defs":{"Last":{"type":"object","properties":{"near":{"type":"boolean"}}}`)
	for i := range 500 {
		fmt.Fprintf(&s, `,"S%d":{"type":"object","properties":{"next":{"$ref":"#/$defs/S%d"},"name":{"type":"string",`+
			`"description":%q}}}`, i, (i+1)%500, strings.Repeat("the name of it ", 20))
	}
	s.WriteString("}}")
	return &tool.Tool{Upstream: "a", Name: "b", InputSchema: json.RawMessage(`{"type":"object"}`),
		OutputSchema: json.RawMessage(s.String())}
}

// TestSignatureOfManyTypes checks that a signature shows the types nearest to its root, also if an
// earlier field leads to many types. The file has all of them.
func TestSignatureOfManyTypes(t *testing.T) {
	it := typegen.Item{Tool: manyTypes()}
	code, _, _ := typegen.Signature(it)
	if !strings.Contains(code, "near") || !strings.Contains(code, "// cut: all of it is in") {
		t.Errorf("signature:\n%s\nwant the type of last, and that it is cut", code)
	}
	if all := typegen.File(it.Tool, it.Names); strings.Count(all, "next?:") != 500 {
		t.Errorf("the file has %d of 500 types", strings.Count(all, "next?:"))
	}
}

// TestSignatureOfSmallTypes checks that a signature shows small types that fit into it.
func TestSignatureOfSmallTypes(t *testing.T) {
	var refs, types strings.Builder
	for i := range 90 {
		fmt.Fprintf(&refs, `,"p%d":{"$ref":"#/$defs/T%d"}`, i, i)
		fmt.Fprintf(&types, `,"T%d":{"type":"integer"}`, i)
	}
	code, _, _ := typegen.Signature(typegen.Item{Tool: &tool.Tool{Upstream: "a", Name: "b",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"first":true` + refs.String() +
			`},"$defs":{"None":true` + types.String() + `}}`)}})
	if strings.Count(code, "?: number;") != 90 {
		t.Errorf("signature:\n%s\nwant 90 numbers", code)
	}
}

// TestUnreadableType checks that a type that can't be read costs only itself.
func TestUnreadableType(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 200) + "true" + strings.Repeat("}", 200)
	code, _, _ := typegen.Signature(typegen.Item{Tool: &tool.Tool{Upstream: "a", Name: "b",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"x":{"$ref":"#/$defs/Deep"},` +
			`"y":{"$ref":"#/$defs/Y"}},"$defs":{"Deep":` + deep + `,"Y":{"type":"boolean"}}}`)}})
	if !strings.Contains(code, "x?: unknown") || !strings.Contains(code, "y?: boolean") {
		t.Errorf("signature:\n%s\nwant x unknown and y a boolean", code)
	}
}

// BenchmarkSignatureOfManyTypes writes the signature of a tool whose result leads to 500 types.
func BenchmarkSignatureOfManyTypes(b *testing.B) {
	it := typegen.Item{Tool: manyTypes()}
	b.SetBytes(int64(len(it.Tool.OutputSchema)))
	for b.Loop() {
		typegen.Signature(it)
	}
}

func BenchmarkFile1000(b *testing.B) {
	bench(b, func(it typegen.Item) { typegen.File(it.Tool, it.Names) })
}
func BenchmarkTree1000(b *testing.B) {
	items := benchItems()
	for b.Loop() {
		typegen.Tree(items)
	}
}

func bench(b *testing.B, f func(typegen.Item)) {
	items := benchItems()
	for b.Loop() {
		for _, it := range items {
			f(it)
		}
	}
}

// benchItems returns 1,000 tools of typical size.
func benchItems() []typegen.Item {
	var items []typegen.Item
	for i := range 1000 {
		in := fmt.Sprintf(`{"type":"object","required":["repo","n"],"properties":{"repo":{"type":"string","description":"Owner and name"},
			"n":{"type":"integer","minimum":%d},"state":{"enum":["open","closed"],"default":"open"},"labels":{"type":"array","items":{"type":"string"}},
			"since":{"type":"string","format":"date-time","description":"Only what changed since"}}}`, i)
		out := `{"type":"object","required":["items"],"properties":{"items":{"type":"array","items":{"$ref":"#/$defs/I"}}},
			"$defs":{"I":{"type":"object","properties":{"id":{"type":"integer"},"title":{"type":"string"},"user":{"type":"object","properties":{"login":{"type":"string"}}}}}}}`
		items = append(items, typegen.Item{
			Tool: &tool.Tool{Upstream: "up", Name: fmt.Sprintf("tool-%d", i), Description: "Does a thing.",
				InputSchema: json.RawMessage(in), OutputSchema: json.RawMessage(out)},
			Names: typegen.Names{Namespace: "up", Member: fmt.Sprintf("tool_%d", i)},
		})
	}
	return items
}

// An argument that is required and has a default is optional, because the gateway fills it in. In a
// result it is always present.
func TestRequiredDefault(t *testing.T) {
	s := json.RawMessage(`{"type":"object","properties":{"url":{"type":"string"},"full":{"type":"boolean",` +
		`"default":false}},"required":["url","full"],"additionalProperties":false}`)
	code, _, _ := typegen.Signature(typegen.Item{
		Tool:  &tool.Tool{Upstream: "up", Name: "member", InputSchema: s, OutputSchema: s},
		Names: typegen.Names{Namespace: "up", Member: "member"}})
	args, result, _ := strings.Cut(code, "):")
	if !strings.Contains(args, "full?: boolean") || !strings.Contains(result, "full: boolean") {
		t.Errorf("code = %v, want strings.Contains(args, \"full?: boolean\") && "+
			"strings.Contains(result, \"full: boolean\")", code)
	}
}

// TestMergeOddKeywords checks that branches of an allOf with draft 7 tuples or invalid keywords are
// ignored, and the usable branches apply.
func TestMergeOddKeywords(t *testing.T) {
	for schema, want := range map[string]string{
		`{"allOf":[{"items":[{"type":"string","enum":["x"]}]},{"items":[{"type":"string"}]}],"type":"array",` +
			`"minItems":1}`: `["x"]`,
		`{"allOf":[{"properties":{"b":{"const":7}}},{"properties":["a"]}],"type":"object","required":["b"]}`: `b: 7`,
	} {
		in := json.RawMessage(`{"type":"object","required":["p"],"properties":{"p":` + schema + `}}`)
		_, example, _ := typegen.Signature(typegen.Item{
			Tool:  &tool.Tool{Upstream: "up", Name: "member", InputSchema: in},
			Names: typegen.Names{Namespace: "up", Member: "member"}})
		if !strings.Contains(example, want) {
			t.Errorf("%s: the example is %s, want it to hold %s", schema, example, want)
		}
	}
}
