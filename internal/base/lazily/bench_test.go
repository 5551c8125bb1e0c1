package lazily_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkCompile measures what each start of the program would pay without this package: it
// compiles the regular expressions of all calls of Regexp.
func BenchmarkCompile(b *testing.B) {
	out, err := exec.Command("go", "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`,
		"github.com/biplane-dev/biplane/internal/...").Output()
	if err != nil {
		b.Fatalf("Output: %v", err)
	}
	var all []string
	for _, path := range strings.Fields(string(out)) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			b.Fatalf("parser.ParseFile: %v", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isRegexp(call.Fun) {
				if expr, ok := literal(call.Args[0]); ok {
					all = append(all, expr)
				}
			}
			return true
		})
	}
	if len(all) == 0 {
		b.Fatal("no call of lazily.Regexp was found")
	}
	for b.Loop() {
		for _, expr := range all {
			regexp.MustCompile(expr)
		}
	}
	b.ReportMetric(float64(len(all)), "expressions")
}

func isRegexp(x ast.Expr) bool {
	s, ok := x.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Regexp" {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "lazily"
}

// literal returns the value of a string literal, or of several that are added.
func literal(x ast.Expr) (string, bool) {
	switch x := x.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(x.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := literal(x.X)
		b, ok2 := literal(x.Y)
		return a + b, ok && ok2
	}
	return "", false
}
