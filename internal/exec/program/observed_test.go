package program_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/shape"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An observer knows an Observation of each tool by its path.
type observer map[string]shape.Observation

func (o observer) FindMissing(e tool.Entry, path []string) (program.Missing, bool) {
	x := o[e.Path()]
	fields, ok := x.FindMissing(path)
	return program.Missing{Results: x.Results, Fields: fields}, ok
}

// observe returns what is learned from a number of results with the same value.
func observe(t *testing.T, value string, results int) shape.Observation {
	t.Helper()
	var s *shape.Shape
	for range results {
		next, err := shape.ReadShape(json.RawMessage(value))
		if err != nil {
			t.Fatalf("ReadShape: %v", err)
		}
		s = shape.MergeShapes(s, next)
	}
	return shape.Observation{Results: results, Shape: s}
}

// newObserver returns what was observed of some tools, and a Preparer that knows it.
func newObserver(t *testing.T) (observer, *program.Preparer) {
	t.Helper()
	c := catalog.New(catalog.Config{})
	var list []*tool.Tool
	for _, name := range []string{"list", "page", "rare", "mixed", "record"} {
		list = append(list, &tool.Tool{Upstream: "shop", Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	c.Set(catalog.Source{Name: "shop", Tools: list, Health: tool.Health{State: tool.Ready}})
	known := observer{
		"shop.list":   observe(t, `[{"id":1,"title":"a","by":{"login":"x"},"tags":["a"]}]`, 12),
		"shop.page":   observe(t, `{"items":[{"id":1,"title":"a"}],"total":1}`, 5),
		"shop.rare":   observe(t, `{"id":1}`, 4),
		"shop.record": observe(t, `{"a@b.c":{"id":1}}`, 9),
	}
	mixed := observe(t, `{"id":1}`, 5)
	mixed.Shape = shape.MergeShapes(mixed.Shape, &shape.Shape{Kinds: shape.String})
	known["shop.mixed"] = mixed
	return known, program.New(program.Config{Catalog: catalog.NewResolver(c, nil), Results: known})
}

// listWarnings returns the warnings of a program: line, tool and field of each, separated by bars.
func listWarnings(t *testing.T, p *program.Preparer, code, language string) string {
	t.Helper()
	prog, err := p.Prepare(program.Request{Source: code, Language: language})
	if err != nil {
		t.Errorf("%s: %v, want no error", code, err)
		return ""
	}
	var got []string
	for _, n := range prog.Notes {
		if _, rest, ok := strings.Cut(n, "warning: line "); ok && strings.Contains(n, "no result of") {
			f := strings.Fields(rest)
			got = append(got, strings.TrimSuffix(f[0], ":")+" "+f[4]+" "+strings.Trim(f[8], `"`))
		}
	}
	return strings.Join(got, "|")
}

func TestObservedFields(t *testing.T) {
	known, p := newObserver(t)
	for _, tt := range []struct {
		code string
		want string // path of the warnings: line, tool and field
	}{
		{"const r = await shop.page();\nreturn r.titel", "2 shop.page titel"},
		{"return (await shop.page({})).result", "1 shop.page result"},
		{`return (await shop.page({}))["result"]`, "1 shop.page result"},
		{`const r = await callTool("shop.page", {}); return r.result`, "1 shop.page result"},
		{"const { items, next } = await shop.page(); return [items, next]", "1 shop.page next"},
		{"const { items: all, page: { next } } = await shop.page(); return [all, next]", "1 shop.page page"},
		{"const r = await shop.list(); return r[0].name", "1 shop.list name"},
		{"const r = await shop.list(); return r[0].by.name", "1 shop.list name"},
		{"for (const x of await shop.list()) {\n  console.log(x.name) }", "2 shop.list name"},
		{"for (const { id, name } of await shop.list()) console.log(id, name)", "1 shop.list name"},
		{"const r = await shop.page(); for (const x of r.items) console.log(x.name)", "1 shop.page name"},
		{"const r = await shop.list(); return r.map(x => x.name)", "1 shop.list name"},
		{"const r = await shop.list(); return r.map(({ id, name }) => id + name)", "1 shop.list name"},
		{`const r = await shop.list(); return r.filter(x => x.state === "open")`, "1 shop.list state"},
		{"const r = await shop.page(); return r.map(x => x.id)", "1 shop.page map"},
		{"const r = await shop.page(); if (r.total) return r.rows.length", "1 shop.page rows"},
		{"const r = await shop.page(); return [r.rows, r.rows]", "1 shop.page rows"},
		{"const r = await shop.page(); console.log(r); return [r.a, r.b, r.c, r.d]",
			"1 shop.page a|1 shop.page b|1 shop.page c"},

		{"const r = await shop.page(); return r.items.map(x => x.title.length + x.id)", ""},
		{"const r = await shop.list(); return [r.length, r[0].tags.length, r[0].title.trim(), r.at(0)]", ""},
		{"const r = await shop.page(); return r.toString()", ""},
		{"const r = await shop.page(); return r?.rows", ""},
		{"const r = await shop.page(); return r.rows?.length", ""},
		{"const r = await shop.page(); return r.rows ?? r.data", ""},
		{"const r = await shop.page(); return r.rows || []", ""},
		{"const r = await shop.page(); if (r.rows) return r.rows.length", ""},
		{"const r = await shop.page(); return r.rows !== undefined ? r.rows : 1", ""},
		{`const r = await shop.page(); return "rows" in r ? r.rows : 1`, ""},
		{`const r = await shop.page(); return Object.hasOwn(r, "rows") ? r.rows : 1`, ""},
		{`const r = await shop.page(); return r.hasOwnProperty("rows") ? r.rows : 1`, ""},
		{`const r = await shop.page(); return Array.isArray(r) ? r.map(x => x.id) : 1`, ""},
		{`const r = await shop.page(); return typeof r === "string" ? r.length : 1`, ""},
		{"const { rows = [] } = await shop.page(); return rows", ""},
		{"const r = await shop.list(); return r.filter(x => !x.pull_request)", ""},
		{"const r = await shop.list(); return r.filter(x => x.closed)", ""},
		{"const r = await shop.page(); r.rows = 1; return r.rows", ""},
		{"const r = await shop.list(); for (const x of r) x.score = 1; return r[0].score", ""},
		{"const r = await shop.list(); r.forEach(x => { x.score = 1 }); return r.map(x => x.score)", ""},
		{"const r = await shop.list(); r.push({ score: 1 }); return r[0].score", ""},
		{"const add = x => { x.score = 1 }; const r = await shop.page(); add(r); return r.score", ""},
		{"const r = await shop.page(); let q = r; q.score = 1; return r.score", ""},
		{"const r = await shop.page(); const o = Object.assign(r, { score: 1 }); return r.score", ""},
		{"let r = await shop.page(); r = { rows: 1 }; return r.rows", ""},
		{"const r = await shop.list(); return r.map(x => { x = { rows: 1 }; return x.rows })", ""},
		{"const r = await shop.page().catch(() => ({ rows: 1 })); return r.rows", ""},
		{"const r = await shop.page(); const key = 'rows'; return r[key]", ""},
		{"const r = await shop.rare(); return r.rows", ""},
		{"const r = await shop.mixed(); return r.rows", ""},
		{"const r = await shop.record(); return r.rows", ""},
		{"const r = await shop.page(); { const r = { rows: 1 }; return r.rows }", ""},
		{"const shop = { page: async () => ({ rows: 1 }) }; const r = await shop.page(); return r.rows", ""},
	} {
		if s := listWarnings(t, p, tt.code, ""); s != tt.want {
			t.Errorf("%s: %q, want %q", tt.code, s, tt.want)
		}
	}

	const code = "const r = await shop.page(); return r.totel"
	const want = `warning: line 1: no result of shop.page had a field "totel" in 5 results; ` +
		`observed there: total, items`
	if prog, err := p.Prepare(program.Request{Source: code}); err != nil || !slices.Contains(prog.Notes, want) {
		t.Errorf("%s: %v, %v, want the note %s", code, prog, err, want)
	}
	known["shop.page"] = observe(t, `{"totel":1}`, 5) // the same text, cached, with other observations
	if prog, err := p.Prepare(program.Request{Source: code}); err != nil || len(prog.Notes) > 0 {
		t.Errorf("%s: %v, %v, want no notes: the field was observed since", code, prog, err)
	}
}
