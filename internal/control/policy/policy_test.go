package policy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

var update = flag.Bool("update", false, "write the decisions that come out into the files of cases")

// open returns an engine of the starter that allows every call, at the given tier.
func open(tier tool.Tier) *policy.Engine {
	f, _ := policy.Starter("open")
	e, err := policy.New(policy.Config{Name: "open", Files: []policy.File{f}, Tier: tier})
	if err != nil {
		panic(err)
	}
	return e
}

func TestZeroEngineDenies(t *testing.T) {
	d := new(policy.Engine).Decide(policy.Request{Tool: &tool.Tool{Upstream: "a", Name: "b"}})
	if d.Effect != policy.Deny || d.Reason == "" {
		t.Errorf("zero engine: %+v, want a denial with its reason", d)
	}
	if d := open(tool.WASM).Decide(policy.Request{}); d.Effect != policy.Deny {
		t.Errorf("no tool: %+v, want a denial", d)
	}
}

func TestOpenAllowsAtItsTier(t *testing.T) {
	d := open(tool.GVisor).Decide(policy.Request{Tool: &tool.Tool{Upstream: "a", Name: "b"}})
	if d.Effect != policy.Allow || d.Grant.Tier != tool.GVisor || d.Policy != "open" || len(d.Version) != 16 {
		t.Errorf("open: %+v, want allow at gvisor", d)
	}
}

// A case file without its own policies uses the starter policy of the same name. One without tools
// uses testdata/tools.json.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	shared, err := os.ReadFile("testdata/tools.json")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			archive, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("os.ReadFile: %v", err)
			}
			cfg := policy.Config{}
			if f, ok := policy.Starter(strings.TrimPrefix(strings.TrimSuffix(filepath.Base(name), ".txtar"),
				"trio-")); ok {
				cfg.Files = []policy.File{f}
			}
			a := txtar.Parse(archive)
			a.Files = append([]txtar.File{{Name: "tools.json", Data: shared}}, a.Files...)
			results, got, err := policy.Cases(name, txtar.Format(a), cfg)
			if err != nil {
				t.Fatalf("policy.Cases: %v", err)
			}
			for _, r := range results {
				if !r.OK && !*update {
					t.Errorf("%s\n  got  %s\n  want %s", r.Case, r.Got, r.Want)
				}
			}
			if *update {
				out := txtar.Parse(got)
				out.Files = out.Files[1:]
				if err := os.WriteFile(name, txtar.Format(out), 0o644); err != nil {
					t.Fatalf("os.WriteFile: %v", err)
				}
			}
		})
	}
}

func TestCasesSayWhereTheyAreWrong(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{"-- cases --\nas ann\ncal x.y\n", `f:3: "cal" is none of`},
		{"-- tools.json --\n[{\"upstream\":\"shop\",\"name\":\"get\"}]\n-- cases --\ncall shop.got\n",
			`f:4: tools.json has no "shop.got": did you mean "shop.get"?`},
		{"-- tools.json --\n[{\"up\":\"shop\"}]\n-- cases --\n", "tools.json"},
		{"-- x.cedar --\npermit\n-- cases --\n", "x.cedar:"},
		{"nothing", "the file cases is missing"},
		{"-- other --\n-- cases --\n", "unexpected file other"},
	} {
		if _, _, err := policy.Cases("f", []byte(c.text), policy.Config{}); err == nil ||
			!strings.Contains(err.Error(), c.says) || tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("%q: %v, want %q", c.text, err, c.says)
		}
	}
	r, _, err := policy.Cases("f",
		[]byte("-- x.cedar --\npermit(principal, action, resource);\n-- cases --\n\ncall biplane.execute\n  deny\n"),
		policy.Config{})
	if err != nil || len(r) != 1 || r[0].OK || r[0].Line != 5 || r[0].Got != "allow x.cedar:1" || r[0].Want != "deny" {
		t.Errorf("r = %+v, err = %v", r, err)
	}
}

func TestBadPoliciesAreRefused(t *testing.T) {
	for _, c := range []struct{ text, says string }{
		{`permit(principal, action == Action::"cal", resource);`,
			`x.cedar:1:38: unknown action "cal": did you mean "call"?`},
		{"permit(principal, action, resource)\nwhen {\n  principal.gruops.contains(\"x\") };",
			`x.cedar:3:13: attribute ` + "`gruops`" + ` on entity type ` + "`User`" +
				` not found: did you mean "groups"?`},
		{`permit(principal, action, resource) when { resource.readonly };`, `did you mean "readOnly"?`},
		{`permit(principal, action, resource) when { resource.readOnly == "yes" };`,
			"Bool and String are not compatible"},
		{`permit(principal, action, resource == Toool::"x");`, "unrecognized entity type `Toool`"},
		{`permit(principal, action in [Action::"call", Action::"wirte"], resource);`,
			`unknown action "wirte": did you mean "write"?`},
		{`permit(principal, action == Action::"connect", resource == Host::"https://a.example");`,
			`invalid entity Host::"https://a.example"`},
		{`permit(principal, action == Action::"connect", resource) when { context.methd == "GET" };`,
			`did you mean "method"?`},
		{`@redact("x") permit(principal, action == Action::"connect", resource);`,
			`@redact can't remove fields from a host's answer`},
		{`@ask("x") permit(principal, action == Action::"read", resource);`, `approval is not available for files`},
		{`@redact("x") permit(principal, action in [Action::"read", Action::"write"], resource);`,
			`@limit and @redact apply to calls, not to files`},
		{`permit(principal, action, resource in Folder::"/workspace");`, `unknown folder Folder::"/workspace"`},
		{`permit(principal, action, resource in Folder::"workspaec");`, `did you mean "workspace"?`},
		{`permit(principal, action, resource == File::"data.csv");`, `files have names like "workspace/data.csv"`},
		{`permit(principal, action == Action::"read", resource) when { resource.paht like "x" };`,
			`did you mean "path"?`},
		{`@aks("x") permit(principal, action, resource);`, `unknown annotation @aks: did you mean "ask"?`},
		{`@ask permit(principal, action, resource);`, `@ask needs the groups`},
		{`@ask("x") forbid(principal, action, resource);`, `has no effect on a forbid`},
		{`@tier("docker") permit(principal, action, resource);`, `unknown tier "docker"`},
		{`@limit("calls=100/1m") permit(principal, action, resource);`,
			`invalid limit "calls=100/1m": write one like "calls: 10 per 1m"`},
		{"permit(principal, action, resource);\n  @limit(\"clals: 1 per 1m\") permit(principal, action, resource);",
			`x.cedar:2:3: @limit: "clals" can't be limited`},
		{`@limit("clals: 1 per 1m") permit(principal, action, resource);`, `did you mean "calls"?`},
		{`@limit("") permit(principal, action, resource);`, `write how much may be used`},
		{`@limit("calls: 1") permit(principal, action, resource);`, `a limit of calls needs a window`},
		{`@limit("calls: 0 per 1m") permit(principal, action, resource);`, `max must be over 0`},
		{`@limit("calls: 99999999999999999999 per 1m") permit(principal, action, resource);`, `the maximum is`},
		{`@limit("calls: 1 per 10ms") permit(principal, action, resource);`, `invalid window "10ms"`},
		{`@limit("calls: 1 per 99999999d") permit(principal, action, resource);`, `invalid window "99999999d"`},
		{`@limit("concurrent: 1 per 1m") permit(principal, action, resource);`, `has no window`},
		{`@limit("cpu: 1 per 1m for each tool") permit(principal, action, resource);`, `can't be per tool`},
		{`@limit("calls: 1 per 1m for each group") permit(principal, action, resource);`,
			`for each principal, upstream, tool or host, or for all`},
		{`@limit("calls: 1 per 1m for each all") permit(principal, action, resource);`,
			`for each principal, upstream, tool or host, or for all`},
		{`@limit("calls: 1 per 1m, executions: 1 per 1m") permit(principal, action == Action::"call", resource);`,
			`"executions: 1 per 1m" has no effect on what this permits`},
		{`@limit("egress: 1 per 1m") permit(principal, action == Action::"execute", resource);`,
			`"egress: 1 per 1m" has no effect on what this permits`},
		{`@limit("calls: 1 per 1m") permit(principal, action in [Action::"read", Action::"write"], resource);`,
			`has no effect on what this permits`},
		{`@limit("cpu: 1 per 1m") permit(principal, action == Action::"connect", resource);`,
			`"cpu: 1 per 1m" has no effect on what this permits`},
		{`@limit("calls: 1 per 1m") forbid(principal, action, resource);`, `has no effect on a forbid`},
		{`@redact("a..b") permit(principal, action, resource);`, `invalid field path "a..b"`},
		{`@redact("a") permit(principal, action == Action::"execute", resource);`, `put it on the permit for the call`},
		{`@redact("") permit(principal, action, resource);`, `@redact is empty`},
		{`@redact("a") forbid(principal, action, resource);`, `has no effect on a forbid`},
		{`permit(principal, action, resource) unless { context.labels.contains("pi") };`,
			`x.cedar:1:71: unknown label "pi": did you mean "pii"?`},
		{`forbid(principal, action, resource) when { principal.id == "x" && context.labels.containsAny(["pii", ` +
			`"external"]) };`, `context.labels never contains "external"`},
		{`permit(principal, action, resource) when { ["publik"].contains("x") || ` +
			`resource.labels.containsAll(["publik"]) };`, `unknown label "publik": did you mean "public"?`},
		{`@id("a") permit(principal, action, resource); @id("a") forbid(principal, action, resource);`,
			`the id "a" is also used at x.cedar:1`},
		{"permit(principal, action, resource)\n  when { \"a };",
			`x.cedar:2:10: this is not Cedar: literal not terminated`},
		{`permit(principal action, resource);`, `x.cedar:1:24: this is not Cedar`},
		{strings.Repeat("(", 300), `nested too deeply`},
		{strings.Repeat(" ", policy.FileBytes+1), `the maximum is`},
	} {
		_, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar", Text: []byte(c.text)}}})
		if err == nil || !strings.Contains(err.Error(), c.says) || tool.AsError(err).Kind != tool.Invalid {
			t.Errorf("%s:\n%v\nwant %q", clipText(c.text), err, c.says)
		}
	}
}

func clipText(s string) string { return s[:min(len(s), 120)] }

func TestVersionIsOfAllThatDecides(t *testing.T) {
	yes, no := true, false
	files := []policy.File{{Name: "a.cedar", Text: []byte(`permit(principal, action, resource);`)},
		{Name: "b.cedar", Text: []byte(`@id("x") forbid(principal, action, resource);`)}}
	rules := []policy.Rule{{Pattern: "a.*", Tags: []string{"x", "y"}}, {Pattern: "b", ReadOnly: &yes}}
	version := func(c policy.Config) string {
		e, err := policy.New(c)
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		return e.Version()
	}
	base := version(policy.Config{Files: files, Rules: rules})
	same := policy.Config{
		Name: "other", Files: []policy.File{files[1], files[0]},
		Rules: []policy.Rule{rules[1], {Pattern: "a.*", Tags: []string{"y", "x", "x"}}},
	}
	if v := version(same); v != base {
		t.Errorf("in another order: %s, want %s", v, base)
	}
	for name, c := range map[string]policy.Config{
		"tier": {Files: files, Rules: rules, Tier: tool.GVisor}, "text": {Files: files[:1], Rules: rules},
		"hint": {Files: files, Rules: []policy.Rule{rules[0], {Pattern: "b", ReadOnly: &no}}}, "rule": {Files: files},
	} {
		if version(c) == base {
			t.Errorf("%s makes no difference", name)
		}
	}
}

func TestRulesJoinCarefully(t *testing.T) {
	yes, no := true, false
	tl := &tool.Tool{Upstream: "shop", Name: "get.it", Annotations: tool.Annotations{ReadOnly: &yes}}
	f, _ := policy.Starter("read-only")
	for _, c := range []struct {
		rules []policy.Rule
		want  policy.Effect
	}{
		{nil, policy.Allow},
		{[]policy.Rule{{Pattern: "shop.*", ReadOnly: &no}}, policy.Deny},
		{[]policy.Rule{{Pattern: "shop.*", ReadOnly: &no}, {Pattern: "*.it", ReadOnly: &yes}}, policy.Deny},
		{[]policy.Rule{{Pattern: "*.it", ReadOnly: &yes}, {Pattern: "shop.*", ReadOnly: &no}}, policy.Deny},
		{[]policy.Rule{{Pattern: "shop", ReadOnly: &no}, {Pattern: "s*p.*t.it", ReadOnly: &yes},
			{Pattern: "x*", ReadOnly: &no}, {Pattern: "*x*", ReadOnly: &no}}, policy.Allow},
	} {
		e, err := policy.New(policy.Config{Files: []policy.File{f}, Rules: c.rules})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		if d := e.Decide(policy.Request{Tool: tl}); d.Effect != c.want {
			t.Errorf("%v: %s, want %s", c.rules, d.Effect, c.want)
		}
	}
}

func TestArgumentsThatAreTooMuchAreDenied(t *testing.T) {
	tl := &tool.Tool{Upstream: "a", Name: "b", InputSchema: json.RawMessage(`{"type":"object"}`)}
	looks, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar",
		Text: []byte(`permit(principal, action, resource) unless { context.arguments has nope };`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	for name, args := range map[string]string{
		"deep": `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`,
		"many": `{"a":[` + strings.Repeat("1,", 30_000) + `1]}`,
	} {
		r := policy.Request{Tool: tl, Arguments: json.RawMessage(args)}
		if d := looks.Decide(r); d.Effect != policy.Deny || !strings.Contains(d.Reason, "more than policies examine") {
			t.Errorf("%s, d = %+v, want d.Effect == policy.Deny && strings.Contains(d.Reason, \"more "+
				"than policies examine\")", name, d)
		}
		if d := open(tool.WASM).Decide(r); d.Effect != policy.Allow {
			t.Errorf("%s, where no policy looks at them: %+v", name, d)
		}
	}
}

// hundred returns an engine of 100 typical policies for many tools, and a call that few of them
// match.
func hundred(tb testing.TB) (*policy.Engine, policy.Request) {
	var b bytes.Buffer
	for i := range 96 {
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "permit (principal in Group::\"team%d\", action == Action::\"call\", resource in "+
				"Upstream::\"up%d\") when { resource.readOnly };\n", i, i%7)
		case 1:
			fmt.Fprintf(&b, "@ask(\"leads\") permit (principal, action == Action::\"call\", resource == "+
				"Tool::\"up1.tool%d\") when { context.arguments has repo && context.arguments.repo like \"acme/*\" };\n", i)
		case 2:
			fmt.Fprintf(&b, "forbid (principal, action, resource) when { resource.tags.contains(\"tag%d\") && "+
				"context.hour > 20 };\n", i)
		case 3:
			fmt.Fprintf(&b, "forbid (principal, action == Action::\"call\", resource) when { context.arguments has "+
				"owner && context.arguments.owner == \"user%d\" } unless { principal.groups.contains(\"g\") };\n", i)
		}
	}
	b.WriteString(`permit (principal, action == Action::"execute", resource);
permit (principal in Group::"dev", action == Action::"call", resource in Upstream::"github") when { context.arguments.repo like "acme/*" };
forbid (principal, action, resource) when { context.labels.contains("pii") && resource.labels.contains("public") };
forbid (principal, action, resource) when { principal.client like "bad/*" };`)
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "hundred.cedar", Text: b.Bytes()}},
		Rules: []policy.Rule{{Pattern: "github.*", Tags: []string{"vcs"}}}})
	if err != nil {
		tb.Fatalf("policy.New: %v", err)
	}
	if e.Len() != 100 {
		tb.Fatalf("%d policies", e.Len())
	}
	return e, policy.Request{
		Principal: tool.Principal{ID: "key:ci", Client: "claude/1.0", Agent: "ci", Groups: []string{"dev", "ops"},
			Roles: []string{"user"}},
		Tool: &tool.Tool{Upstream: "github", Name: "create_issue", InputSchema: json.RawMessage(
			`{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"},` +
				`"title":{"type":"string"},"body":{"type":"string"},"labels":{"type":"array",` +
				`"items":{"type":"string"}},"n":{"type":"integer"}},"required":["repo"]}`)},
		Arguments: json.RawMessage(`{"owner":"acme","repo":"acme/site","title":"It is broken","body":"` +
			strings.Repeat("text ", 100) + `","labels":["bug","urgent"],"n":12}`),
	}
}

func BenchmarkDecide100(b *testing.B) {
	e, r := hundred(b)
	if d := e.Decide(r); d.Effect != policy.Allow {
		b.Fatalf("d = %+v, want d.Effect == policy.Allow", d)
	}
	b.ReportAllocs()
	for b.Loop() {
		e.Decide(r)
	}
}

func BenchmarkShows100(b *testing.B) {
	e, r := hundred(b)
	if !e.Shows(r) {
		b.Fatal("hidden")
	}
	s := e.Sight(r.Principal, r.Time)
	for b.Loop() {
		s.Shows(r.Tool)
	}
}

func TestDecisionsAreTheSameFromManyGoroutines(t *testing.T) {
	e, r := hundred(t)
	want := fmt.Sprint(e.Decide(r))
	done := make(chan string)
	for range 8 {
		go func() {
			got := want
			for range 50 {
				fresh := *r.Tool // as after listing the tools again
				q := r
				if rand.IntN(2) == 0 {
					q.Tool = &fresh
				}
				if d := fmt.Sprint(e.Decide(q)); d != want {
					got = d
				}
			}
			done <- got
		}()
	}
	for range 8 {
		if got := <-done; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
