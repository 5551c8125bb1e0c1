package biplane_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/biplane-dev/biplane/"

// mayImport lists the packages of this module that each package may import. Paths are relative to
// internal/, or to the module for packages outside it. A package without a row fails the test. A
// row is a decision that can be changed; its reason is in RATIONALE.md.
var mayImport = map[string][]string{
	"tool":        {},
	"policy":      {"lazily", "tool", "limit", "prose"},
	"approval":    {"tool", "queue"},
	"limit":       {"tool"},
	"hint":        {"tool"},
	"tokens":      {},
	"prose":       {},
	"usage":       {"tool", "tokens", "prose"},
	"metrics":     {"tool", "catalog", "execution"},
	"privacy":     {"lazily", "tool", "prose", "queue"},
	"audit":       {"lazily", "tool", "secret", "secret/mask"},
	"catalog":     {"lazily", "tool", "prose", "third_party/jsonschema", "third_party/jsonschema/kind"},
	"identity":    {"tool", "prose"},
	"secret":      {},
	"secret/mask": {"lazily", "secret"},
	"lazily":      {},
	"stack":       {},
	"sandbox":     {"tool"},
	"upstream":    {"tool"},
	"typegen":     {"lazily", "tool", "third_party/jsonschema"},
	"values":      {"tool", "prose"},
	"egress":      {"tool", "queue"},
	"vfs":         {"tool", "sandbox"},
	"queue":       {"tool"},
	"program":     {"lazily", "tool", "catalog", "program/check", "queue"},

	"program/check":         {"lazily", "tool", "catalog"},
	"sandbox/wasm":          {"tool", "sandbox", "sandbox/wasm/guest", "sandbox/wasm/pyguest", "third_party/cldr", "third_party/quickjs-wasi/qjs", "third_party/cpython/py", "stack"},
	"sandbox/wasm/pyguest":  {"sandbox", "third_party/cpython", "third_party/cpython/py"},
	"sandbox/wasm/guest":    {},
	"sandbox/stream":        {},
	"sandbox/child":         {"tool", "sandbox", "sandbox/child/launch", "stack"},
	"sandbox/child/launch":  {},
	"engineproc":            {"sandbox", "sandbox/child", "sandbox/child/launch", "sandbox/wasm", "engineproc/ahead", "stack"},
	"engineproc/ahead":      {"sandbox/child/launch", "stack"},
	"sandbox/sandboxtest":   {"tool", "sandbox"},
	"upstream/mcp":          {"plaintext", "tool", "upstream", "secret/mask"},
	"upstream/oauth":        {"tool", "secret/mask"},
	"approval/approvaltest": {"tool", "approval"},
	"approval/form":         {"tool", "approval", "secret", "plan", "prose", "queue"},
	"audit/audittest":       {"tool", "audit"},
	"identity/identitytest": {},
	"audit/sink":            {"tool"},
	"audit/export":          {"tool", "audit"},
	"audit/ledger":          {"api", "tool", "audit", "audit/export", "audit/sink", "catalog", "identity", "policy"},
	"plaintext":             {"tool"},
	"upstream/upstreamtest": {
		"tool", "upstream",
	},

	"session":       {"tool", "sandbox", "vfs", "prose"},
	"journal":       {"tool", "sandbox"},
	"session/guest": {"tool", "sandbox", "session"},
	"session/live":  {"tool", "prose", "privacy", "queue", "sandbox", "secret", "session", "session/guest", "skill", "values", "vfs"},
	"skill":         {"lazily", "tool", "session", "tokens", "values", "vfs", "prose"},
	"plan":          {"lazily", "tool", "journal", "typegen", "prose"},
	"execution":     {"lazily", "tool", "prose", "journal", "program", "sandbox"},
	"executor":      {"lazily", "tool", "queue", "sandbox", "program", "vfs", "session", "skill", "journal", "secret", "plan", "tokens", "privacy", "values", "prose", "session/guest", "session/live", "execution", "sandbox/stream", "stack"},
	"gateway":       {"tool", "policy", "approval", "audit", "catalog", "limit", "plan", "privacy", "queue"},
	"store":         {"tool", "stack", "usage", "approval", "audit", "identity", "secret", "session", "journal", "privacy", "store/fault", "store/record"},
	"store/record":  {"tool", "audit", "secret", "store/fault"},
	"store/fault":   {"tool"},
	"relay":         {"tool"},
	"probe":         {"tool", "executor", "program", "prose", "sandbox"},
	"local":         {"api", "tool", "httpapi", "relay", "stack"},
	"mcpserver":     {"tool", "identity", "approval/form", "queue"},
	"httpapi":       {"api", "tool", "queue", "policy", "approval", "audit", "identity", "skill", "journal", "sandbox", "plan", "usage", "web", "prose", "session/live", "execution"},
	"web":           {"tool", "approval", "identity", "plan", "queue"},
	"demo":          {"tool", "api", "daemon", "prose"},
	"bench":         {"lazily", "tool", "demo", "catalog", "typegen", "audit", "store", "secret", "program", "executor", "sandbox", "sandbox/wasm", "sandbox/child", "prose", "session/live"},
	"config":        {"lazily", "tool", "prose", "secret", "secret/mask", "audit", "audit/sink", "catalog", "identity", "limit", "policy", "privacy", "session/live", "usage"},
	"daemon":        {"*"},
	"cli":           {"tool", "api", "audit/ledger", "config", "daemon", "demo", "bench", "prose", "queue"},
	"api":           {},
	"cmd/biplane":   {"cli"},

	"w2x":      {}, // translates the engine; run by go generate
	"peertest": {}, // used by tests only
}

// heavy says which packages may import what is large or dangerous, tests aside.
var heavy = map[string][]string{
	"github.com/modelcontextprotocol/go-sdk/": {"mcpserver", "upstream/mcp"},
	"github.com/tetratelabs/wazero":           {"sandbox/wasm"},
	module + "third_party/quickjs-wasi/qjs":   {"sandbox/wasm"},
	module + "third_party/cpython/py":         {"sandbox/wasm", "sandbox/wasm/pyguest"},
	"modernc.org/sqlite":                      {"store", "store/fault", "demo"},
	"github.com/jackc/pgx":                    {"store"},
	"github.com/spf13/cobra":                  {"cli"},
	"github.com/VictoriaMetrics/":             {"metrics"},
}

// A source is one Go file of ours that isn't generated.
type source struct {
	path  string // below the module's root, with slashes
	pkg   string // as in mayImport
	file  *ast.File
	set   *token.FileSet
	lines int
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
		t.Fatal(err)
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

func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		allowed, known := mayImport[s.pkg]
		if !known {
			t.Errorf("%s: package %s is not in the import table", s.path, s.pkg)
			continue
		}
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(path, module); ok {
				ours = strings.TrimPrefix(ours, "internal/")
				if !slices.Contains(allowed, ours) && !slices.Contains(allowed, "*") {
					t.Errorf("%s: %s may not import %s", s.path, s.pkg, ours)
				}
			}
			for prefix, who := range heavy {
				if strings.HasPrefix(path, prefix) && !slices.Contains(who, s.pkg) {
					t.Errorf("%s: only %v may import %s", s.path, who, path)
				}
			}
		}
	}
}

func TestTableHasNoGhosts(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		found[s.pkg] = true
	}
	for pkg := range mayImport {
		if !found[pkg] {
			t.Errorf("the import table names %s, which does not exist", pkg)
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
		if s.generated() || strings.HasPrefix(s.path, "internal/engineproc/") { // its reason to be: it says why
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s: tables, not init", s.set.Position(f.Pos()))
			}
		}
	}
}
