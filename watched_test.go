package biplane_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// makeList returns the words of a variable of the Makefile.
func makeList(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatalf("read the Makefile: %v", err)
	}
	_, list, ok := strings.Cut(strings.ReplaceAll(string(text), "\\\n", " "), "\n"+name+" = ")
	if !ok {
		t.Fatalf("the Makefile has no list %s", name)
	}
	list, _, _ = strings.Cut(list, "\n")
	return strings.Fields(list)
}

// TestSinglePackages checks that the packages which make test runs without the race detector start
// no goroutines, tests included.
func TestSinglePackages(t *testing.T) {
	for _, folder := range makeList(t, "SINGLE") {
		files, err := filepath.Glob(filepath.Join(filepath.FromSlash(folder), "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: %d Go files, %v", folder, len(files), err)
		}
		for _, name := range files {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatalf("parse %s: %v", name, err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				_, starts := n.(*ast.GoStmt)
				if starts || ok && (sel.Sel.Name == "Go" || sel.Sel.Name == "Parallel" || sel.Sel.Name == "AfterFunc") {
					t.Errorf("%s: remove %s from SINGLE in the Makefile: it starts a goroutine",
						set.Position(n.Pos()), folder)
				}
				return true
			})
		}
	}
}

// TestPlainTests checks that each test which make test runs without the race detector exists, and
// that no test is left out because it shares its name with one of another package.
func TestPlainTests(t *testing.T) {
	folders := makeList(t, "PLAIN_PACKAGES")
	never := append(makeList(t, "SINGLE"), "./cmd/biplane")
	found := map[string][]string{} // folders by test
	eachGoFile(t, func(name string) error {
		folder := "./" + path.Dir(filepath.ToSlash(name))
		if !strings.HasSuffix(name, "_test.go") || slices.Contains(never, folder) {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil && strings.HasPrefix(d.Name.Name, "Test") {
				found[d.Name.Name] = append(found[d.Name.Name], folder)
			}
		}
		return nil
	})
	used := map[string]bool{}
	for _, name := range makeList(t, "PLAIN_TESTS") {
		if len(found[name]) == 0 {
			t.Errorf("remove %s from PLAIN_TESTS in the Makefile: there is no such test", name)
		}
		for _, folder := range found[name] {
			used[folder] = true
			if !slices.Contains(folders, folder) {
				t.Errorf("%s of %s runs neither with the race detector nor without: rename it, or add the folder to "+
					"PLAIN_PACKAGES in the Makefile", name, folder)
			}
		}
	}
	for _, folder := range folders {
		if !used[folder] {
			t.Errorf("remove %s from PLAIN_PACKAGES in the Makefile: it has none of PLAIN_TESTS", folder)
		}
	}
}
