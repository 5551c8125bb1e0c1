package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

const tieredPolicies = `
@id("programs") @tier("process")
permit (principal, action == Action::"execute", resource);
@id("deploys") @tier("gvisor")
permit (principal, action == Action::"call", resource == Tool::"ci.deploy");
@id("files") @tier("process")
permit (principal, action in [Action::"read", Action::"write"], resource);
@id("reads")
permit (principal, action == Action::"call", resource == Tool::"ci.log") when { context.tier == "gvisor" };
`

func tieredEngine(t testing.TB, c policy.Config) *policy.Engine {
	t.Helper()
	c.Files = []policy.File{{Name: "p.cedar", Text: []byte(tieredPolicies)}}
	e, err := policy.New(c)
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	return e
}

// TestTierOfPrograms checks that policy grants a program the tier that its permit requires. A call
// that requires a stronger tier than its program has is denied.
func TestTierOfPrograms(t *testing.T) {
	e := tieredEngine(t, policy.Config{Strongest: tool.MicroVM})
	execute := policy.Request{Tool: &tool.Tool{Upstream: tool.Own, Name: "execute"}}
	if d := e.Decide(execute); d.Effect != policy.Allow || d.Grant.Tier != tool.Process {
		t.Errorf("execute: %+v, want tier process", d)
	}
	if d := tieredEngine(t, policy.Config{Tier: tool.GVisor}).Decide(execute); d.Grant.Tier != tool.GVisor {
		t.Errorf("execute where programs run at least at gvisor: %+v", d)
	}
	deploy := policy.Request{Tool: &tool.Tool{Upstream: "ci", Name: "deploy"}}
	file := policy.Request{File: &policy.FileUse{Path: "workspace/a"}}
	log := policy.Request{Tool: &tool.Tool{Upstream: "ci", Name: "log"}}
	for _, c := range []struct {
		name   string
		r      policy.Request
		parent string
		tier   tool.Tier
		want   policy.Effect
		reason string
	}{
		{"deploy", deploy, "ex_1", tool.WASM, policy.Deny, "at tier gvisor, and this one runs at wasm"},
		{"deploy", deploy, "ex_1", tool.Process, policy.Deny, "at tier gvisor, and this one runs at process"},
		{"deploy", deploy, "ex_1", tool.GVisor, policy.Allow, ""},
		{"deploy", deploy, "ex_1", tool.MicroVM, policy.Allow, ""},
		{"deploy", deploy, "", tool.WASM, policy.Deny, "no program makes this call"},
		{"a file", file, "ex_1", tool.WASM, policy.Deny, "at tier process"},
		{"a file", file, "ex_1", tool.Process, policy.Allow, ""},
		{"log", log, "ex_1", tool.Process, policy.Deny, ""},
		{"log", log, "ex_1", tool.GVisor, policy.Allow, ""},
	} {
		c.r.Parent, c.r.Tier = c.parent, c.tier
		d := e.Decide(c.r)
		if d.Effect != c.want || !strings.Contains(d.Reason, c.reason) {
			t.Errorf("%s by %q at tier %s: %s, %s; want %s, %q", c.name, c.parent, c.tier, d.Effect, d.Reason,
				c.want, c.reason)
		}
	}
	if !e.Looks().Tier || tieredEngine(t, policy.Config{}).Looks().Tier {
		t.Error("decisions depend on the tier of the program if there are several tiers")
	}
}

// TestTiersThatNoSandboxHas checks that tools for which no program is strong enough are hidden, and
// that Check warns about their permits.
func TestTiersThatNoSandboxHas(t *testing.T) {
	for _, c := range []struct {
		strongest tool.Tier
		deploy    bool
		log       bool
		warned    string
	}{
		{tool.WASM, false, false, "[deploys files programs]"},
		{tool.Process, false, true, "[deploys]"}, // a Sight doesn't know which tiers there are
		{tool.GVisor, true, true, "[]"},
	} {
		e := tieredEngine(t, policy.Config{Strongest: c.strongest})
		for name, want := range map[string]bool{"deploy": c.deploy, "log": c.log} {
			if got := e.Shows(policy.Request{Tool: &tool.Tool{Upstream: "ci", Name: name}}); got != want {
				t.Errorf("strongest %s: %s is shown: %t, want %t", c.strongest, name, got, want)
			}
		}
		var warned []string
		_, warnings := e.Check([]*tool.Tool{{Upstream: "ci", Name: "deploy"}, {Upstream: "ci", Name: "log"}})
		for _, w := range warnings {
			if !strings.Contains(w.Message, "no sandbox here is of this tier") || w.Line == 0 {
				t.Errorf("strongest %s: %+v", c.strongest, w)
			}
			warned = append(warned, w.Policy)
		}
		slices.Sort(warned)
		if got := fmt.Sprint(warned); got != c.warned {
			t.Errorf("strongest %s: warned about %s, want %s", c.strongest, got, c.warned)
		}
	}
}

// TestStrongerTiers checks that what some program may call is shown, that no decision allows a tier
// that the program doesn't have, and that a program at a stronger tier may do no less, unless a
// policy reads the tier.
func TestStrongerTiers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, r := policiesOf(t), anyRequest(t)
		c := policy.Config{Tier: tool.Process, Strongest: tool.MicroVM,
			Rules: []policy.Rule{{Pattern: "shop.get", Tags: []string{"prod"}}}}
		c.Files = []policy.File{{Name: "0.cedar", Text: []byte(strings.Join(list, ""))}}
		e, err := policy.New(c)
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		starts := r.Tool != nil && r.Tool.Path() == tool.ExecutePath
		allowed := false
		for _, tier := range []tool.Tier{tool.Process, tool.GVisor, tool.MicroVM} {
			r.Tier = tier
			d := e.Decide(r)
			now := d.Effect != policy.Deny
			if now && !starts && d.Grant.Tier > tier {
				t.Fatalf("%s at tier %s for a program at %s\n%s", d.Effect, d.Grant.Tier, tier, strings.Join(list, ""))
			}
			if now && r.Tool != nil && len(r.Kinds) == 0 && !e.Shows(r) {
				t.Fatalf("%s at tier %s, and hidden: %+v\n%s", d.Effect, tier, r, strings.Join(list, ""))
			}
			if allowed && !now && !strings.Contains(strings.Join(list, ""), "context.tier") {
				t.Fatalf("denied at tier %s only: %+v\n%s", tier, r, strings.Join(list, ""))
			}
			allowed = now
		}
	})
}
