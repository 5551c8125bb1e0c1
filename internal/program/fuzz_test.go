package program_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evanw/esbuild/pkg/api"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/program"
)

// FuzzPrepare prepares anything. What is refused is refused with a place in the text; what is made is a script that
// parses, and its positions lie in the text.
func FuzzPrepare(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range append(paths, "testdata/check/programs.txtar") {
		ar, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range ar.Files {
			if !strings.HasSuffix(file.Name, ".out") {
				f.Add(string(file.Data))
			}
		}
	}
	schemas, err := txtar.ParseFile("testdata/check/tools.txtar")
	if err != nil {
		f.Fatal(err)
	}
	p := program.New(program.Config{Catalog: tools(f, schemas.Files).View})
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 2000 {
			return
		}
		lines := strings.Count(source, "\n") + strings.Count(source, "\r") + 1
		prog, err := p.Prepare(program.Request{Source: source})
		var e *program.Error
		switch {
		case errors.As(err, &e):
			for _, x := range append([]*program.Error{e}, e.More...) {
				if x.Message == "" || x.Line < 0 || x.Line > lines || x.Line > 0 && (x.Column < 1 || x.Frame == "") {
					t.Fatalf("%+v", x)
				}
			}
			return
		case err != nil:
			t.Fatalf("%T", err)
		}
		if r := api.Transform(prog.Code, api.TransformOptions{Loader: api.LoaderJS, LogLevel: api.LogLevelSilent}); len(r.Errors) > 0 {
			t.Fatalf("%s\n%s", r.Errors[0].Text, prog.Code)
		}
		for i, text := range strings.Split(prog.Code, "\n") {
			for _, col := range []int{0, 1, len(text) / 2, len(text) + 1, 1 << 30} {
				if line, col, ok := prog.Position(i+1, col); ok && (line < 1 || line > lines || col < 1 || prog.Frame(line, col) == "") {
					t.Fatalf("%d:%d", line, col)
				}
			}
		}
	})
}
