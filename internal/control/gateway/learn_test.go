package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// learned collects the results that are learned.
type learned []string

func (l *learned) LearnResult(t *tool.Tool, r *tool.Result) {
	*l = append(*l, t.Path()+" "+string(r.Structured))
}

// TestLearnedResults checks that results are learned without the values that policy removes, and
// that errors are not.
func TestLearnedResults(t *testing.T) {
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
		Text: []byte(`@redact("**.ssn") permit (principal, action, resource);
			permit (principal, action, resource);`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{Name: "crm", Health: tool.Health{State: tool.Ready},
		Tools: []*tool.Tool{{Name: "get", InputSchema: json.RawMessage(`{"type":"object"}`)},
			{Name: "fails", InputSchema: json.RawMessage(`{"type":"object"}`)}},
		Caller: tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.Tool.Name == "fails" {
				return nil, tool.Errorf(tool.Unavailable, "the upstream is away")
			}
			return tool.ParseResult(json.RawMessage(`{"content":[],"structuredContent":{"ssn":"123-45","name":"ann"}}`))
		})})
	var got learned
	g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: approval.New(approval.Config{}),
		Audit: audittest.NewLog(), Log: slog.New(slog.DiscardHandler), Shapes: &got})
	if err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	if _, err := g.Call(t.Context(), &tool.Call{Path: "crm.get"}); err != nil {
		t.Fatalf("Call: %v", err)
	}
	if _, err := g.Call(t.Context(), &tool.Call{Path: "crm.fails"}); err == nil {
		t.Fatal("Call of a tool that fails: no error")
	}
	if want := []string{`crm.get {"name":"ann","ssn":"[redacted]"}`}; !slices.Equal(got, want) {
		t.Errorf("learned %v, want %v", got, want)
	}
}
