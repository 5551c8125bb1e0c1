package catalog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestWithheld checks that a withheld tool is refused in every spelling, and that nothing else is.
func TestWithheld(t *testing.T) {
	define := func(name string) *tool.Tool {
		return &tool.Tool{Upstream: "my-shop", Name: name, Description: "Returns the price of an article.",
			InputSchema: json.RawMessage(`{"type":"object"}`)}
	}
	c := catalog.New(catalog.Config{})
	source := catalog.Source{Name: "my-shop", Tools: []*tool.Tool{define("getPrice"), define("list")},
		Withheld: []catalog.Withheld{{Tool: define("get-price"), Reason: "is quarantined: changed", Command: "accept"},
			{Tool: define("pay"), Reason: "is withheld: no file"}, {Tool: define("list"), Reason: "is there twice"}}}
	c.Set(source)
	v := c.View()
	for path, want := range map[string]string{
		"my-shop.get-price": "tool my_shop.get_price is quarantined: changed. A person can look at it with " +
			"`biplane tools`, and release it with `accept my_shop.get_price`",
		"tools.my-shop.get-price": "is quarantined",
		"my_shop.get_price":       "is quarantined",
		"my-shop.pay":             "tool my_shop.pay is withheld: no file",
		"my_shop.pay":             "is withheld",
		"tools.my_shop.pay":       "is withheld",
		"my_shop_pay":             "is withheld",
		"my_shop.Pay":             "is withheld",
	} {
		for what, find := range map[string]func(string) (*catalog.Entry, error){"Resolve": v.Resolve, "Find": v.Find} {
			e, err := find(path)
			if err == nil || !strings.Contains(err.Error(), want) || tool.AsError(err).Kind != tool.Denied ||
				!tool.AsError(err).Unsent {
				t.Errorf("%s(%q): %v, %v; want it denied: %s", what, path, e, err, want)
			}
		}
	}
	for _, path := range []string{"my-shop.getPrice", "my_shop.getPrice", "my-shop.list"} {
		if _, err := v.Resolve(path); err != nil {
			t.Errorf("Resolve(%q): %v, want no error", path, err)
		}
	}
	if _, err := v.Resolve("my-shop.nope"); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("Resolve of an unknown tool: %v, want kind not_found", err)
	}
	for _, h := range v.Search("price pay", 10) {
		if h.Entry.Tool.Name == "get-price" || h.Entry.Tool.Name == "pay" {
			t.Errorf("Search found the withheld tool %s", h.Entry.Tool.Name)
		}
	}
	if n := len(v.Entries()); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
	if got := v.PathOf("my-shop", "pay") + v.PathOf("my-shop", "list") + v.PathOf("my-shop", "x"); got !=
		"my_shop.paymy_shop.list" {
		t.Errorf("PathOf returns %q", got)
	}

	// A caller that may not see the tool learns nothing.
	none := v.Only(func(e *catalog.Entry) bool { return e.Tool.Name != "pay" })
	if _, err := none.Resolve("my-shop.pay"); tool.AsError(err).Kind != tool.NotFound {
		t.Errorf("Resolve of a hidden tool that is withheld: %v, want kind not_found", err)
	}

	// All tools are withheld, then released.
	source.Withheld = append(source.Withheld[:2:2], catalog.Withheld{Tool: define("getPrice"), Reason: "x"},
		catalog.Withheld{Tool: define("list"), Reason: "x"})
	source.Tools = nil
	c.Set(source)
	all := c.View().Only(func(*catalog.Entry) bool { return true })
	if _, err := all.Resolve("my-shop.list"); tool.AsError(err).Kind != tool.Denied {
		t.Errorf("Resolve, if all tools are withheld: %v, want kind denied", err)
	}
	source.Withheld, source.Tools = nil, []*tool.Tool{define("pay")}
	c.Set(source)
	if _, err := c.View().Resolve("my-shop.pay"); err != nil {
		t.Errorf("Resolve of a released tool: %v, want no error", err)
	}
}
