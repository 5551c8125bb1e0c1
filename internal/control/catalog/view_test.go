package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

func kindOf(err error) tool.Kind {
	var e *tool.Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return ""
}

func TestResolve(t *testing.T) {
	v := catalogOf(source("git-hub", "list-issues", "get.file", "delete"), source("a.b", "c"), source("a", "b.c", "d"),
		source(tool.Own, "search")).View()
	for path, want := range map[string]string{
		"git-hub.list-issues":       "git-hub.list-issues",
		"git_hub.list_issues":       "git-hub.list-issues",
		"git_hub.list-issues":       "git-hub.list-issues",
		"git-hub.list_issues":       "git-hub.list-issues",
		"tools.git_hub.list_issues": "git-hub.list-issues",
		"tools.git-hub.get.file":    "git-hub.get.file",
		"git-hub_list-issues":       "git-hub.list-issues",
		"git_hub.delete_":           "git-hub.delete",
		"git-hub.delete":            "git-hub.delete",
		"a_b.c":                     "a.b.c",
		"a.b_c":                     "a.b.c",
		"a.d":                       "a.d",
		"search":                    "biplane.search",
		"biplane.search":            "biplane.search",
	} {
		e, err := v.Resolve(path)
		if err != nil || e.Tool.Path() != want {
			t.Errorf("%s resolves to %+v, %v, want %s", path, e, err, want)
		}
	}
	if e1, _ := v.Resolve("a_b.c"); e1.Tool.Upstream != "a.b" {
		t.Errorf("a_b.c is of upstream %s", e1.Tool.Upstream)
	}
	_, err := v.Resolve("a.b.c")
	if kindOf(err) != tool.Conflict || !strings.Contains(err.Error(), "a.b_c, a_b.c") {
		t.Errorf("an exact path of two tools: %v", err)
	}
	v = catalogOf(source("a", "delete", "get"), source("tools.a", "delete", "get"), source("tools", "a.get")).View()
	if e, err := v.Resolve("tools.a.delete_"); err != nil || e.Tool.Path() != "a.delete" {
		t.Errorf("a safe path with tools. in front, and half a path of another upstream: %+v, %v", e, err)
	}
	if _, err := v.Resolve("tools.a.get"); kindOf(err) != tool.Conflict ||
		!strings.Contains(err.Error(), "a.get, tools_.a_get, tools_a.get") {
		t.Errorf("a safe path with tools. in front, and two exact paths: %v", err)
	}
	for _, e := range v.Entries() {
		if e.Tool.Upstream == tool.Own {
			t.Error("our own tools are listed")
		}
	}
}

func TestNotFound(t *testing.T) {
	down := catalog.Source{Name: "linear", Health: tool.Health{State: tool.NeedsSignIn, Reason: "401\nfrom\x1b[31m it"}}
	v := catalogOf(source("github", "list_issues", "create_issue", "get_file_contents"),
		source("slack", "post_message"), down).View()
	for _, test := range []struct{ path, want string }{
		{"github.list_isues", `upstream "github" has no tool "list_isues"; did you mean github.list_issues? Use ` +
			`search to find tools by what they do.`},
		{"github.listIssues", "did you mean github.list_issues?"},
		{"github.issues_list", "did you mean github.list_issues?"},
		{"gihub.list_issues", `there is no upstream "gihub"; did you mean github.list_issues?`},
		{"list_issues", "did you mean github.list_issues?"},
		{"tools.github.creat_issue", "did you mean github.create_issue"},
		{"slack.sendMessage", `did you mean slack.post_message?`},
		{"github", `"github" is an upstream, not a tool`},
		{"zzz.qqq", `no tool "zzz.qqq": there is no upstream "zzz". Use search`},
		{"", `no tool ""`},
		{strings.Repeat("x.", 5000), "no tool has a name of 10000 bytes"},
	} {
		_, err := v.Resolve(test.path)
		if kindOf(err) != tool.NotFound || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40s: got %v\nwant %s", test.path, err, test.want)
		}
	}
	_, err := v.Resolve("linear.list_issues")
	const want = "the tools of upstream \"linear\" are not known. upstream \"linear\": needs sign-in (401 from[31m " +
		"it), run `biplane connect linear`."
	if kindOf(err) != tool.Unavailable || !strings.Contains(err.Error(), want) {
		t.Errorf("a tool of an upstream that never told its tools: got %v\nwant %s", err, want)
	}
}

func TestSetHealthOnly(t *testing.T) {
	c := catalogOf(source("a", "x", "y"), source("b", "z"))
	before := c.View()
	s := source("a", "y", "x") // equal tools, newly created
	s.Health = tool.Health{State: tool.Down, Reason: "gone", Stale: true}
	s.Caller = tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil })
	c.Set(s)
	after := c.View()
	for i, e := range after.Entries() {
		if before.Entries()[i] != e {
			t.Errorf("entry %s was made anew", e.Path())
		}
	}
	if h := after.Upstreams()[0].Health; h.State != tool.Down || before.Upstreams()[0].Health.State != tool.Ready {
		t.Errorf("health: %+v; and before: %+v", h, before.Upstreams()[0].Health)
	}
	if _, ok := c.Caller("a"); !ok {
		t.Error("no caller")
	}
	if _, ok := c.Caller("nobody"); ok {
		t.Error("a caller of nobody")
	}
	c.Remove("a")
	if _, err := c.View().Resolve("a.x"); err == nil || len(c.View().Entries()) != 1 {
		t.Errorf("after Remove: %v, %d entries", err, len(c.View().Entries()))
	}
	if _, err := after.Resolve("a.x"); err != nil {
		t.Errorf("a view changed: %v", err)
	}
}

func TestSetHostile(t *testing.T) {
	c := catalog.New(catalog.Config{})
	c.Set(catalog.Source{Name: "up",
		Tools: []*tool.Tool{nil, {Upstream: "other", Name: "a"}, {Upstream: "up", Name: "a", Title: "second"}}})
	if n := len(c.View().Entries()); n != 1 {
		t.Fatalf("%d entries", n)
	}
	if e := c.View().Entries()[0]; e.Tool.Path() != "up.a" || e.Tool.Title != "" {
		t.Errorf("got %+v", e.Tool)
	}
}

func TestConcurrent(t *testing.T) {
	c := catalog.New(catalog.Config{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 30 {
				s := source(fmt.Sprintf("up%d", i), "list-issues", fmt.Sprintf("tool_%d", j/3))
				c.Set(s)
				if j%7 == 6 {
					c.Remove(s.Name)
				}
			}
		})
		wg.Go(func() {
			for range 60 {
				v := c.View()
				v.Search("list the issues", 5)
				for _, e := range v.Entries() {
					if got, err := v.Resolve(e.Path()); err != nil || got != e {
						t.Errorf("e.Path() = %s, err = %v, want err == nil && got == e", e.Path(), err)
					}
					if err := e.Validate([]byte(`{"a":1}`)); err != nil {
						t.Errorf("Validate: %v", err)
					}
				}
				if _, err := c.SearchTool(nil).Call(t.Context(),
					&tool.Call{Arguments: []byte(`{"query":"issues"}`)}); err != nil {
					t.Errorf("Call: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func TestOnlyHidesEverywhere(t *testing.T) {
	c := catalog.New(catalog.Config{})
	schema := json.RawMessage(`{"type":"object"}`)
	c.Set(catalog.Source{Name: "shop", Tools: []*tool.Tool{{Name: "list-orders", InputSchema: schema},
		{Name: "refund-order", InputSchema: schema}}, Health: tool.Health{State: tool.Ready}})
	c.Set(catalog.Source{Name: "bank", Tools: []*tool.Tool{{Name: "transfer-money", InputSchema: schema}},
		Health: tool.Health{State: tool.Ready}})
	c.Set(catalog.Source{Name: "away", Health: tool.Health{State: tool.Down}})
	all := c.View()
	if all.Only(func(*catalog.Entry) bool { return true }) != all {
		t.Error("a View of which nothing is hidden is another one")
	}
	keep := func(e *catalog.Entry) bool { return e.Tool.Name == "list-orders" }
	some := all.Only(keep)
	if len(some.Entries()) != 1 || len(some.Upstreams()) != 2 || !some.Same(all.Only(keep)) || some.Same(all) {
		t.Errorf("%d entries, upstreams %v", len(some.Entries()), some.Upstreams())
	}
	for _, path := range []string{"shop.refund-order", "shop.refund_order", "shop_refund_order", "bank.transfer-money",
		"shop.refund_ordr"} {
		if e, err := some.Resolve(path); err == nil || strings.Contains(err.Error(), "refund_order?") ||
			strings.Contains(err.Error(), "bank.transfer") && path != "bank.transfer-money" {
			t.Errorf("path = %s, e = %v, err = %v", path, e, err)
		}
	}
	if e, err := some.Resolve("shop.list_orders"); err != nil || e.Tool.Name != "list-orders" ||
		some.Entry("shop", "refund-order") != nil {
		t.Errorf("e = %v, err = %v, want err == nil && e.Tool.Name == \"list-orders\" && "+
			"some.Entry(\"shop\", \"refund-order\") == nil", e, err)
	}
	for _, q := range []string{"refund an order", "transfer money", "refund_order", "xyzzy"} {
		hits := some.Search(q, 10)
		if len(hits) != 1 || hits[0].Entry.Tool.Name != "list-orders" {
			t.Errorf(`q = %s, hits = %v, want len(hits) == 1 && hits[0].Entry.Tool.Name == "list-orders"`, q, hits)
		}
	}
	find := c.SearchTool(func(tool.Principal) *catalog.View { return some })
	for _, args := range []string{`{}`, `{"query":"refund money"}`} {
		r, err := find.Call(t.Context(), &tool.Call{Arguments: json.RawMessage(args)})
		if err != nil || strings.Contains(string(r.Raw), "refund_order") || strings.Contains(string(r.Raw), "bank") ||
			strings.Contains(string(r.Raw), "transfer_money") {
			t.Errorf("args = %s, r.Raw = %s, err = %v", args, r.Raw, err)
		}
	}
	if none := all.Only(func(*catalog.Entry) bool {
		return false
	}); len(none.Search("orders", 5)) != 0 || len(none.Entries()) != 0 {
		t.Error("something is left of nothing")
	}
}
