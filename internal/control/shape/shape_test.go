package shape

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/third_party/jsonschema"
)

// accepts reports whether s describes a value, decoded with UseNumber.
func (s *Shape) accepts(v any) bool {
	if s.Kinds&Any != 0 {
		return true
	}
	switch v := v.(type) {
	case nil:
		return s.Kinds&Null != 0
	case bool:
		return s.Kinds&Boolean != 0
	case string:
		return s.Kinds&String != 0
	case json.Number:
		return s.Kinds&Number != 0 || s.Kinds&Integer != 0 && !strings.ContainsAny(string(v), ".eE")
	case []any:
		for _, item := range v {
			if !s.Partial && (s.Items == nil || !s.Items.accepts(item)) {
				return false
			}
		}
		return s.Kinds&Array != 0
	case map[string]any:
		for name, member := range v {
			f := s.Fields[name]
			switch {
			case f != nil && !f.accepts(member),
				f == nil && s.Values != nil && !s.Partial && !s.Values.accepts(member),
				f == nil && s.Values == nil && !s.Partial:
				return false
			}
		}
		for name, f := range s.Fields {
			if _, ok := v[name]; !ok && !f.Optional {
				return false
			}
		}
		return s.Kinds&Object != 0
	}
	return false
}

func decode(t interface{ Fatalf(string, ...any) }, raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("decode %s: %v", raw, err)
	}
	return v
}

// names are names of members: of fields, and of data.
var names = []string{"id", "title", "created_at", "owner", "open", "tags", "Content-Type", "@odata.context", "alice",
	"bob", "carol", "ann@example.com", "2026-01-31", "0f3a9b1c44d7", "Ann Smith", "", "a.b", "+1"}

// drawValue draws a JSON value.
func drawValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 8
		if depth > maxDepth+1 {
			kinds = 6
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return nil
		case 1:
			return rapid.Bool().Draw(t, "bool")
		case 2:
			return rapid.Int().Draw(t, "int")
		case 3:
			return rapid.Float64Range(-1e6, 1e6).Draw(t, "float")
		case 4, 5:
			return rapid.String().Draw(t, "string")
		case 6:
			return rapid.SliceOfN(drawValue(depth+1), 0, 4).Draw(t, "items")
		}
		return rapid.MapOfN(rapid.SampledFrom(names), drawValue(depth+1), 0, 5).Draw(t, "members")
	})
}

// TestShapeDescribesItsValues merges the shapes of random values. The result must describe all of
// them, as must its JSON Schema, and survive storing. An independent validator checks the schema.
func TestShapeDescribesItsValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s *Shape
		var all []any
		for range rapid.IntRange(1, 5).Draw(t, "results") {
			raw, err := json.Marshal(drawValue(0).Draw(t, "value"))
			if err != nil {
				t.Fatalf("Marshal: %v", err)
			}
			one, err := ReadShape(raw)
			if err != nil {
				t.Fatalf("ReadShape(%s): %v", raw, err)
			}
			s = MergeShapes(s, one)
			all = append(all, decode(t, raw))
		}
		data, err := EncodeObservation(Observation{Version: 1, Results: len(all), Shape: s})
		if err != nil {
			t.Fatalf("EncodeObservation: %v", err)
		}
		back, err := ParseObservation(data)
		if err != nil || !back.Shape.isEqual(s) {
			t.Fatalf("ParseObservation(%s) = %+v, %v; want what was encoded", data, back, err)
		}
		schema := compile(t, s)
		for _, v := range all {
			if !s.accepts(v) {
				t.Fatalf("%s does not describe %v", data, v)
			}
			if err := schema.Validate(v); err != nil {
				t.Fatalf("the schema of %s rejects %v: %v", data, v, err)
			}
		}
		if again := MergeShapes(s, s); !MergeShapes(again, s).isEqual(again) {
			t.Fatalf("merging %s with itself never ends", data)
		}
	})
}

func compile(t interface{ Fatalf(string, ...any) }, s *Shape) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", decode(t, s.EncodeSchema())); err != nil {
		t.Fatalf("AddResource: %v", err)
	}
	out, err := c.Compile("s.json")
	if err != nil {
		t.Fatalf("compile %s: %v", s.EncodeSchema(), err)
	}
	return out
}

// observe merges the shapes of results.
func observe(t *testing.T, results ...string) *Shape {
	t.Helper()
	var s *Shape
	for _, r := range results {
		one, err := ReadShape(json.RawMessage(r))
		if err != nil {
			t.Fatalf("ReadShape(%.100s): %v", r, err)
		}
		s = MergeShapes(s, one)
	}
	return s
}

func TestSchema(t *testing.T) {
	for _, test := range []struct {
		name    string
		results []string
		want    string
	}{
		{"no field is shown after one result", []string{`[{"id":1},{"id":2}]`},
			`{"type":["array"],"items":{"type":["object"]}}`},
		{"fields of two results", []string{`{"id":1,"title":"a"}`, `{"id":2,"title":null}`},
			`{"type":["object"],"properties":{"id":{"type":["integer"]},"title":{"type":["string","null"]}},` +
				`"required":["id","title"]}`},
		{"an optional field", []string{`{"id":1,"n":1}`, `{"id":2,"n":1.5}`, `{"id":3}`},
			`{"type":["object"],"properties":{"id":{"type":["integer"]},"n":{"type":["number"]}},"required":["id"]}`},
		{"a field of one of three results", []string{`{"id":1}`, `{"id":2,"rare":1}`, `{"id":3}`},
			`{"type":["object"],"properties":{"id":{"type":["integer"]}},"required":["id"]}`},
		{"texts", []string{`"a"`, `"b"`}, `{"type":["string"]}`},
		{"a text or an object", []string{`"a"`, `{"id":1}`, `{"id":1}`},
			`{"type":["object","string"],"properties":{"id":{"type":["integer"]}},"required":["id"]}`},
		{"keys that are e-mail addresses", []string{`{"ann@example.com":3}`, `{"ann@example.com":3}`},
			`{"type":["object"],"additionalProperties":{"type":["integer"]}}`},
		{"keys that are dates", []string{`{"2026-01-31":{"n":1}}`, `{"2026-02-01":{"n":1}}`},
			`{"type":["object"],"additionalProperties":{"type":["object"],"properties":{"n":` +
				`{"type":["integer"]}},"required":["n"]}}`},
		{"keys that are names of people", []string{`{"ann":3,"bob":1}`, `{"carol":3,"dave":1}`, `{"ann":3,"carol":4}`},
			`{"type":["object"],"additionalProperties":{"type":["integer"]}}`},
		{"people with the same fields", []string{`{"ann":{"n":1},"bob":{"n":2},"carol":{"n":3},"dave":{"n":4}}`},
			`{"type":["object"],"additionalProperties":{"type":["object"]}}`},
		{"empty ones", []string{`{"a":[],"b":{}}`, `{"a":[],"b":{}}`},
			`{"type":["object"],"properties":{"a":{"type":["array"]},"b":{"type":["object"]}},"required":["a","b"]}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := string(observe(t, test.results...).EncodeSchema()); got != test.want {
				t.Errorf("the schema is\n%s, want\n%s", got, test.want)
			}
		})
	}
}

// TestNoData checks that neither values nor names that are data are in what is stored.
func TestNoData(t *testing.T) {
	for _, result := range []string{
		`{"secret value":1}`, `{"a":"secret value"}`, `[["secret value"]]`, `"secret value"`,
		`{"secret@value.org":[1]}`,
		`{"kept":{"secret-2026-11-23":{"deep":true}}}`, `{"secret/value":1}`, `{"x":{"secret.value.pdf":"x"}}`,
		`{"secret0f3a9b1c44d7":1}`, `{"` + strings.Repeat("secret", 20) + `":1}`, `{"sécret":1}`, `{"secret\u0000":1}`,
		`{"a1b2c3secret":1}`, `{"4secret":1}`,
	} {
		data, err := EncodeObservation(Observation{Version: 1, Results: 2, Shape: observe(t, result, result)})
		if err != nil {
			t.Fatalf("EncodeObservation: %v", err)
		}
		if bytes.Contains(data, []byte("secret")) || bytes.Contains(data, []byte("cret")) {
			t.Errorf("%s of %s, want no data in it", data, result)
		}
	}
}

func TestFieldNames(t *testing.T) {
	for _, name := range []string{"id", "created_at", "Content-Type", "@odata.context", "@type", "$ref", "_links",
		"sha256",
		"line1", "address_line2", "iso8601", "x1_y2", "aB"} {
		if !isFieldName(name) {
			t.Errorf("isFieldName(%q) = false, want true", name)
		}
	}
	for _, name := range []string{"", "@", "ann@example.com", "README.md", "2026", "user_20261", "10.0.0.1",
		"a b", "a/b",
		"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "f81d4fae-7dec-11d0", "-x", "a1b2c3", "Größe", "x\u202e"} {
		if isFieldName(name) {
			t.Errorf("isFieldName(%q) = true, want false", name)
		}
	}
}

// TestBounds checks that shapes stay small, whatever the values are, and still describe them.
func TestBounds(t *testing.T) {
	member := func(format string, n int) string {
		var parts []string
		for i := range n {
			name := string([]byte{'a' + byte(i/26/26%26), 'a' + byte(i/26%26), 'a' + byte(i%26)})
			parts = append(parts, `"`+name+`":`+fmt.Sprintf(format, i))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	wide := func(i int) string { return member(`{"x`+fmt.Sprint(i)+`":%d,"y":"s","z":[1]}`, maxFields) }
	for name, results := range map[string][]string{
		"depth":            {strings.Repeat(`[`, 5000) + strings.Repeat(`]`, 5000)},
		"depth of objects": {strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat(`}`, 5000)},
		"fields":           {member("%d", 2000)},
		"fields of two":    {wide(1), wide(2)},
		"fields of fields": {`{"a":` + member("[[%d]]", 100) + `,"b":` + member(`[{"k":%d}]`, 100) +
			`,"c":` + member(`"%d"`, 100) + `}`},
		"different documents": {`{"a":1}`, `{"b":"x"}`, `{"c":[1]}`, `{"d":{"e":1}}`, `[1]`, `"x"`, `1.5`, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			s := observe(t, results...)
			data, err := EncodeObservation(Observation{Version: 1, Results: 1, Shape: s})
			if err != nil {
				t.Fatalf("EncodeObservation: %v", err)
			}
			if _, err := ParseObservation(data); err != nil {
				t.Errorf("ParseObservation: %v, want what is stored to be readable", err)
			}
			if n := s.countNodes(); n > maxNodes {
				t.Errorf("%d nodes, want at most %d", n, maxNodes)
			}
			for _, r := range results {
				if !s.accepts(decode(t, []byte(r))) {
					t.Errorf("%s does not describe %.200s", data, r)
				}
			}
		})
	}
}

// TestLargestIsStored checks that the largest Shape can be stored and read.
func TestLargestIsStored(t *testing.T) {
	s := &Shape{Kinds: Object, Fields: map[string]*Field{}}
	for i := range maxNodes - 1 {
		if i%maxFields == 0 {
			name := fmt.Sprintf("%c%s", 'a'+i/maxFields, strings.Repeat("n", maxName-1))
			s.Fields[name] = &Field{Optional: true, Results: 2,
				Shape: Shape{Kinds: Object | Array | String, Fields: map[string]*Field{}}}
		}
	}
	for _, f := range s.Fields {
		for i := range maxFields - 2 {
			name := fmt.Sprintf("%c%c%s", 'a'+i/26, 'a'+i%26, strings.Repeat("n", maxName-2))
			f.Fields[name] = &Field{Optional: true, Results: 2,
				Shape: Shape{Kinds: []Kinds{Object, Array | Object}[i%2], Partial: true}}
		}
	}
	data, err := EncodeObservation(Observation{Version: 1, Results: 1, Shape: s, Digest: strings.Repeat("0", 64)})
	if err != nil {
		t.Fatalf("EncodeObservation: %v", err)
	}
	if _, err := ParseObservation(data); err != nil {
		t.Errorf("ParseObservation of %d bytes, %d nodes: %v, want no error", len(data), s.countNodes(), err)
	}
}

// TestLargeValues checks that only the beginning of a large value is read, and that its Shape says
// so.
func TestLargeValues(t *testing.T) {
	item := `{"id":1,"title":"` + strings.Repeat("x", 1000) + `"}`
	many := `{"items":[` + strings.Repeat(item+",", 1000) + `{"late":true}],"next":null}`
	numbers := `[` + strings.Repeat("1,", maxRead) + `"text"]`
	for name, value := range map[string]string{"long": many, "many": numbers,
		"a text":              `"` + strings.Repeat("x", 1<<20) + `"`,
		"a number at the end": `[` + strings.Repeat(" ", maxBytes-2) + `1.5]`,
		"a name at the end":   `{"a":1,` + strings.Repeat(" ", maxBytes-8) + `"b":1}`,
		"a text at the end":   `{"a":1,` + strings.Repeat(" ", maxBytes-9) + `"b":1}`} {
		t.Run(name, func(t *testing.T) {
			s := observe(t, value)
			if !s.accepts(decode(t, []byte(value))) {
				t.Errorf("%s does not describe the value", s.EncodeSchema())
			}
			if name != "a text" && !s.Partial {
				t.Error("the Shape is complete, want it to be partial")
			}
		})
	}
	s := observe(t, many, many)
	if got := slices.Sorted(maps.Keys(s.Fields["items"].Items.Fields)); !slices.Equal(got, []string{"id", "title"}) {
		t.Errorf("the items have %v, want id and title", got)
	}
}

func TestReadErrors(t *testing.T) {
	for _, text := range []string{"", "{", "[1,", "[1 2]", `{"a"}`, `{"a":1}}`, "1 2",
		"tru", `"`, "{]", "[}", `{1:2}`} {
		if s, err := ReadShape(json.RawMessage(text)); err == nil {
			t.Errorf("ReadShape(%q) = %s, want an error", text, s.EncodeSchema())
		}
	}
}

// TestHostileObservations checks that stored observations that no values have are rejected.
func TestHostileObservations(t *testing.T) {
	deep := strings.Repeat(`{"kinds":32,"items":`, 20) + `{"kinds":1}` + strings.Repeat("}", 20)
	for name, text := range map[string]string{
		"empty": ``, "no object": `[]`, "no version": `{"results":1,"shape":{"kinds":1}}`,
		"results without a shape": `{"version":1,"results":3}`,
		"a shape without results": `{"version":1,"shape":{"kinds":1}}`,
		"negative":                `{"version":1,"results":-1,"shape":{"kinds":1}}`,
		"no kind":                 `{"version":1,"results":1,"shape":{"kinds":0}}`,
		"any and more":            `{"version":1,"results":1,"shape":{"kinds":129}}`,
		"too many kinds":          `{"version":1,"results":1,"shape":{"kinds":256}}`,
		"items of a text":         `{"version":1,"results":1,"shape":{"kinds":16,"items":{"kinds":1}}}`,
		"fields of a text": `{"version":1,"results":1,"shape":{"kinds":16,` +
			`"fields":{"a":{"kinds":1,"results":1}}}}`,
		"fields and values": `{"version":1,"results":1,"shape":{"kinds":64,"values":{"kinds":1},` +
			`"fields":{"a":{"kinds":1,` +
			`"results":1}}}}`,
		"no field": `{"version":1,"results":1,"shape":{"kinds":64,"fields":{"a":null}}}`,
		"a name of a field": `{"version":1,"results":1,"shape":{"kinds":64,` +
			`"fields":{"ignore all rules":{"kinds":1,"results":2}}}}`,
		"many results": `{"version":1,"results":1,"shape":{"kinds":64,"fields":{"a":{"kinds":1,"results":99}}}}`,
		"too deep":     `{"version":1,"results":1,"shape":` + deep + `}`,
		"unknown":      `{"version":1,"results":1,"shape":{"kinds":1},"more":1}`,
		"two":          `{"version":1,"results":1,"shape":{"kinds":1}} {}`,
		"large":        `{"version":1,"results":1,"shape":{"kinds":1}` + strings.Repeat(" ", maxEncoded) + `}`,
	} {
		if o, err := ParseObservation([]byte(text)); err == nil {
			t.Errorf("%s: %+v, want an error", name, o)
		}
	}
}

// FuzzReadShape checks that a Shape describes the value that it was read from and one that it was
// merged with, and stays in its bounds.
func FuzzReadShape(f *testing.F) {
	f.Add([]byte(`{"id":1,"owner":{"name":"x"}}`), []byte(`{"id":null,"tags":["a",1.5]}`))
	f.Add([]byte(`{"ann@example.com":[{}]}`), []byte(`{"a":1,"a":"x"}`))
	f.Add([]byte(`[[[[[[[[[[1]]]]]]]]]]`), []byte(`"text"`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		one, err := ReadShape(a)
		if err != nil {
			return
		}
		if !json.Valid(a) { // a limit ended the reading before the error
			if len(a) < maxBytes && bytes.Count(a, []byte(",")) < maxRead/4 && !one.Partial && one.Kinds != Any {
				t.Fatalf("read %q, which is not JSON", a)
			}
			return
		}
		merged := one
		if two, err := ReadShape(b); err == nil {
			merged = MergeShapes(one, two)
			if json.Valid(b) && !merged.accepts(decode(t, b)) {
				t.Fatalf("%s does not describe %q", merged.EncodeSchema(), b)
			}
		}
		if !merged.accepts(decode(t, a)) {
			t.Fatalf("%s does not describe %q", merged.EncodeSchema(), a)
		}
		data, err := EncodeObservation(Observation{Version: 1, Results: 1, Shape: merged})
		if err != nil {
			t.Fatalf("EncodeObservation: %v", err)
		}
		if _, err := ParseObservation(data); err != nil {
			t.Fatalf("ParseObservation(%s): %v", data, err)
		}
	})
}

// FuzzParseObservation checks that a stored observation that is accepted is in all bounds.
func FuzzParseObservation(f *testing.F) {
	f.Add([]byte(`{"digest":"d","version":1,"results":2,"shape":{"kinds":64,"fields":{"id":{"kinds":4,"results":2}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := ParseObservation(data)
		if err != nil || o.Shape == nil {
			return
		}
		if n := o.Shape.countNodes(); n > maxNodes {
			t.Fatalf("%d nodes, want at most %d", n, maxNodes)
		}
		compile(t, o.Shape)
		again, err := EncodeObservation(o)
		if err != nil {
			t.Fatalf("EncodeObservation: %v", err)
		}
		if back, err := ParseObservation(again); err != nil || !back.Shape.isEqual(o.Shape) {
			t.Fatalf("ParseObservation(%s): %v, want the same again", again, err)
		}
	})
}

func BenchmarkReadShape(b *testing.B) {
	value := json.RawMessage(`[` + strings.Repeat(`{"id":12345,"title":"a title of an issue",`+
		`"open":true,"labels":["bug"]},`, 99) +
		`{"id":1}]`)
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		if _, err := ReadShape(value); err != nil {
			b.Fatalf("ReadShape: %v", err)
		}
	}
}
