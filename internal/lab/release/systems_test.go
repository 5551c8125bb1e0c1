package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSystems checks the types of the whole binary for systems that the tests don't run on. That is
// ten times cheaper than a build, which compiles the standard library and the engines again. make
// release builds for them.
func TestSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads the source of all packages")
	}
	c := &checker{set: token.NewFileSet(), files: map[string]*ast.File{}}
	for _, g := range []target{{"darwin/arm64", "darwin", "arm64"}, {"windows/amd64", "windows", "amd64"}} {
		t.Run(g.name, func(t *testing.T) {
			if errs := c.checkTypes(t, g, "../../../cmd/biplane"); len(errs) > 0 {
				t.Errorf("%d errors: %v", len(errs), errors.Join(errs...))
			}
		})
	}
}

// TestOtherSystem checks that mistakes in a package of one system are found, and only there.
func TestOtherSystem(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module small\n\ngo 1.26\n",
		"main.go":    "package main\n\nimport \"os\"\n\nfunc main() { _ = os.Args; run() }\n",
		"a_linux.go": "package main\n\nfunc run() {}\n",
		"a_other.go": "//go:build !linux\n\npackage main\n\nimport \"syscall\"\n\n" +
			"func run() { var x int = \"x\"; syscall.Nonesuch() }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	c := &checker{set: token.NewFileSet(), files: map[string]*ast.File{}}
	if errs := c.checkTypes(t, target{"linux/arm64", "linux", "arm64"}, dir); len(errs) > 0 {
		t.Errorf("linux: %v, want no error", errs)
	}
	text := fmt.Sprint(errors.Join(c.checkTypes(t, target{"darwin/arm64", "darwin", "arm64"}, dir)...))
	for _, want := range []string{"cannot use", "declared and not used", "syscall.Nonesuch"} {
		if !strings.Contains(text, want) {
			t.Errorf("darwin: %s, want %q in it", text, want)
		}
	}
}

// A checker checks types of packages. It reads each file once.
type checker struct {
	set   *token.FileSet
	files map[string]*ast.File
}

// A listedPackage is a package as go list describes it.
type listedPackage struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
}

// hasBodies reports whether the bodies of p's functions are checked, too. Those of other modules
// and of the generated engines are the same on all systems, or were checked by their authors.
func (p *listedPackage) hasBodies() bool {
	return p.Module != nil && p.Module.Main && !strings.Contains(p.ImportPath, "/third_party/")
}

// checkTypes returns the errors in the command in dir and in all packages that it imports.
func (c *checker) checkTypes(t *testing.T, g target, dir string) (errs []error) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps",
		"-json=ImportPath,Dir,GoFiles,ImportMap,Module", ".")
	list.Dir = dir
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+g.system, "GOARCH="+g.processor)
	var failure strings.Builder
	list.Stderr = &failure
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &failure)
	}
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; { // a package follows what it imports
		var p listedPackage
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			f, err := c.parseFile(filepath.Join(p.Dir, name), p.hasBodies())
			if err != nil {
				return append(errs, err)
			}
			files = append(files, f)
		}
		conf := types.Config{IgnoreFuncBodies: !p.hasBodies(), Sizes: types.SizesFor("gc", g.processor),
			Importer: importer{&p, done}, Error: func(err error) { errs = append(errs, err) }}
		done[p.ImportPath], _ = conf.Check(p.ImportPath, c.set, files, nil) // Error has received the errors
	}
	if len(done) < 10 {
		t.Fatalf("go list shows %d packages, want all of the command", len(done))
	}
	return errs
}

// parseFile returns a parsed file. Without bodies, its functions are empty: the engines' functions
// would occupy gigabytes.
func (c *checker) parseFile(path string, bodies bool) (*ast.File, error) {
	if f := c.files[path]; f != nil {
		return f, nil
	}
	f, err := parser.ParseFile(c.set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil && !bodies {
			d.Body.List = nil
		}
	}
	c.files[path] = f
	return f, nil
}

// An importer finds what a package imports among the packages that were checked before.
type importer struct {
	p    *listedPackage
	done map[string]*types.Package
}

// Import returns the package that an import declaration of the package names.
func (i importer) Import(path string) (*types.Package, error) {
	if actual, ok := i.p.ImportMap[path]; ok { // of the standard library's vendored packages
		path = actual
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s imports %s, which was not checked before", i.p.ImportPath, path)
}
