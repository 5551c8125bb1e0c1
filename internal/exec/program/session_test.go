package program_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program"
)

// TestNotebook runs the sequences of programs of testdata/session/notebook.txtar. Each file of the
// archive is a sequence, with programs separated by lines of "---". The results follow it.
func TestNotebook(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	ar, err := txtar.ParseFile("testdata/session/tools.txtar")
	if err != nil {
		t.Fatalf("txtar.ParseFile: %v", err)
	}
	p := program.New(program.Config{Catalog: catalog.NewResolver(tools(t, ar.Files), nil)})
	golden(t, "testdata/session/notebook.txtar", func(t *testing.T, source string) []byte {
		e := newEngine(t, true)
		defer e.close()
		var b strings.Builder
		var declared []string
		for i, text := range strings.Split(source, "\n---\n") {
			prog, err := p.Prepare(program.Request{Source: text, Session: true, Declared: declared})
			if err != nil {
				fmt.Fprintf(&b, "%d error: %s\n", i+1, err)
				continue
			}
			fmt.Fprintf(&b, "%d %s\n", i+1, e.run(prog))
			if prog.Remark != "" {
				fmt.Fprintf(&b, "note: %s\n", prog.Remark)
			}
			for _, n := range prog.Notes {
				fmt.Fprintf(&b, "note: %s\n", n)
			}
			declared = append(declared, prog.Declared...)
		}
		return []byte(b.String())
	})
}
