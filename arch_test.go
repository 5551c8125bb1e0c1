package biplane_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/biplane-dev/biplane/"

// A room is a first-level folder of internal/, or a package outside it. rooms lists the rooms that
// the packages of each room may import, beside their own. Its reasons are in RATIONALE.md.
var rooms = map[string][]string{
	"base":     {},
	"tool":     {"base"},
	"control":  {"base", "tool"},
	"exec":     {"base", "tool"},
	"upstream": {"base", "tool"},
	"store":    {"base", "tool", "control", "exec"},
	"serve":    {"base", "tool", "control", "exec", "api"},
	"config":   {"base", "tool", "control", "exec"},
	"daemon":   {"*"},
	"cli":      {"base", "tool", "control", "api", "config", "daemon", "lab"},
	"lab":      {"*"},

	"api":         {},
	"cmd/biplane": {"cli"},
}

// alsoImports lists what single packages import beyond the rule of their room.
var alsoImports = map[string][]string{
	"control/audit/ledger": {"api"},
	"control/policy/desk":  {"api"},
}

// reserved lists who may import a package, or the packages below a path, tests aside. A name that
// ends with a slash stands for all packages below it.
var reserved = map[string][]string{
	"github.com/modelcontextprotocol/go-sdk/": {"serve/mcpserver", "upstream/mcp"},
	"github.com/tetratelabs/wazero":           {"exec/sandbox/wasm"},
	"modernc.org/sqlite":                      {"store", "store/fault", "store/backup", "lab/demo"},
	"modernc.org/libc":                        {"store"},
	"github.com/jackc/pgx":                    {"store"},
	"github.com/spf13/cobra":                  {"cli", "lab/release"},
	"github.com/getkin/kin-openapi/":          {"upstream/openapi"},
	"github.com/vektah/gqlparser/":            {"upstream/graphql"},
	"github.com/VictoriaMetrics/":             {"serve/metrics"},
	"go.opentelemetry.io/otel/sdk":            {"serve/telemetry"},
	"github.com/coreos/go-systemd/":           {"cli"},
	module + "third_party/quickjs-wasi/qjs":   {"exec/sandbox/wasm"},
	module + "third_party/cpython":            {"exec/sandbox/wasm", "exec/sandbox/wasm/pyguest"},
	module + "third_party/cldr":               {"exec/sandbox/wasm"},
	module + "third_party/jsonschema":         {"control/catalog", "tool/typegen"},
	module + "internal/exec/sandbox/wasm": {"exec/sandbox/wasm", "exec/sandbox/process", "exec/engineproc",
		"daemon", "lab/bench"},
	module + "internal/exec/sandbox/child": {"exec/sandbox/child", "exec/sandbox/process", "exec/engineproc",
		"exec/engineproc/ahead", "daemon", "lab/bench"},
	module + "internal/exec/sandbox/process": {"exec/sandbox/process", "exec/sandbox/process/", "exec/engineproc",
		"daemon", "lab/bench"},
	module + "internal/exec/sandbox/image": {"exec/sandbox/process", "exec/sandbox/image/build", "config", "daemon",
		"lab/bench"},
	"github.com/google/go-containerregistry/": {"exec/sandbox/image/build"},
	module + "internal/exec/executor":         {"daemon", "lab/bench"},
	module + "internal/upstream/":             {"upstream/", "daemon"},
	module + "internal/daemon":                {"cli", "lab/demo"},
}

// A source is one of the project's Go files that isn't generated.
type source struct {
	path  string // below the module's root, with slashes
	pkg   string // as in mayImport
	file  *ast.File
	set   *token.FileSet
	lines int
}

// isBelow reports whether the file's package is the named one, or below a name that ends with a
// slash.
func (s source) isBelow(name string) bool {
	return s.pkg == name || strings.HasSuffix(name, "/") && strings.HasPrefix(s.pkg, name)
}

func (s source) generated() bool { return ast.IsGenerated(s.file) }

// eachGoFile calls f with the path of each Go file outside third_party, tests included.
func eachGoFile(t *testing.T, f func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." &&
			(strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "third_party"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		return f(path)
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
}

func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	eachGoFile(t, func(path string) error {
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		pkg := strings.TrimPrefix(path[:max(strings.LastIndexByte(path, '/'), 0)], "internal/")
		all = append(all, source{path, pkg, f, set, set.Position(f.FileEnd).Line})
		return nil
	})
	if len(all) < 10 {
		t.Fatalf("only %d Go files found: this test looks in the wrong place", len(all))
	}
	return all
}

// roomOf returns the room of a package.
func roomOf(pkg string) string {
	if strings.HasPrefix(pkg, "cmd/") {
		return pkg
	}
	room, _, _ := strings.Cut(pkg, "/")
	return room
}

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		room := roomOf(s.pkg)
		allowed, known := rooms[room]
		if !known {
			t.Errorf("%s: the room %s has no row in the table of rooms", s.path, room)
			continue
		}
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			for prefix, who := range reserved {
				if strings.HasPrefix(path, prefix) && !slices.ContainsFunc(who, s.isBelow) {
					t.Errorf("%s: only %v may import %s", s.path, who, path)
				}
			}
			ours, ok := strings.CutPrefix(path, module)
			ours = strings.TrimPrefix(ours, "internal/")
			if !ok || strings.HasPrefix(ours, "third_party/") || roomOf(ours) == room ||
				slices.Contains(allowed, "*") || slices.Contains(allowed, roomOf(ours)) ||
				slices.Contains(alsoImports[s.pkg], ours) {
				continue
			}
			t.Errorf("%s: a package of %s may not import %s", s.path, room, ours)
		}
	}
}

// TestRulesNameWhatExists checks that the tables above name only rooms and packages that exist.
func TestRulesNameWhatExists(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		found[s.pkg], found[roomOf(s.pkg)] = true, true
	}
	named := slices.Collect(maps.Keys(rooms))
	for pkg, more := range alsoImports {
		named = append(append(named, pkg), more...)
	}
	for _, who := range reserved {
		named = append(named, who...)
	}
	for _, name := range named {
		if !found[strings.TrimSuffix(name, "/")] {
			t.Errorf("a rule names %s, which does not exist", name)
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	doc := map[string]bool{}
	for _, s := range sources(t) {
		doc[s.pkg] = doc[s.pkg] || s.file.Doc.Text() != ""
	}
	for pkg, ok := range doc {
		if !ok {
			t.Errorf("package %s has no doc comment", pkg)
		}
	}
}

func TestEveryExportedNameIsDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		for _, d := range s.file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: %s has no doc comment", s.set.Position(d.Pos()), name)
			}
		}
	}
}

// undocumented returns the exported names of d without a comment. A comment on a group counts for
// all names in it.
func undocumented(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || receiverExported(d.Recv)) {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		var names []string
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Name.IsExported() && spec.Doc == nil {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				if spec.Names[0].IsExported() && spec.Doc == nil && spec.Comment == nil {
					names = append(names, spec.Names[0].Name)
				}
			}
		}
		return names
	}
	return nil
}

func receiverExported(r *ast.FieldList) bool { return ast.IsExported(receiverName(r)) }

// receiverName returns the name of the receiver's type, without pointer and type parameters.
func receiverName(r *ast.FieldList) string {
	x := r.List[0].Type
	if s, ok := x.(*ast.StarExpr); ok {
		x = s.X
	}
	switch g := x.(type) {
	case *ast.IndexExpr:
		x = g.X
	case *ast.IndexListExpr:
		x = g.X
	}
	return fmt.Sprint(x)
}

// The sizes of STYLE: a file that outgrows them hides a second noun, a function a second step.
func TestSizes(t *testing.T) {
	var long, all int
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		if s.lines > 600 {
			t.Errorf("%s has %d lines: split it by noun", s.path, s.lines)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			all++
			n := s.set.Position(f.End()).Line - s.set.Position(f.Pos()).Line + 1
			if n > 60 {
				long++
				t.Logf("%s: %s has %d lines", s.path, f.Name.Name, n)
			}
		}
	}
	if long*20 > all {
		t.Errorf("%d of %d functions have over 60 lines: at most one in twenty may", long, all)
	}
}

func TestNoInit(t *testing.T) {
	for _, s := range sources(t) {
		// These say why they need one.
		if s.generated() || strings.HasPrefix(s.path, "internal/exec/engineproc/") ||
			s.path == "internal/exec/sandbox/process/process.go" {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s: tables, not init", s.set.Position(f.Pos()))
			}
		}
	}
}

// TestNoRegexpAtStart checks that no package compiles a regular expression when the program starts:
// every command would pay for it. Package lazily compiles on first use.
func TestNoRegexpAtStart(t *testing.T) {
	for _, s := range sources(t) {
		if s.generated() {
			continue
		}
		for _, d := range s.file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR {
				continue
			}
			ast.Inspect(g, func(n ast.Node) bool {
				if _, ok := n.(*ast.FuncLit); ok {
					return false
				}
				if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "MustCompile" {
					t.Errorf("%s: use lazily.Regexp", s.set.Position(sel.Pos()))
				}
				return true
			})
		}
	}
}

// TestDocComments checks that the comment of a function begins with the function's name, so that no
// comment still has the old name after a renaming. The comment of an init may say why it exists.
func TestDocComments(t *testing.T) {
	tr := &tree{sources: ownSources(t)}
	tr.eachFunc(func(place string, d *ast.FuncDecl) {
		first, _, _ := strings.Cut(strings.Join(strings.Fields(d.Doc.Text()), " "), " ")
		first = strings.TrimSuffix(strings.TrimRight(first, ",:"), "'s")
		if first != "" && first != d.Name.Name && d.Name.Name != "init" {
			t.Errorf("%s: its comment begins with %q, want the function's name", place, first)
		}
	})
}
