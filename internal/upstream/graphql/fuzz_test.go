package graphql

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"github.com/biplane-dev/biplane/internal/control/catalog/catalogtest"
)

// FuzzSchema makes catalog tools of schemas. Each tool has valid JSON Schemas, and sends a document
// that the schema allows.
func FuzzSchema(f *testing.F) {
	f.Add(true, []byte(`type Query { a(b: [C!]! = []): [D!] } enum C { X } type D { e: Int d: D }`))
	f.Add(true, []byte(`interface I { a: Int } type A implements I { a: Int b: I } union U = A `+
		`type Query { u: U i: I }`))
	f.Add(true, []byte(`schema { query: Q mutation: M } type Q { query: Int } type M { query(a: In!): Int } `+
		`input In { in: In x: S = "q" } scalar S`))
	f.Add(false, []byte(`{"__schema":{"queryType":{"name":"Query"},"types":[{"kind":"OBJECT","name":"Query","fields":`+
		`[{"name":"a","args":[{"name":"b","type":{"kind":"SCALAR","name":"Int"},"defaultValue":"1"}],`+
		`"type":{"kind":"NON_NULL","ofType":{"kind":"SCALAR","name":"ID"}}}]}]}}`))
	f.Fuzz(func(t *testing.T, sdl bool, text []byte) {
		load := parseIntrospection
		if sdl {
			load = parseSDL
		}
		table, err := makeTable("u", load, text)
		if err != nil {
			return
		}
		checkTable(t, table)
	})
}

func checkTable(t *testing.T, table *table) {
	t.Helper()
	catalogtest.CheckTools(t, "u", table.tools)
	for _, x := range table.tools {
		if !json.Valid(x.InputSchema) || x.OutputSchema != nil && !json.Valid(x.OutputSchema) {
			t.Errorf("%s: its schemas are %s and %s", x.Name, x.InputSchema, x.OutputSchema)
		}
	}
	for name, o := range table.byName {
		doc, err := parser.ParseQuery(&ast.Source{Input: o.document})
		if err != nil {
			t.Errorf("parse the document of %s: %s: %v", name, o.document, err)
			continue
		}
		if errs := validator.ValidateWithRules(table.schema, doc, rules.NewDefaultRules()); len(errs) > 0 {
			t.Errorf("validate the document of %s: %s: %v", name, o.document, errs)
		}
	}
}

// FuzzQuery judges and validates documents of programs. A document that counts as a read is never
// sent as a mutation.
func FuzzQuery(f *testing.F) {
	table, err := makeTable("u", parseSDL, []byte(`type Query { a(b: Int): Query c: [I!] } interface I { d: ID }
		type A implements I { d: ID e: Int } type Mutation { m(i: In): Int } input In { x: Int! in: [In!] }`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(`{ a(b: 1) { ...F } } fragment F on Query { c { d ... on A { e } } }`, `{}`)
	f.Add(`mutation($i: In = {x: 1}) { m(i: $i) }`, `{"i":{"x":1,"in":[{"x":2}]}}`)
	f.Fuzz(func(t *testing.T, query, variables string) {
		text, err := json.Marshal(query)
		if err != nil || !json.Valid([]byte(variables)) {
			return
		}
		args := []byte(`{"query":` + string(text) + `,"variables":` + variables + `}`)
		q, err := table.buildQuery(args)
		if err == nil && q.reads != (documentJudge{}).OnlyReads(args) {
			t.Errorf("%s: judged differently when sent", args)
		}
	})
}

// TestRealSchemas makes tools of the schemas in the files that $BIPLANE_GRAPHQL names, separated by
// colons. It prints what they become.
func TestRealSchemas(t *testing.T) {
	all := os.Getenv("BIPLANE_GRAPHQL")
	if all == "" {
		t.Skip("BIPLANE_GRAPHQL names no schemas")
	}
	for name := range strings.SplitSeq(all, ":") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatalf("read the schema: %v", err)
		}
		load := parseSDL
		if strings.HasSuffix(name, ".json") {
			load = parseIntrospection
		}
		table, err := makeTable("u", load, text)
		if err != nil {
			t.Errorf("make the table of %s: %v", name, err)
			continue
		}
		checkTable(t, table)
		t.Logf("%s: %d kept, %d dropped, schemas %d KiB", name, len(table.tools), table.dropped, table.size>>10)
		for _, b := range table.broken {
			t.Logf("  %s: %s", b.Tool, b.Reason)
		}
	}
}
