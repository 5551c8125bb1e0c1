package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestCachedDecisions checks that decisions don't depend on what was decided before.
func TestCachedDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := policiesOf(t)
		e := engineOf(t, list, 1)
		tools := map[string]*tool.Tool{}
		requests := make([]policy.Request, 8)
		for i := range requests {
			r := requestOf(t)
			r.Tier = rapid.SampledFrom([]tool.Tier{tool.WASM, tool.GVisor}).Draw(t, "tier")
			r.Findings = rapid.SampledFrom([][]string{nil, {"sql"}}).Draw(t, "findings")
			r.Kinds = rapid.SampledFrom([][]string{nil, nil, {"email"}}).Draw(t, "kinds")
			if path := r.Tool.Path(); tools[path] == nil || rapid.IntRange(0, 9).Draw(t, "redefine") == 0 {
				tools[path] = r.Tool
			}
			r.Tool = tools[r.Tool.Path()]
			requests[i] = r
		}
		for range 2 {
			for _, r := range requests {
				got, want := e.Decide(r), engineOf(t, list, 1).Decide(r)
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Fatalf("%+v\ndecided after others: %+v\nalone: %+v\n%s", r, got, want, strings.Join(list, ""))
				}
			}
		}
	})
}

// BenchmarkDecideAgain decides on a call like earlier ones, by a starter policy.
func BenchmarkDecideAgain(b *testing.B) {
	f, _ := policy.Starter("ask-for-writes")
	e, err := policy.New(policy.Config{Files: []policy.File{f}})
	if err != nil {
		b.Fatalf("policy.New: %v", err)
	}
	r := policy.Request{
		Principal: tool.Principal{ID: "local:ann", Name: "ann", Client: "claude/1.0", Roles: []string{"admin"}},
		Tool:      &tool.Tool{Upstream: "shop", Name: "get", Annotations: tool.Annotations{ReadOnly: new(true)}},
		Parent:    "ex_1", Labels: []string{"untrusted"},
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := e.Decide(r); d.Effect != policy.Allow {
			b.Fatalf("d = %+v, want d.Effect == policy.Allow", d)
		}
	}
}
