package gateway_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestPausedCallsAreRedacted checks that the errors of calls that are not sent, since earlier ones
// failed, have nothing of what the tool said: policy removes fields from that.
func TestPausedCallsAreRedacted(t *testing.T) {
	for name, answer := range map[string]func() (*tool.Result, error){
		"error result": func() (*tool.Result, error) { return tool.Text(true, "no customer has 123-45-6789"), nil },
		"error": func() (*tool.Result, error) {
			return nil, tool.Errorf(tool.Invalid, "no customer has 123-45-6789")
		},
		"no answer": func() (*tool.Result, error) {
			return nil, tool.Errorf(tool.Unavailable, "gone after 123-45-6789")
		},
	} {
		e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
			Text: []byte(`@redact("**.ssn") permit (principal, action, resource);`)}}})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		cat := catalog.New(catalog.Config{})
		cat.Set(catalog.Source{Name: "crm", Health: tool.Health{State: tool.Ready},
			Tools:  []*tool.Tool{{Name: "find", InputSchema: json.RawMessage(`{"type":"object"}`)}},
			Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) { return answer() })})
		limits, err := limit.New(t.Context(), limit.Config{})
		if err != nil {
			t.Fatalf("limit.New: %v", err)
		}
		g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: approval.New(approval.Config{}),
			Audit: audittest.NewLog(), Limits: limits, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatalf("gateway.New: %v", err)
		}
		paused := false
		for range 12 {
			r, err := g.Call(t.Context(), &tool.Call{Path: "crm.find", Principal: tool.Principal{ID: "key:ci"}})
			text := ""
			if err != nil {
				text = tool.AsError(err).Msg
				paused = paused || tool.AsError(err).Unsent
			} else {
				text = string(r.Raw)
			}
			if strings.Contains(text, "123-45") {
				t.Errorf("%s: the caller is told %s", name, text)
			}
		}
		if !paused {
			t.Errorf("%s: the calls are not paused", name)
		}
	}
}
