package program_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program"
)

// FuzzPrepare prepares arbitrary text. An error must have a position in the text. A program must be
// a script that parses, and its positions must be in the text.
func FuzzPrepare(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatalf("filepath.Glob: %v", err)
	}
	for _, path := range append(paths, "testdata/check/programs.txtar") {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatalf("txtar.ParseFile: %v", err)
		}
		for _, file := range ar.Files {
			if !strings.HasSuffix(file.Name, ".out") {
				f.Add(string(file.Data))
			}
		}
	}
	schemas, err := txtar.ParseFile("testdata/check/tools.txtar")
	if err != nil {
		f.Fatalf("txtar.ParseFile: %v", err)
	}
	p := program.New(program.Config{Catalog: catalog.NewResolver(tools(f, schemas.Files), nil)})
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 2000 {
			return
		}
		for _, q := range []program.Request{{Source: source}, {Source: source, Session: true}} {
			prepared(t, p, q)
		}
	})
}

// prepared prepares a program.
func prepared(t *testing.T, p *program.Preparer, q program.Request) {
	lines := strings.Count(q.Source, "\n") + strings.Count(q.Source, "\r") + 1
	prog, err := p.Prepare(q)
	var e *program.Error
	switch {
	case errors.As(err, &e):
		for _, x := range append([]*program.Error{e}, e.More...) {
			if x.Message == "" || x.Line < 0 || x.Line > lines || x.Line > 0 && (x.Column < 1 || x.Frame == "") {
				t.Fatalf("x = %+v, want x.Message != \"\" && x.Line >= 0 && x.Line <= lines && (x.Line "+
					"<= 0 || x.Column >= 1 && x.Frame != \"\")", x)
			}
		}
		return
	case err != nil:
		t.Fatalf("%T", err)
	case prog.Runtime != "js":
		return
	}
	valid(t, prog)
	for i, text := range strings.Split(prog.Code, "\n") {
		for _, col := range []int{0, 1, len(text) / 2, len(text) + 1, 1 << 30} {
			if line, col, ok := prog.Position(i+1, col); ok &&
				(line < 1 || line > lines || col < 1 || prog.Frame(line, col) == "") {
				t.Fatalf("line = %d, col = %d, want !ok || line >= 1 && line <= lines && col >= 1 && "+
					"prog.Frame(line, col) != \"\"", line, col)
			}
		}
	}
}

// valid checks that the code of a program parses.
func valid(t *testing.T, prog *program.Program) {
	if r := api.Transform(prog.Code, api.TransformOptions{Loader: api.LoaderJS, LogLevel: api.LogLevelSilent}); len(
		r.Errors) > 0 {
		t.Fatalf("r.Errors[0].Text = %s, prog.Code = %s, want len( r.Errors) <= 0", r.Errors[0].Text, prog.Code)
	}
}

// FuzzPython prepares arbitrary text as Python.
func FuzzPython(f *testing.F) {
	f.Add("```python\n  x = '''\n```\n'''\n```\nawait github.list_issue()")
	schemas, err := txtar.ParseFile("testdata/check/tools.txtar")
	if err != nil {
		f.Fatalf("txtar.ParseFile: %v", err)
	}
	p := program.New(program.Config{Catalog: catalog.NewResolver(tools(f, schemas.Files), nil)})
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 2000 {
			return
		}
		prog, err := p.Prepare(program.Request{Source: source, Language: "python"})
		if err == nil && prog.Line+strings.Count(prog.Code, "\n") > strings.Count(source, "\n") {
			t.Fatalf("%d lines before\n%s", prog.Line, prog.Code)
		}
		var e *program.Error
		if err != nil && (!errors.As(err, &e) || e.Message == "" || e.Line < 0 ||
			e.Line > 0 && (e.Column < 1 || e.Frame == "")) {
			t.Fatalf("err = %+v", err)
		}
	})
}

// FuzzSkill prepares a program that imports an arbitrary module.
func FuzzSkill(f *testing.F) {
	f.Add("export const a = 1; export function b() {} export * from './x'")
	p := program.New(program.Config{})
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 2000 {
			return
		}
		prog, err := p.Prepare(program.Request{Source: "import { a } from './skills/x'; a\nimport('./skills/' + a)",
			Skills: map[string]string{"x.ts": source}})
		var e *program.Error
		if err != nil && (!errors.As(err, &e) || e.Message == "") {
			t.Fatalf(`err = %v, want err == nil || errors.As(err, &e) && e.Message != ""`, err)
		}
		if err == nil {
			valid(t, prog)
		}
	})
}
