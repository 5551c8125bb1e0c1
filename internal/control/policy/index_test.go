package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/policy"
)

// Scopes and conditions that an index must treat like Cedar, including some that fail.
var (
	anyScopes = append([]string{
		`resource is Tool`, `resource is File`, `resource is Host`, `resource is Tool in Upstream::"shop"`,
		`resource is File in Folder::"workspace/a"`,
		`resource in Tool::"shop.get"`, `resource in Tool::"shop.put"`, `resource in Folder::"workspace"`,
		`resource == File::"workspace/a/b"`,
		`resource == Host::"api.example.com"`, `resource in Upstream::"nothing"`,
	}, scopes...)
	anyPeople = append([]string{`principal is User`, `principal is User in Group::"ops"`, `principal in User::"bob"`},
		people...)
	anyActs = append([]string{
		`action in Action::"call"`, `action in [Action::"read", Action::"write", Action::"connect"]`,
		`action == Action::"reveal"`, `action in [Action::"reveal", Action::"call"]`,
		`action == Action::"connect"`, `action == Action::"read"`,
	}, acts...)
	anyConditions = append([]string{
		`Tool::"shop.get".readOnly`, `!Tool::"shop.put".readOnly && context.program`, `User::"ann".agent == "ci"`,
		`context.arguments.missing == 1`, `context.arguments.a + 1 > 1`, `resource == Tool::"shop.get"`,
		`resource in Upstream::"shop"`, `Tool::"shop.get" == resource`,
		`context.labels.contains("pii") && resource.readOnly`, `action == Action::"call"`,
		`principal == User::"ann" || context.arguments.a == 1`, `true`, `false`,
		`if context.program then resource.readOnly else principal.agent == "ci"`, `resource.name like "*et"`,
		`context has arguments && context.arguments has a`,
	}, append(append([]string{}, sureConditions...), unsureConditions...)...)
)

func anyPolicy(t *rapid.T, i int) string {
	pick := func(label string, list []string) string { return rapid.SampledFrom(list).Draw(t, label) }
	var b strings.Builder
	fmt.Fprintf(&b, "@id(\"p%02d\")", i)
	effect := pick("effect", []string{"permit", "permit", "forbid"})
	if effect == "permit" {
		b.WriteString(pick("bound", []string{"", `@ask("a,b")`, `@ask("b")`, `@tier("gvisor")`, `@reason("r")`}))
	}
	fmt.Fprintf(&b, " %s (%s, %s, %s)", effect, pick("who", anyPeople), pick("what", anyActs), pick("where", anyScopes))
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		fmt.Fprintf(&b, " %s { %s }", pick("when", []string{"when", "when", "unless"}),
			pick("condition", anyConditions))
	}
	return b.String() + ";\n"
}

func anyRequest(t *rapid.T) policy.Request {
	r := requestOf(t)
	switch rapid.SampledFrom([]string{"call", "file", "host", "reveal"}).Draw(t, "about") {
	case "file":
		r.Tool, r.File = nil, &policy.FileUse{
			Path: rapid.SampledFrom([]string{"workspace/a/b", "workspace/a", "workspace/x", "skills/x.ts"}).Draw(t,
				"path"),
			Write: rapid.Bool().Draw(t, "write"),
		}
	case "host":
		fetch := *r.Tool
		fetch.Upstream, fetch.Name = "biplane", rapid.SampledFrom([]string{"fetch", "send"}).Draw(t, "fetch")
		r.Tool, r.Arguments = &fetch,
			[]byte(`{"url":"https://`+rapid.SampledFrom([]string{"api.example.com", "x.example.com"}).Draw(t, "host")+
				`/"}`)
	case "reveal":
		r.Kinds = []string{"email"}
	}
	return r
}

// TestTheIndexChangesNothing checks that decisions and visible tools are the same whether all
// policies are evaluated or only the ones that the index finds.
func TestTheIndexChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept []string
		for i := range rapid.IntRange(0, 12).Draw(t, "policies") {
			p := anyPolicy(t, i)
			// otherwise a bound or a type is invalid
			if _, err := policy.New(
				policy.Config{Files: []policy.File{{Name: "x.cedar", Text: []byte(p)}}}); err == nil {
				kept = append(kept, p)
			}
		}
		e := engineOf(t, kept, 1)
		for range 4 {
			r := anyRequest(t)
			if got, want := e.Decide(r), policy.Plain(e).Decide(r); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%+v\ndecided %+v\nplainly %+v\n%s", r, got, want, strings.Join(kept, ""))
			}
			if got, want := e.Shows(r), policy.PlainShows(e, r); got != want {
				t.Fatalf("%+v\nshown %t, plainly %t\n%s", r, got, want, strings.Join(kept, ""))
			}
		}
		// One Sight is used for many tools: results cached for one must be valid for the next.
		who := requestOf(t)
		s := e.Sight(who.Principal, who.Time)
		for range 6 {
			r := requestOf(t)
			r.Principal, r.Time = who.Principal, who.Time
			if got, want := s.Shows(r.Tool), policy.PlainShows(e, r); got != want {
				t.Fatalf("%+v\nshown %t, plainly %t\n%s", r, got, want, strings.Join(kept, ""))
			}
		}
	})
}
