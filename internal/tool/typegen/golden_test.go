package typegen_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/tool/typegen"
)

var update = flag.Bool("update", false, "write the golden files anew")

// definition is a tool as MCP defines it.
type definition struct {
	Name         string           `json:"name"`
	Title        string           `json:"title"`
	Description  string           `json:"description"`
	InputSchema  json.RawMessage  `json:"inputSchema"`
	OutputSchema json.RawMessage  `json:"outputSchema"`
	Annotations  tool.Annotations `json:"annotations"`
}

func (d definition) tool(upstream string) *tool.Tool {
	return &tool.Tool{Upstream: upstream, Name: d.Name, Title: d.Title, Description: d.Description,
		InputSchema: d.InputSchema, OutputSchema: d.OutputSchema, Annotations: d.Annotations}
}

// TestGolden compares the output for each testdata/tools/*.txtar with the golden files: tool.json
// is the input; signature.ts, signature.py, file.ts and __init__.pyi are the output.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/tools/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no golden files", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatalf("txtar.ParseFile: %v", err)
			}
			tl := load(t, ar)
			n := typegen.Names{Namespace: "demo", Member: safe(tl.Name)}
			code, example, note := typegen.Signature(typegen.Item{Tool: tl, Names: n})
			sig := code + "\n\nexample: " + example + "\nnote: " + note + "\n"
			code, example, note = typegen.PythonSignature(typegen.Item{Tool: tl, Names: n})
			pySig := code + "\n\nexample: " + example + "\nnote: " + note + "\n"
			want := []txtar.File{ar.Files[0], {Name: "signature.ts", Data: []byte(sig)},
				{Name: "signature.py", Data: []byte(pySig)},
				{Name: "file.ts", Data: []byte(typegen.File(tl, n))},
				{Name: "__init__.pyi",
					Data: []byte(typegen.PythonTree([]typegen.Item{{Tool: tl, Names: n}})["tools/demo/__init__.pyi"])}}
			if *update {
				out := txtar.Format(&txtar.Archive{Comment: ar.Comment, Files: want})
				if err := os.WriteFile(path, out, 0o644); err != nil {
					t.Fatalf("os.WriteFile: %v", err)
				}
				return
			}
			got := txtar.Format(&txtar.Archive{Comment: ar.Comment, Files: want})
			if old := txtar.Format(ar); string(old) != string(got) {
				t.Errorf("differs from %s (run with -update and read the diff):\n%s", path, got)
			}
		})
	}
}

func load(t *testing.T, ar *txtar.Archive) *tool.Tool {
	t.Helper()
	var d definition
	if err := json.Unmarshal(ar.Files[0].Data, &d); err != nil {
		t.Fatalf("json.Unmarshal: %v", err)
	}
	return d.tool("demo")
}

// safe returns a member name; it is sufficient for these tests.
func safe(name string) string {
	b := []byte(name)
	for i, c := range b {
		if c == '-' || c == '.' || c == '/' {
			b[i] = '_'
		}
	}
	return string(b)
}
