package program_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestLanguages checks the names of languages.
func TestLanguages(t *testing.T) {
	p := program.New(program.Config{})
	for _, c := range []struct{ language, source, err string }{
		{"", "const a: number = 1; a", ""},
		{"TypeScript", "const a: number = 1; a", ""},
		{"ts", "1", ""},
		{" js ", "1", ""},
		{"javascript", "const a = 1; a", ""},
		{"javascript", "const a: number = 1; a", ""}, // it is treated as TypeScript anyway
		{"ruby", "puts 1", `language "ruby" is not available here: use "typescript", "javascript", "python", `},
		{"", "\xff", "the program is not valid UTF-8 text"},
		{"", "", "the program is empty: send the code to run"},
		{"", strings.Repeat("a\n", 200_000), "the program is too large: 400000 bytes, and at most 262144 are allowed"},
		{"", strings.Repeat("(", 100_000), "the program nests too deep here"},
		{"", strings.Repeat("`${", 50_000), "the program nests too deep here"},
	} {
		_, err := p.Prepare(program.Request{Source: c.source, Language: c.language})
		var e *program.Error
		switch {
		case c.err == "" && err != nil, c.err != "" && !errors.As(err, &e),
			e != nil && !strings.HasPrefix(e.Message, c.err):
			t.Errorf("%q %.20q: %v", c.language, c.source, err)
		}
	}
}

// TestGlobals runs a program that lists the globals of the engine. None of them may be mistaken for
// an unknown upstream.
func TestGlobals(t *testing.T) {
	alone := program.New(program.Config{})
	p, err := alone.Prepare(program.Request{Source: `Object.getOwnPropertyNames(globalThis).join()`})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	e := newEngine(t, false)
	defer e.close()
	last, _ := e.converse(p)
	if last.Done == nil {
		t.Fatalf("last.Fail = %+v, want last.Done != nil", last.Fail)
	}
	names := strings.Split(strings.Trim(string(last.Done.Value), `"`), ",")
	if len(names) < 60 {
		t.Fatalf("only %d globals: %q", len(names), names)
	}
	empty := program.New(program.Config{Catalog: catalog.NewResolver(catalog.New(catalog.Config{}), nil)})
	for _, n := range names {
		if n == "github" || n == "files" { // added by converse
			continue
		}
		if _, err := empty.Prepare(program.Request{Source: n + ".something(); " + n + "()"}); err != nil {
			t.Errorf("n = %s, err = %v, want nil", n, err)
		}
	}
	if _, err := empty.Prepare(program.Request{Source: "github.something()"}); err == nil {
		t.Error("an upstream where there is none is no error")
	}
}

// TestConcurrent prepares programs while the catalog changes.
func TestConcurrent(t *testing.T) {
	schemas, err := txtar.ParseFile("testdata/check/tools.txtar")
	if err != nil {
		t.Fatalf("txtar.ParseFile: %v", err)
	}
	c := tools(t, schemas.Files)
	p := program.New(program.Config{Catalog: catalog.NewResolver(c, nil)})
	var over sync.WaitGroup
	for i := range 4 {
		over.Go(func() {
			for k := range 25 {
				prog, err := p.Prepare(program.Request{Source: fmt.Sprintf(
					"const r%d = await github.list_issues({ repo: 'a' }); r%d.items.length", k, k)})
				if err != nil {
					t.Errorf("Prepare: %v", err)
					return
				}
				if line, _, ok := prog.Position(2, 1); !ok || line != 1 {
					t.Errorf("line %d", line)
				}
				if i == 0 {
					c.Set(catalog.Source{Name: "more",
						Tools: []*tool.Tool{{Upstream: "more", Name: fmt.Sprint("t", k), InputSchema: []byte(`{}`)}}})
				}
			}
		})
	}
	over.Wait()
}

// TestNamespaces checks which members of large upstreams are listed for a program.
func TestNamespaces(t *testing.T) {
	c := catalog.New(catalog.Config{})
	var many []*tool.Tool
	for i := range 400 {
		many = append(many, &tool.Tool{Upstream: "big", Name: fmt.Sprintf("tool_%d", i),
			InputSchema: []byte(`{"type":"object"}`)})
	}
	c.Set(catalog.Source{Name: "big", Tools: many, Health: tool.Health{State: tool.Ready}})
	c.Set(catalog.Source{Name: "small",
		Tools: []*tool.Tool{{Upstream: "small", Name: "one", InputSchema: []byte(`{"type":"object"}`)}}})
	prog, err := program.New(program.Config{Catalog: catalog.NewResolver(c, nil)}).Prepare(
		program.Request{Source: "await big.tool_7(); await small.one()"})
	if err != nil {
		t.Fatalf("Prepare: %v", err)
	}
	if got := fmt.Sprint(prog.Namespaces); got != "map[big:[tool_7] small:[one]]" {
		t.Errorf(`got = %v, want "map[big:[tool_7] small:[one]]"`, got)
	}
}

// TestCache checks that programs are cached, and that programs that may change are not.
func TestCache(t *testing.T) {
	c := catalog.New(catalog.Config{})
	p := program.New(program.Config{Catalog: catalog.NewResolver(c, nil)})
	prepare := func(q program.Request) *program.Program {
		t.Helper()
		prog, err := p.Prepare(q)
		if err != nil {
			t.Fatalf("Prepare: %v", err)
		}
		return prog
	}
	one := program.Request{Source: "const a = 1; a"}
	first := prepare(one)
	if prepare(one) != first {
		t.Error("the same program is prepared twice")
	}
	withSkill := program.Request{Source: "import { a } from './skills/a'; a",
		Skills: map[string]string{"a.ts": "export const a = 1"}}
	old := prepare(withSkill)
	withSkill.Skills = map[string]string{"a.ts": "export const a = 2"}
	if got := prepare(withSkill); got == old || !strings.Contains(got.Code, "a = 2") {
		t.Error("a skill that changed is not taken")
	}
	for _, q := range []program.Request{{Source: one.Source, Session: true}, {Source: one.Source, Language: "js"},
		{Source: one.Source, Declared: []string{"x"}}, {Source: one.Source + " "}} {
		if prepare(q) == first {
			t.Errorf("%+v is another program", q)
		}
	}
	for i := range 300 {
		prepare(program.Request{Source: fmt.Sprint(i)})
	}
	again := prepare(one)
	c.Set(catalog.Source{Name: "more", Tools: []*tool.Tool{{Upstream: "more", Name: "t", InputSchema: []byte(`{}`)}}})
	if got := prepare(one); got == again || got.Namespaces["more"] == nil {
		t.Error("a catalog that changed is not looked at")
	}
}

// TestUnchecked checks that a text with names not in the catalog is prepared if Unchecked is set,
// and only then.
func TestUnchecked(t *testing.T) {
	p := program.New(program.Config{Catalog: catalog.NewResolver(catalog.New(catalog.Config{}), nil)})
	for language, source := range map[string]string{"typescript": "await gone.tool({ a: 1 })",
		"python": "await gone.tool(a=1)"} {
		if _, err := p.Prepare(program.Request{Source: source, Language: language, Unchecked: true}); err != nil {
			t.Errorf("language = %s, err = %v, want nil", language, err)
		}
		if _, err := p.Prepare(program.Request{Source: source, Language: language}); err == nil &&
			language == "typescript" {
			t.Errorf("%s: it is not checked any more", language)
		}
	}
}
