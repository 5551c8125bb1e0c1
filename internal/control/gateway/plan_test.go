package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/approval/approvaltest"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A plan is not carried out if it is undecided or malformed, or if one of its calls is denied or
// names an unknown tool.
func TestPlanThatIsNotCarriedOut(t *testing.T) {
	note := &tool.Tool{Upstream: "crm", Name: "note", InputSchema: json.RawMessage(`{"type":"object"}`)}
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
		Text: []byte(`@ask("people") permit (principal, action, resource == Tool::"crm.note");`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	of := func(tool, definition, policies string) string {
		return `{"policies":"` + policies + `","writes":[{"tool":"` + tool + `","arguments":{},"definition":"` +
			definition + `"}]}`
	}
	for name, c := range map[string]struct{ args, says string }{
		"expired":        {of("crm.note", note.Digest(), e.Version()), "biplane.plan was not decided on in time"},
		"denied":         {of("crm.drop", note.Digest(), e.Version()), "denied"},
		"gone":           {of("crm.gone", note.Digest(), e.Version()), "the tool is not there any more"},
		"other tool":     {of("crm.note", "other", e.Version()), "the tool has changed"},
		"other policies": {of("crm.note", note.Digest(), "other"), "the policies have changed"},
		"no plan":        {`{}`, "this is no plan"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cat := catalog.New(catalog.Config{})
				drop := *note
				drop.Name = "drop"
				cat.Set(catalog.Source{Name: "crm", Health: tool.Health{State: tool.Ready},
					Tools: []*tool.Tool{note, &drop},
					Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
						t.Error("it was called")
						return tool.Text(false, ""), nil
					})})
				if name == "denied" {
					c.args = strings.Replace(c.args, note.Digest(), cat.View().Entry("crm", "drop").Tool.Digest(), 1)
				}
				door, err := gateway.New(gateway.Config{Catalog: cat, Policy: e,
					Approval: approval.New(approval.Config{Store: approvaltest.NewMemory(), Expires: time.Hour}),
					Audit:    audittest.NewLog(), Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatalf("gateway.New: %v", err)
				}
				_, err = door.Call(t.Context(),
					&tool.Call{ID: "ex_1.1", Path: tool.PlanPath, Arguments: json.RawMessage(c.args),
						By: &tool.Program{Execution: "ex_1",
							Plan: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
								t.Error("it was carried out")
								return tool.Text(false, ""), nil
							})}})
				if err == nil || !strings.Contains(err.Error(), c.says) || !tool.AsError(err).Unsent {
					t.Errorf("%v: want %q", err, c.says)
				}
			})
		})
	}
}

// Only an execution asks about a plan: it is not a tool.
func TestPlanIsNoTool(t *testing.T) {
	w := newWorld(t, open(), audittest.NewMemory(), ok)
	for _, parent := range []string{"", "ex_1"} {
		_, err := w.door.Call(t.Context(), &tool.Call{Path: tool.PlanPath, By: &tool.Program{Execution: parent},
			Arguments: json.RawMessage(`{"writes":[{"tool":"shop.get-order","arguments":{"id":1}}]}`)})
		if e := tool.AsError(err); e == nil || e.Kind != tool.NotFound {
			t.Errorf("err = %v, want e != nil && e.Kind == tool.NotFound", err)
		}
	}
}

// TestPlanOfProgramWithFindings checks that the approvers of a plan are those of its calls in that
// program: policies may ask others about programs in which the review found faults.
func TestPlanOfProgramWithFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		note := &tool.Tool{Name: "note", InputSchema: json.RawMessage(`{"type":"object"}`)}
		nothing := tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil })
		e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar", Text: []byte(`
			@ask("leads") permit (principal, action, resource) when { context.findings.contains("sql") };
			permit (principal, action, resource);`)}}})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		cat := catalog.New(catalog.Config{})
		cat.Set(catalog.Source{Name: "crm", Health: tool.Health{State: tool.Ready}, Tools: []*tool.Tool{note},
			Caller: nothing})
		people := approval.New(approval.Config{Store: approvaltest.NewMemory(), Expires: time.Hour})
		door, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: people,
			Audit: audittest.NewLog(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("gateway.New: %v", err)
		}
		args := `{"policies":"` + e.Version() + `","writes":[{"tool":"crm.note","arguments":{},"definition":"` +
			cat.View().Entry("crm", "note").Tool.Digest() + `"}]}`
		go func() {
			_, _ = door.Call(t.Context(), &tool.Call{ID: "ex_1.1", Path: tool.PlanPath,
				Arguments: json.RawMessage(args),
				By:        &tool.Program{Execution: "ex_1", Findings: []tool.Finding{{Rule: "sql"}}, Plan: nothing}})
		}()
		synctest.Wait()
		all, err := people.List(t.Context(), approval.Query{})
		if err != nil || len(all) != 1 || len(all[0].Approvers) != 1 || all[0].Approvers[0] != "leads" {
			t.Errorf("the requests are %+v, %v: want one for leads", all, err)
		}
		time.Sleep(2 * time.Hour) // it expires, so that the call ends
	})
}
