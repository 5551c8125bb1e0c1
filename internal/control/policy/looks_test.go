package policy_test

import (
	"testing"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestLooks checks which parts of a request decisions depend on.
func TestLooks(t *testing.T) {
	for text, want := range map[string]policy.Dependencies{
		`permit (principal, action, resource);`:                                            {},
		`permit (principal == User::"ann", action, resource);`:                             {},
		`permit (principal in Group::"ops", action, resource);`:                            {Principal: true},
		`permit (principal is User in Group::"ops", action, resource);`:                    {Principal: true},
		`permit (principal, action, resource) when { principal.client == "claude/2" };`:    {},
		`permit (principal, action, resource) when { principal.roles.contains("admin") };`: {Principal: true},
		`permit (principal, action, resource) when { principal has agent };`:               {Principal: true},
		`permit (principal, action, resource) unless { principal in Group::"ops" };`:       {Principal: true},
		`permit (principal, action, resource) when { principal is User in Group::"ops" };`: {Principal: true},
		`permit (principal, action, resource) when { context.arguments has a };`:           {Arguments: true},
		`permit (principal, action, resource) when { context.program };`:                   {},
		`permit (principal, action, resource) when { [context.tier].contains("gvisor") };`: {Tier: true},
		`@tier("gvisor") permit (principal, action == Action::"call", resource);`:          {Tier: true},
		`permit (principal, action, resource) when { if context has tier then true else false};`: {
			Arguments: true, Tier: true},
	} {
		e, err := policy.New(policy.Config{Strongest: tool.GVisor,
			Files: []policy.File{{Name: "p.cedar", Text: []byte(text)}}})
		if err != nil {
			t.Fatalf("text = %s, err = %v, want nil", text, err)
		}
		if got := e.Looks(); got != want {
			t.Errorf("%s: decisions depend on %+v; want %+v", text, got, want)
		}
	}
}
