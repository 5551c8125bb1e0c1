package apidoc

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

type node struct {
	Name     string          `json:"name"`
	Left     *node           `json:"left"`
	Right    *node           `json:"right,omitempty"`
	At       time.Time       `json:"at"`
	Raw      json.RawMessage `json:"raw"`
	Counts   map[string]int  `json:"counts,omitempty"`
	Hidden   string          `json:"-"`
	internal int
	part
}

type part struct {
	Name  bool     `json:"name"` // hidden by the other one
	Words []string `json:"words"`
}

// TestSchema checks that what encoding/json writes fits the schema, and that other values don't.
func TestSchema(t *testing.T) {
	text, err := WriteDocument(Info{Title: "t", Version: "1", Error: reflect.TypeFor[part]()}, []Route{{
		Method: "GET", Path: "/a/{id}", Access: "all", Operation: Operation{ID: "a", Summary: "A",
			Result: reflect.TypeFor[node](), Query: []Parameter{{Name: "n", Kind: "integer", List: true},
				{Name: "at", Kind: "date-time", Required: true}}}}})
	if err != nil {
		t.Fatalf("WriteDocument: %v", err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatalf("load the document: %v", err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatalf("the document is not valid: %v\n%s", err, text)
	}
	o := doc.Paths.Value("/a/{id}").Get
	if len(o.Parameters) != 3 || !o.Parameters.GetByInAndName("query", "at").Required {
		t.Errorf("the parameters are %+v; want id, n and at, which is required", o.Parameters)
	}
	whole, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("jsonschema.UnmarshalJSON: %v", err)
	}
	c := jsonschema.NewCompiler() // the other library reads nulls as OpenAPI 3.0 does
	if err := c.AddResource("doc.json", whole); err != nil {
		t.Fatalf("AddResource: %v", err)
	}
	s, err := c.Compile("doc.json#/components/schemas/node")
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	for _, c := range []struct {
		value any
		fits  bool
	}{
		{node{Name: "x", Left: &node{}, Counts: map[string]int{"a": 1}, part: part{Words: []string{"w"}}}, true},
		{node{internal: 1}, true},
		{map[string]string{"name": "x"}, false},
		{"text", false},
	} {
		raw, err := json.Marshal(c.value)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("json.Unmarshal: %v", err)
		}
		if err := s.Validate(v); (err == nil) != c.fits {
			t.Errorf("%s: %v; want it to fit: %v", raw, err, c.fits)
		}
	}
	if strings.Contains(string(text), "Hidden") || strings.Contains(string(text), "internal") {
		t.Errorf("the document has fields that JSON does not have:\n%s", text)
	}
}
