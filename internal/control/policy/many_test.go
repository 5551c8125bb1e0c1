package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// many returns an engine of n policies that read arguments, and the tools that they apply to.
func many(tb testing.TB, n int, format string) (*policy.Engine, []*tool.Tool) {
	tb.Helper()
	var text strings.Builder
	text.WriteString("@id(\"writes\") @ask(\"approvers\") permit (principal, action == Action::\"call\", resource) " +
		"unless { resource.readOnly };\n")
	var tools []*tool.Tool
	for i := range n {
		fmt.Fprintf(&text, format+"\n", i)
		if i%10 == 0 {
			tools = append(tools, &tool.Tool{Upstream: fmt.Sprintf("srv%d", i%50), Name: fmt.Sprintf("tool%d", i),
				InputSchema: json.RawMessage(
					`{"type":"object","properties":{"to":{"type":"string"},"n":{"type":"integer"}}}`)})
		}
	}
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar", Text: []byte(text.String())}}})
	if err != nil {
		tb.Fatalf("policy.New: %v", err)
	}
	return e, tools
}

var manyFormats = map[string]string{
	"tool": `forbid (principal, action == Action::"call", resource == Tool::"srv0.tool%[1]d") when { ` +
		`context.arguments has to && context.arguments.to like "*@%[1]d.example" };`,
	"upstream": `forbid (principal, action == Action::"call", resource in Upstream::"srv%[1]d") when { ` +
		`context.arguments has to && context.arguments.to like "*@%[1]d.example" };`,
	"open": `forbid (principal, action == Action::"call", resource) when { context.arguments has to && ` +
		`context.arguments.to like "*@%[1]d.example" };`,
}

func BenchmarkDecide1000(b *testing.B) {
	for name, format := range manyFormats {
		e, tools := many(b, 1000, format)
		r := policy.Request{Principal: tool.Principal{ID: "ann"}, Tool: tools[0],
			Arguments: json.RawMessage(`{"to":"bob@example.com","n":1}`)}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if d := e.Decide(r); d.Effect != policy.Ask {
					b.Fatalf("d = %v, want d.Effect == policy.Ask", d)
				}
			}
		})
	}
}

func BenchmarkSight1000(b *testing.B) {
	for name, format := range manyFormats {
		e, tools := many(b, 1000, format)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := e.Sight(tool.Principal{ID: "ann"}, time.Time{})
				for _, t := range tools {
					if !s.Shows(t) {
						b.Fatalf("t.Path() = %v, want s.Shows(t)", t.Path())
					}
				}
			}
		})
	}
}
