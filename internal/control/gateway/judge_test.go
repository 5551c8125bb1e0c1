package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

type readJudge struct{}

func (readJudge) OnlyReads(arguments json.RawMessage) bool {
	return bytes.Contains(arguments, []byte("read"))
}

func (readJudge) RenamesFields(arguments json.RawMessage) bool {
	return bytes.Contains(arguments, []byte("rename"))
}

// TestJudgedCalls checks that policy decides on what a call does, if that depends on its arguments,
// whatever the configuration says about the tool.
func TestJudgedCalls(t *testing.T) {
	yes := true
	for _, rules := range [][]policy.Rule{nil, {{Upstream: "shop", ReadOnly: &yes}}} {
		f, _ := policy.Starter("read-only")
		p, err := policy.New(policy.Config{Files: []policy.File{f}, Rules: rules})
		if err != nil {
			t.Fatalf("load the policies: %v", err)
		}
		cat := catalog.New(catalog.Config{})
		var reads []bool
		cat.Set(catalog.Source{Name: "shop",
			Tools: []*tool.Tool{{Name: "query", InputSchema: []byte(`{"type":"object"}`), Judge: readJudge{}}},
			Caller: tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				reads = append(reads, c.Tool.Annotations.Reads() && c.Tool.Annotations.Repeats())
				return tool.Text(false, "fine"), nil
			})})
		g, err := New(Config{Catalog: cat, Policy: p, Approval: new(approval.Gate),
			Log: slog.New(slog.DiscardHandler), Audit: audittest.NewLog()})
		if err != nil {
			t.Fatalf("make the gateway: %v", err)
		}
		if g.Visible(tool.Principal{}).Entry("shop", "query") == nil {
			t.Error("a tool of which some calls are allowed is hidden")
		}
		for _, what := range []string{"read", "write", "read"} {
			_, err := g.Call(t.Context(), &tool.Call{Path: "shop.query", Arguments: []byte(`{"do":"` + what + `"}`)})
			if denied := err != nil && tool.AsError(err).Kind == tool.Denied; denied != (what == "write") {
				t.Errorf("%s with the rules %v: got %v", what, rules, err)
			}
		}
		if len(reads) != 2 || !reads[0] || !reads[1] {
			t.Errorf("of the calls that were sent these are known to read: %v", reads)
		}
	}
}

// TestApprovedJudgedCall checks that an approved call that only reads is looked at again as one
// that reads, before it is made.
func TestApprovedJudgedCall(t *testing.T) {
	p, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar", Text: []byte(
		`@ask("people") permit (principal, action, resource) when { resource.readOnly };`)}}})
	if err != nil {
		t.Fatalf("load the policies: %v", err)
	}
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{Name: "shop",
		Tools: []*tool.Tool{{Name: "query", InputSchema: []byte(`{"type":"object"}`), Judge: readJudge{}}}})
	g, err := New(Config{Catalog: cat, Policy: p, Approval: new(approval.Gate),
		Log: slog.New(slog.DiscardHandler), Audit: audittest.NewLog()})
	if err != nil {
		t.Fatalf("make the gateway: %v", err)
	}
	for what, permitted := range map[string]bool{"read": true, "write": false} {
		args := json.RawMessage(`{"do":"` + what + `"}`)
		c := &tool.Call{Tool: cat.View().Entry("shop", "query").Tool.ForCall(args), Arguments: args}
		if err := (approvedCall{g, c}).RecheckCall(t.Context()); (err == nil) != permitted {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestRenamedFieldsAreNotRedacted checks that a call that renames the fields of its result is
// denied where policy removes fields, and only there.
func TestRenamedFieldsAreNotRedacted(t *testing.T) {
	for text, denies := range map[string]bool{
		`@redact("**.ssn") permit (principal, action, resource);`: true,
		`permit (principal, action, resource);`:                   false,
	} {
		p, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar", Text: []byte(text)}}})
		if err != nil {
			t.Fatalf("load the policies: %v", err)
		}
		cat := catalog.New(catalog.Config{})
		cat.Set(catalog.Source{Name: "shop",
			Tools: []*tool.Tool{{Name: "query", InputSchema: []byte(`{"type":"object"}`), Judge: readJudge{}}},
			Caller: tool.CallerFunc(func(context.Context, *tool.Call) (*tool.Result, error) {
				return tool.Text(false, "fine"), nil
			})})
		g, err := New(Config{Catalog: cat, Policy: p, Approval: new(approval.Gate),
			Log: slog.New(slog.DiscardHandler), Audit: audittest.NewLog()})
		if err != nil {
			t.Fatalf("make the gateway: %v", err)
		}
		for what, want := range map[string]bool{"read": false, "rename": denies} {
			_, err := g.Call(t.Context(), &tool.Call{Path: "shop.query", Arguments: []byte(`{"do":"` + what + `"}`)})
			if denied := err != nil && tool.AsError(err).Kind == tool.Denied; denied != want {
				t.Errorf("%s under %s: %v", what, text, err)
			}
		}
	}
}
