package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const page = "../../docs/configuration.md"

// TestPageNamesEveryKey checks that the page has every key that the reader knows.
func TestPageNamesEveryKey(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	found := 0
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatalf("parser.ParseFile: %v", err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if id, ok := lit.Type.(*ast.Ident); !ok || id.Name != "key" {
				return true
			}
			for _, e := range lit.Elts {
				s, ok := e.(*ast.KeyValueExpr).Key.(*ast.BasicLit)
				if !ok {
					continue
				}
				key, _ := strconv.Unquote(s.Value)
				found++
				if !strings.Contains(string(text), "`"+key+"`") && !strings.Contains(string(text), "."+key+"`") {
					t.Errorf("%s: key %q is not on the page %s: describe it there", name, key, page)
				}
			}
			return true
		})
	}
	if found < 80 {
		t.Errorf("%d keys found in the source: the test looks in the wrong place", found)
	}
}

// TestPageExample checks that the page's example is a configuration without errors and warnings.
func TestPageExample(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	_, rest, ok := strings.Cut(string(text), "```yaml\n")
	example, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatalf("%s has no example", page)
	}
	c, err := Parse(filepath.Join(t.TempDir(), "biplane.yaml"), []byte(example), func(string) (string, bool) {
		return "", false
	}, 0)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	if len(c.Servers) != 3 || len(c.Warnings) != 0 {
		t.Errorf("%d servers, want 3; warnings: %v", len(c.Servers), c.Warnings)
	}
}
