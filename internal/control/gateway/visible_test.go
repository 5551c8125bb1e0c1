package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

var toolNames = []string{"shop.list_orders", "shop.refund_order", "bank.read_balance", "bank.transfer_money",
	"mail.send_letter"}

// town returns a catalog of three upstreams, and search.
func town() *catalog.Catalog {
	cat := catalog.New(catalog.Config{})
	ok := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
		return tool.Text(false, "done"), nil
	})
	by := map[string][]*tool.Tool{}
	for _, n := range toolNames {
		up, name, _ := strings.Cut(n, ".")
		reads := strings.HasPrefix(name, "list") || strings.HasPrefix(name, "read")
		by[up] = append(by[up],
			&tool.Tool{Name: name,
				InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`),
				Annotations: tool.Annotations{ReadOnly: &reads}})
	}
	for up, tools := range by {
		cat.Set(catalog.Source{Name: up, Caller: ok, Tools: tools, Health: tool.Health{State: tool.Ready}})
	}
	return cat
}

func doorUnder(t interface{ Fatalf(string, ...any) }, cat *catalog.Catalog, text string) (*gateway.Gateway,
	*audit.Log) {
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar", Text: []byte(text)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	record := audittest.NewLog()
	g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: approval.New(approval.Config{}),
		Audit: record, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	cat.Set(catalog.Source{Name: tool.Own, Tools: []*tool.Tool{catalog.SearchDefinition()},
		Caller: cat.SearchTool(g.Visible), Health: tool.Health{State: tool.Ready}})
	return g, record
}

// Listing, search, and calls from outside and from programs always agree.
func TestWhatIsSeenIsWhatCanBeCalled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for i := range rapid.IntRange(0, 5).Draw(t, "policies") {
			effect := rapid.SampledFrom([]string{"permit", "permit", "forbid", `@ask("x") permit`}).Draw(t, "effect")
			who := rapid.SampledFrom([]string{"principal", `principal in Group::"dev"`,
				`principal == User::"ann"`}).Draw(t, "who")
			where := rapid.SampledFrom([]string{"resource", `resource in Upstream::"shop"`,
				`resource == Tool::"bank.transfer_money"`, `resource == Tool::"mail.send_letter"`}).Draw(t, "where")
			when := rapid.SampledFrom([]string{"", "when { resource.readOnly }", "unless { resource.readOnly }",
				"when { context.arguments has n && context.arguments.n == 1 }"}).Draw(t, "when")
			if effect == "forbid" && strings.Contains(when, "arguments") {
				// Combined with a permit on the same argument it would leave nothing, which partial
				// evaluation can't see.
				when = ""
			}
			fmt.Fprintf(&b, "@id(\"p%d\") %s (%s, action == Action::\"call\", %s) %s;\n", i, effect, who, where, when)
		}
		g, _ := doorUnder(t, town(), b.String())
		p := tool.Principal{ID: rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "id"),
			Groups: rapid.SampledFrom([][]string{nil, {"dev"}}).Draw(t, "groups")}
		listed := map[string]bool{}
		for _, e := range g.Tools(p) {
			listed[e.Tool.Path()] = true
		}
		for _, name := range toolNames {
			may := false
			for _, args := range []string{`{}`, `{"n":1}`, `{"n":2}`} {
				for _, parent := range []string{"", "ex_1"} {
					_, err := g.Call(context.Background(), &tool.Call{Path: name,
						Arguments: json.RawMessage(args), Principal: p, By: &tool.Program{Execution: parent}})
					may = may || err == nil || strings.Contains(err.Error(), "requires a person's approval")
				}
			}
			r, err := g.Call(context.Background(),
				&tool.Call{Path: "biplane.search",
					Arguments: json.RawMessage(`{"limit":10,"query":"` + strings.ReplaceAll(name, "_", " ") + `"}`),
					Principal: p})
			if err != nil {
				t.Fatalf("Call: %v", err)
			}
			found := strings.Contains(string(r.Raw), name)
			_, err = g.Visible(p).Resolve(name)
			if listed[name] != may || found != may || (err == nil) != may ||
				g.Shows(p, &tool.Tool{Upstream: name[:4], Name: name[5:]}) != may {
				t.Fatalf("%s: may be called %t, listed %t, found %t, resolved %v\n%s", name, may, listed[name], found,
					err, b.String())
			}
		}
	})
}

func TestSuggestionsNameOnlyWhatMayBeSeen(t *testing.T) {
	g, _ := doorUnder(t, town(), `permit (principal, action, resource in Upstream::"shop");`)
	_, err := g.Call(t.Context(), &tool.Call{Path: "bank.transfer_mony"})
	if e := tool.AsError(err); e == nil || e.Kind != tool.NotFound || strings.Contains(e.Msg, "transfer_money") {
		t.Errorf("err = %v, want e != nil && e.Kind == tool.NotFound && !strings.Contains(e.Msg, "+
			"\"transfer_money\")", err)
	}
	if _, err = g.Call(t.Context(), &tool.Call{Path: "shop.refund_ordr"}); err == nil ||
		!strings.Contains(err.Error(), "did you mean shop.refund_order") {
		t.Errorf(`err = %v, want err != nil && strings.Contains(err.Error(), "did you mean shop.refund_order")`, err)
	}
}

func TestTheRecordHasThePoliciesAndTheirVersion(t *testing.T) {
	g, record := doorUnder(t, town(), `@id("shop-only") permit (principal, action, resource in Upstream::"shop");`)
	for path, policyID := range map[string]string{"shop.list_orders": "shop-only@", "mail.send_letter": "none@"} {
		_, _ = g.Call(t.Context(), &tool.Call{Path: path}) // the audit log has the result
		all, err := record.Records(t.Context(), audit.Query{Tool: path})
		if err != nil || len(all) != 1 {
			t.Fatalf("%d records, %v", len(all), err)
		}
		if d := all[0].Decision; !strings.HasPrefix(d.Policy, policyID) || len(d.Policy) != len(policyID)+16 ||
			d.Reason == "" {
			t.Errorf("path = %s, d = %+v, want strings.HasPrefix(d.Policy, policyID) && len(d.Policy) "+
				"== len(policyID)+16 && d.Reason != \"\"", path, d)
		}
	}
}

func TestViewsAreKept(t *testing.T) {
	cat := town()
	g, _ := doorUnder(t, cat, `permit (principal, action, resource) when { principal.groups.contains("all") || `+
		`resource.readOnly };`)
	some, all := tool.Principal{ID: "a"}, tool.Principal{ID: "a", Groups: []string{"all"}}
	if v := g.Visible(some); v != g.Visible(some) || len(v.Entries()) != 2 || v == cat.View() {
		t.Error("the same principal gets another view, or too much")
	}
	if g.Visible(all) != cat.View() {
		t.Error("the view of a principal who sees all tools is not the whole view")
	}
	cat.Remove("bank")
	if v := g.Visible(some); len(v.Entries()) != 1 {
		t.Errorf("after an upstream went: %d tools", len(v.Entries()))
	}
}
