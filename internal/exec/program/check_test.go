package program_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/exec/program"
	"github.com/biplane-dev/biplane/internal/tool"
)

// tools returns a catalog of the files of an archive: "upstream/tool.json" is a tool's input
// schema.
func tools(t testing.TB, files []txtar.File) *catalog.Catalog {
	t.Helper()
	c := catalog.New(catalog.Config{})
	byUpstream := map[string][]*tool.Tool{}
	for _, f := range files {
		up, name, ok := strings.Cut(strings.TrimSuffix(f.Name, ".json"), "/")
		if !ok || !json.Valid(f.Data) {
			t.Fatalf("%s is no schema", f.Name)
		}
		byUpstream[up] = append(byUpstream[up], &tool.Tool{Upstream: up, Name: name, InputSchema: f.Data})
	}
	for up, list := range byUpstream {
		h := tool.Health{State: tool.Ready}
		if strings.HasPrefix(up, "down") {
			h = tool.Health{State: tool.Down, Stale: true, Reason: "it is away"}
		}
		c.Set(catalog.Source{Name: up, Tools: list, Health: h})
	}
	return c
}

// TestChecks prepares the programs of testdata/check/programs.txtar against the tools of
// testdata/check/tools.txtar.
func TestChecks(t *testing.T) {
	schemas, err := txtar.ParseFile("testdata/check/tools.txtar")
	if err != nil {
		t.Fatalf("txtar.ParseFile: %v", err)
	}
	p := program.New(program.Config{Catalog: catalog.NewResolver(tools(t, schemas.Files), nil)})
	golden(t, "testdata/check/programs.txtar", func(t *testing.T, source string) []byte {
		var b bytes.Buffer
		prog, err := p.Prepare(program.Request{Source: source})
		var e *program.Error
		switch {
		case errors.As(err, &e):
			fmt.Fprintf(&b, "%s: %s\n", e.Kind, e)
		case err != nil:
			t.Fatalf("prepare the program: %v", err)
		default:
			names, _ := json.Marshal(prog.Namespaces)
			fmt.Fprintf(&b, "fine: %s\n", names)
			for _, n := range prog.Notes {
				fmt.Fprintf(&b, "note: %s\n", n)
			}
		}
		return b.Bytes()
	})
}

// golden compares the result of f for each file of an archive with the file that follows it.
func golden(t *testing.T, path string, f func(t *testing.T, source string) []byte) {
	t.Helper()
	ar, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatalf("txtar.ParseFile: %v", err)
	}
	want := map[string][]byte{}
	for _, f := range ar.Files {
		want[f.Name] = f.Data
	}
	next := &txtar.Archive{Comment: ar.Comment}
	for _, file := range ar.Files {
		if strings.HasSuffix(file.Name, ".out") {
			continue
		}
		t.Run(file.Name, func(t *testing.T) {
			got := f(t, strings.TrimSuffix(string(file.Data), "\n"))
			next.Files = append(next.Files, file, txtar.File{Name: file.Name + ".out", Data: got})
			if w := want[file.Name+".out"]; !*update && !bytes.Equal(got, w) {
				t.Errorf("got\n%s\nwant\n%s", got, w)
			}
		})
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(next), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
}
