package biplane_test

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// beyondKinds lists files that name a kind of upstreams because of what only that kind needs: the
// tools of folders are run by executors, which are created at the start.
var beyondKinds = map[string][]string{"folder": {"internal/daemon/doctor.go", "internal/daemon/reload.go"}}

// An upstreamKind is a row of apiKinds in package config.
type upstreamKind struct{ key, read, typ, stem string }

// listUpstreamKinds returns the rows of apiKinds, with the files that declare their entries.
func listUpstreamKinds(t *testing.T) (kinds []upstreamKind) {
	t.Helper()
	declared := map[string]string{} // file without extension by function
	for _, s := range sources(t) {
		if s.pkg != "config" {
			continue
		}
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				declared[f.Name.Name] = strings.TrimSuffix(path.Base(s.path), ".go")
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || v.Names[0].Name != "apiKinds" {
				return true
			}
			for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
				row := e.(*ast.KeyValueExpr)
				key, err := strconv.Unquote(row.Key.(*ast.BasicLit).Value)
				if err != nil {
					t.Fatalf("strconv.Unquote: %v", err)
				}
				read := row.Value.(*ast.Ident).Name
				kinds = append(kinds, upstreamKind{key: key, read: read, typ: strings.TrimPrefix(read, "read")})
			}
			return false
		})
	}
	for i := range kinds {
		kinds[i].stem = declared[kinds[i].read]
	}
	return kinds
}

// names reports whether a node of the syntax of a package names the kind.
func (k upstreamKind) names(pkg string, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(n.Value)
		return err == nil && (text == k.key || strings.HasSuffix(text, "internal/upstream/"+k.stem))
	case *ast.SelectorExpr:
		x, ok := n.X.(*ast.Ident)
		return ok && x.Name == "config" && (n.Sel.Name == k.typ || n.Sel.Name == k.typ+"Opener")
	case *ast.Ident:
		return pkg == "config" && n.Name == k.read
	}
	return false
}

// TestUpstreamKindTouchesOneRow checks that a kind of upstreams is named only in its own folder, in
// its own files of packages config and daemon, and in one row.
func TestUpstreamKindTouchesOneRow(t *testing.T) {
	kinds := listUpstreamKinds(t)
	if len(kinds) < 3 {
		t.Fatalf("got %d kinds, want at least 3", len(kinds))
	}
	for _, k := range kinds {
		rows := map[string]int{}
		for _, s := range sources(t) {
			own := s.pkg == "upstream/"+k.stem || (s.pkg == "config" || s.pkg == "daemon") &&
				strings.HasPrefix(path.Base(s.path), k.stem)
			if own || slices.Contains(beyondKinds[k.stem], s.path) || s.generated() {
				continue
			}
			ast.Inspect(s.file, func(n ast.Node) bool {
				if n != nil && k.names(s.pkg, n) {
					rows[s.path+":"+strconv.Itoa(s.set.Position(n.Pos()).Line)]++
				}
				return true
			})
		}
		if len(rows) != 1 {
			t.Errorf("upstreams of kind %s are named in %v, want one row, in internal/config/source.go", k.key, rows)
		}
	}
}
