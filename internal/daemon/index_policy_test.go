package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestDeclarationsAreOfWhatCanBeCalled checks, for any policies, that all views of the tools agree.
// These are lists, search, the declarations in both languages, the names of mode direct, the
// catalog of mode auto, and calls.
func TestDeclarationsAreOfWhatCanBeCalled(t *testing.T) {
	t.Parallel()
	s := newShop(t, "")
	x := &index{
		policies: s.policies, catalog: s.catalog, upstreams: noUpstreams{},
	}
	rapid.Check(t, func(rt *rapid.T) {
		var b strings.Builder
		for i := range rapid.IntRange(0, 4).Draw(rt, "policies") {
			fmt.Fprintf(&b, "@id(\"p%d\") %s (%s, action == Action::\"call\", %s) %s;\n", i,
				rapid.SampledFrom([]string{"permit", "permit", "forbid"}).Draw(rt, "effect"),
				rapid.SampledFrom([]string{"principal", `principal in Group::"dev"`, `principal == User::"ann"`}).Draw(
					rt, "who"),
				rapid.SampledFrom([]string{"resource", `resource == Tool::"shop.get"`,
					`resource == Tool::"shop.put"`}).Draw(rt, "which"),
				rapid.SampledFrom([]string{"", "when { resource.readOnly }", "unless { resource.readOnly }"}).Draw(rt,
					"when"))
		}
		s.write(t, b.String())
		s.policies.reloadFolder(t.Context())
		if _, problem := s.policies.state(); problem != "" {
			rt.Fatal(problem)
		}
		p := tool.Principal{ID: rapid.SampledFrom([]string{"ann", "bob"}).Draw(rt, "id"),
			Groups: rapid.SampledFrom([][]string{nil, {"dev"}}).Draw(rt, "groups")}
		var listed, direct, found []string
		for _, l := range x.Tools(t.Context(), p) {
			listed = append(listed, l.Path)
		}
		for _, l := range x.ListTools(t.Context(), p) {
			direct = append(direct, l.Tool.Path())
		}
		hits, err := x.Search(t.Context(), p, "shop get put", 10)
		if err != nil {
			rt.Fatalf("Search: %v", err)
		}
		for _, h := range hits {
			found = append(found, h.Path)
		}
		files, written := x.Types(t.Context(), p), x.DescribeTools(t.Context(), p)
		for _, name := range []string{"get", "put"} {
			path := "shop." + name
			may := s.call(path, p) == nil
			_, err := x.Tool(t.Context(), p, path)
			_, ts := files["tools/shop/"+name+".ts"]
			says := map[string]bool{
				"listed": slices.Contains(listed, path), "listed by its own name": slices.Contains(direct, path),
				"found": slices.Contains(found, path), "shown": err == nil,
				"declared":           ts && strings.Contains(files["tools/shop/index.ts"], name),
				"declared in Python": strings.Contains(files["tools/shop/__init__.pyi"], "def "+name+"("),
				"written out":        strings.Contains(written, path+"("),
			}
			for what, is := range says {
				if is != may {
					rt.Errorf("%s may be called: %t, %s: %t\n%s%v", path, may, what, is, b.String(),
						slices.Sorted(maps.Keys(files)))
				}
			}
		}
	})
}
