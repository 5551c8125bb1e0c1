package catalog_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/evanw/esbuild/pkg/api"
	"pgregory.net/rapid"
)

func source(name string, tools ...string) catalog.Source {
	s := catalog.Source{Name: name, Health: tool.Health{State: tool.Ready}}
	for _, t := range tools {
		s.Tools = append(s.Tools, &tool.Tool{Upstream: name, Name: t, InputSchema: []byte(`{"type":"object"}`)})
	}
	return s
}

func catalogOf(sources ...catalog.Source) *catalog.Catalog {
	c := catalog.New(catalog.Config{})
	for _, s := range sources {
		c.Set(s)
	}
	return c
}

func TestMembers(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, test := range []struct {
		tools []string
		want  map[string]string // exact name to safe name; "*" stands for the digits of a suffix
	}{
		{[]string{"list-issues"}, map[string]string{"list-issues": "list_issues"}},
		{[]string{"a.b/c d"}, map[string]string{"a.b/c d": "a_b_c_d"}},
		{[]string{"2fa"}, map[string]string{"2fa": "_2fa"}},
		{[]string{"delete"}, map[string]string{"delete": "delete_"}},
		{[]string{"delete", "delete_"}, map[string]string{"delete": "delete__*", "delete_": "delete_"}},
		{[]string{"then", "constructor", "__proto__", "prototype", "toString", "callTool"},
			map[string]string{"then": "then_",
				"constructor": "constructor_", "__proto__": "__proto___", "prototype": "prototype_",
				"toString": "toString_", "callTool": "callTool_"}},
		{[]string{"search", "fetch", "get"}, map[string]string{"search": "search", "fetch": "fetch", "get": "get"}},
		{[]string{"créer_note", "пошук", "検索", "a😀b"},
			map[string]string{"créer_note": "créer_note", "пошук": "пошук", "検索": "検索", "a😀b": "a_b"}},
		{[]string{"cafe\u0301", "caf\u00e9"}, map[string]string{"cafe\u0301": "caf\u00e9_*", "caf\u00e9": "caf\u00e9"}},
		{[]string{"list-issues", "list_issues"},
			map[string]string{"list-issues": "list_issues_*", "list_issues": "list_issues"}},
		{[]string{"list-issues", "list.issues"},
			map[string]string{"list-issues": "list_issues_*", "list.issues": "list_issues_*"}},
		{[]string{"", " ", "-"}, map[string]string{"": "__*", " ": "__*", "-": "__*"}},
		{[]string{long, long + "y"}, map[string]string{long: long[:96] + "_*", long + "y": long[:96] + "_*"}},
		{[]string{"a\xffb"}, map[string]string{"a\xffb": "a_b"}},
	} {
		v := catalogOf(source("up", test.tools...)).View()
		for exact, want := range test.want {
			e, err := v.Resolve("up." + exact)
			if err != nil {
				t.Errorf("exact = %q, err = %v, want nil", exact, err)
				continue
			}
			pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), `\*`, "[0-9a-f]{6,8}") + "$")
			if e.Tool.Name != exact || !pattern.MatchString(e.Member) {
				t.Errorf("tool %q is %q, want %q", e.Tool.Name, e.Member, want)
			}
		}
	}
}

func TestNamespaces(t *testing.T) {
	v := catalogOf(source("my-server.v2", "a"), source("search", "a"), source("URL", "a"), source("console", "a"),
		source("tools", "a"), source("my_server.v2", "a"), source("fetch", "a"), source("3d", "a")).View()
	got := map[string]string{}
	for _, u := range v.Upstreams() {
		got[u.Name] = u.Namespace
	}
	for name, want := range map[string]string{"search": "search_", "URL": "URL_", "console": "console_",
		"tools": "tools_", "fetch": "fetch", "3d": "_3d"} {
		if got[name] != want {
			t.Errorf("namespace of %q is %q, want %q", name, got[name], want)
		}
	}
	if a, b := got["my-server.v2"], got["my_server.v2"]; a == b || !strings.HasPrefix(a, "my_server_v2_") ||
		!strings.HasPrefix(b, "my_server_v2_") {
		t.Errorf("names spelled alike have namespaces %q and %q", a, b)
	}
}

// nasty generates names that are likely to cause problems.
func nasty() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[ab_.\-]{1,4}`),
		rapid.SampledFrom([]string{"then", "delete", "__proto__", "default", "tools", "search", "a b", "é", "e\u0301",
			"x_y", "x-y", "x.y",
			"", ".", "..", "github", "github.list", strings.Repeat("n", 70), strings.Repeat("n", 99),
			strings.Repeat("é", 200), "\x00", "\xff\xfe", "tools.a", "𝒳"}),
		rapid.String(),
	)
}

func TestNamesProperty(t *testing.T) {
	composed := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	rapid.Check(t, func(t *rapid.T) {
		ups := rapid.MapOfN(nasty(), rapid.SliceOfNDistinct(nasty(), 0, 8, rapid.ID[string]), 1, 5).Draw(t, "upstreams")
		unprefixed := rapid.Bool().Draw(t, "unprefixed")
		var sources []catalog.Source
		for name, tools := range ups {
			if name != tool.Own {
				sources = append(sources, source(name, tools...))
			}
		}
		sources = append(sources, source(tool.Own, "search", "execute", "resume"))
		build := func() *catalog.View {
			c := catalog.New(catalog.Config{Unprefixed: unprefixed})
			rand.Shuffle(len(sources), func(i, j int) { sources[i], sources[j] = sources[j], sources[i] })
			for _, s := range sources {
				rand.Shuffle(len(s.Tools), func(i, j int) { s.Tools[i], s.Tools[j] = s.Tools[j], s.Tools[i] })
				c.Set(s)
			}
			return c.View()
		}
		v, again := build(), build()
		seen := map[string]*catalog.Entry{}
		var total int
		for name, tools := range ups {
			if name != tool.Own {
				total += len(tools)
			}
		}
		if len(v.Entries()) != total {
			t.Fatalf("%d entries of %d tools", len(v.Entries()), total)
		}
		exact := map[string]bool{}
		for _, e := range v.Entries() {
			exact[e.Tool.Path()] = true
		}
		for i, e := range v.Entries() {
			if o := again.Entries()[i]; o.Path() != e.Path() || o.Composed != e.Composed ||
				o.Tool.Path() != e.Tool.Path() {
				t.Fatalf("names depend on the order: %q %q and %q %q", e.Path(), e.Composed, o.Path(), o.Composed)
			}
			if !composed.MatchString(e.Composed) {
				t.Fatalf("composed name %q", e.Composed)
			}
			for _, name := range []string{e.Path(), "tools." + e.Path(), e.Composed} {
				if o := seen[name]; o != nil {
					t.Fatalf("%q and %q are both %q", o.Tool.Path(), e.Tool.Path(), name)
				}
				seen[name] = e
				got, err := v.Resolve(name)
				if exact[name] && name != e.Path() { // "tools." and a safe path, which equals another tool's exact path
					if kindOf(err) != tool.Conflict {
						t.Fatalf("%q of two tools resolves to %v, %v", name, got, err)
					}
				} else if err != nil || got != e {
					t.Fatalf("%q of tool %q resolves to %v, %v", name, e.Tool.Path(), got, err)
				}
			}
			if got, err := v.Resolve(e.Tool.Path()); err == nil && got.Tool.Path() != e.Tool.Path() {
				t.Fatalf("exact path %q resolves to %q", e.Tool.Path(), got.Tool.Path())
			}
			for _, o := range []string{"search", "execute", "resume"} {
				if e.Composed == o || e.Namespace == tool.Own {
					t.Fatalf("%q takes our name: %q, %q", e.Tool.Path(), e.Composed, e.Namespace)
				}
			}
		}
	})
}

// TestNamesParse checks with a real parser that the names are valid as members, bindings and
// exports of a strict module.
func TestNamesParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ups := rapid.SliceOfNDistinct(nasty(), 1, 6, rapid.ID[string]).Draw(t, "upstreams")
		tools := rapid.SliceOfNDistinct(nasty(), 1, 12, rapid.ID[string]).Draw(t, "tools")
		var code strings.Builder
		v := catalogOf(source(ups[0], tools...)).View()
		for _, e := range v.Entries() {
			fmt.Fprintf(&code, "export async function %s(a: unknown): Promise<unknown> { return callTool(a); }\n",
				e.Member)
		}
		var sources []catalog.Source
		for _, u := range ups {
			sources = append(sources, source(u))
		}
		for _, u := range catalogOf(sources...).View().Upstreams() {
			fmt.Fprintf(&code, "{ const %s: any = {}; %s.x(); }\n", u.Namespace, u.Namespace)
		}
		r := api.Transform(code.String(),
			api.TransformOptions{Loader: api.LoaderTS, Target: api.ES2022, Format: api.FormatESModule})
		if len(r.Errors) > 0 || len(r.Warnings) > 0 {
			t.Fatalf("%v %v in\n%s", r.Errors, r.Warnings, code.String())
		}
	})
}

func TestComposed(t *testing.T) {
	long := strings.Repeat("long-", 20)
	v := catalogOf(source("github", "list_issues", "list.issues", "create-issue"), source("github_list", "issues"),
		source("x", long),
		source(tool.Own, "search")).View()
	want := map[string]string{
		"github.create-issue": "^github_create-issue$",
		"github.list_issues":  "^github_list_issues_[0-9a-f]{6}$",
		"github.list.issues":  "^github_list_issues_[0-9a-f]{6}$",
		"github_list.issues":  "^github_list_issues_[0-9a-f]{6}$",
		"x." + long:           "^x_long-[long-]{40,48}_[0-9a-f]{6}$",
		"biplane.search":      "^search$",
	}
	for path, pattern := range want {
		e, err := v.Resolve(path)
		if err != nil || !regexp.MustCompile(pattern).MatchString(e.Composed) {
			t.Errorf("%s: composed name of %+v, %v, want %s", path, e, err, pattern)
		}
	}
	c := catalog.New(catalog.Config{Unprefixed: true})
	c.Set(source("everything", "echo", "search"))
	c.Set(source("other", "add"))
	c.Set(source(tool.Own, "search"))
	for path, want := range map[string]string{"everything.echo": "echo", "everything.search": "everything_search",
		"other.add": "add", "biplane.search": "search"} {
		if e, err := c.View().Resolve(path); err != nil || e.Composed != want {
			t.Errorf("unprefixed: %s is %+v, %v, want %q", path, e, err, want)
		}
	}
}

// TestNamesStable checks that a new tool changes no other tool's name, except one that it collides
// with.
func TestNamesStable(t *testing.T) {
	c := catalogOf(source("up", "a-b", "c-d", "e"))
	before := c.View()
	c.Set(source("up", "a-b", "a.b", "c-d", "e", "zz"))
	after := c.View()
	for _, name := range []string{"up.c-d", "up.e"} {
		x, _ := before.Resolve(name)
		y, _ := after.Resolve(name)
		if x.Member != y.Member || x.Composed != y.Composed {
			t.Errorf("%s was %s and is %s", name, x.Member, y.Member)
		}
	}
	if _, err := after.Resolve("up.a_b"); err == nil {
		t.Error("up.a_b means one of two tools that are spelled so")
	}
}

func FuzzNames(f *testing.F) {
	f.Add("github", "list-issues", "list_issues")
	f.Add("a.b", "c", "b.c")
	f.Fuzz(func(t *testing.T, up, a, b string) {
		v := catalogOf(source(up, a, b), source("a", "b", "b.c")).View()
		for _, e := range v.Entries() {
			for _, name := range []string{e.Path(), e.Composed} {
				if got, err := v.Resolve(name); err != nil || got != e {
					t.Fatalf("%q of tool %q resolves to %v, %v", name, e.Tool.Path(), got, err)
				}
			}
		}
	})
}
