package policy_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Conditions of the policies in the property tests. Those on arguments are satisfiable, alone and
// together.
var (
	sureConditions = []string{
		`resource.readOnly`, `!resource.destructive`, `resource.tags.contains("prod")`,
		`principal.roles.contains("admin")`, `principal in Group::"dev"`,
		`context.client like "claude/*"`, `context.hour >= 12`, `context.weekday == "monday"`,
		`resource.upstream == "shop"`, `principal.agent != ""`, `context.tier == "wasm"`,
	}
	unsureConditions = []string{
		`context.arguments has a && context.arguments.a == 1`, `context.arguments.b like "x*"`,
		`context.arguments has c`, `context.program`, `context.arguments.a > 0`,
		`context.arguments has d && context.arguments.d.contains("t")`, `context.labels.contains("pii")`,
		`context.arguments.a == "text"`,
	}
	scopes = []string{`resource`, `resource == Tool::"shop.get"`, `resource in Upstream::"shop"`,
		`resource in Upstream::"bank"`, `resource == Tool::"biplane.execute"`}
	people = []string{`principal`, `principal == User::"ann"`, `principal in Group::"dev"`}
	acts   = []string{`action`, `action == Action::"call"`, `action in [Action::"call", Action::"execute"]`,
		`action == Action::"execute"`}
)

func policyOf(t *rapid.T, i int) string {
	pick := func(label string, list []string) string { return rapid.SampledFrom(list).Draw(t, label) }
	var b strings.Builder
	fmt.Fprintf(&b, "@id(\"p%d\")", i)
	effect, act := pick("effect", []string{"permit", "permit", "forbid"}), pick("what", acts)
	bound := `@limit("calls: 2 per 1m, egress: 30 per 1m for all")`
	if strings.HasSuffix(act, `== Action::"execute"`) {
		bound = `@limit("concurrent: 3")`
	}
	if effect == "permit" {
		b.WriteString(pick("bound", []string{"", "", `@ask("a,b")`, `@ask("b")`, `@ask("c")`, `@tier("wasm")`,
			`@tier("process")`, `@tier("gvisor")`, bound, `@reason("r")`}))
	}
	fmt.Fprintf(&b, " %s (%s, %s, %s)", effect, pick("who", people), act, pick("where", scopes))
	for range rapid.IntRange(0, 2).Draw(t, "conditions") {
		fmt.Fprintf(&b, " %s { %s }", pick("when", []string{"when", "when", "unless"}),
			pick("condition", append(slices.Clone(sureConditions), unsureConditions...)))
	}
	return b.String() + ";\n"
}

func requestOf(t *rapid.T) policy.Request {
	yes, no := true, false
	hint := rapid.SampledFrom([]*bool{nil, &yes, &no}).Draw(t, "hint")
	where := rapid.SampledFrom([]string{"shop", "bank", "biplane"}).Draw(t, "upstream")
	name := rapid.SampledFrom([]string{"get", "put"}).Draw(t, "name")
	if where == "biplane" {
		name = rapid.SampledFrom([]string{"execute", "search", "resume"}).Draw(t, "own")
	}
	return policy.Request{
		Principal: tool.Principal{
			ID:     rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "id"),
			Client: rapid.SampledFrom([]string{"", "claude/2"}).Draw(t, "client"),
			Agent:  rapid.SampledFrom([]string{"", "ci"}).Draw(t, "agent"),
			Groups: rapid.SampledFrom([][]string{nil, {"dev"}, {"ops", "dev"}}).Draw(t, "groups"),
			Roles:  rapid.SampledFrom([][]string{nil, {"admin"}}).Draw(t, "roles"),
		},
		Tool: &tool.Tool{Upstream: where, Name: name, Annotations: tool.Annotations{ReadOnly: hint},
			InputSchema: json.RawMessage(`{"type":"object"}`)},
		Arguments: json.RawMessage(rapid.SampledFrom([]string{
			``, `{}`, `{"a":1}`, `{"a":1,"b":"xy","c":1,"d":["t"]}`, `{"a":2,"b":"y"}`, `{"b":"x"}`,
			`{"a":"text","b":"x","d":["t"]}`, `{"a":1.5}`, `{"a":null}`, `{"a":1,"a":2}`, `[]`,
		}).Draw(t, "arguments")),
		Parent: rapid.SampledFrom([]string{"", "ex_1"}).Draw(t, "parent"),
		Labels: rapid.SampledFrom([][]string{nil, {"pii"}}).Draw(t, "labels"),
		Time: time.Date(2026, 3, rapid.IntRange(1, 3).Draw(t, "day"), rapid.IntRange(0, 23).Draw(t, "hour"), 0, 0,
			0, time.UTC),
	}
}

func engineOf(t *rapid.T, policies []string, files int) *policy.Engine {
	c := policy.Config{Tier: tool.Process, Rules: []policy.Rule{{Pattern: "shop.get", Tags: []string{"prod"}}}}
	for i := range files {
		c.Files = append(c.Files, policy.File{Name: fmt.Sprintf("%d.cedar", i)})
	}
	for i, p := range policies {
		f := &c.Files[i%files]
		f.Text = append(f.Text, p...)
	}
	e, err := policy.New(c)
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	return e
}

func policiesOf(t *rapid.T) []string {
	list := make([]string, rapid.IntRange(0, 6).Draw(t, "policies"))
	for i := range list {
		list[i] = policyOf(t, i)
	}
	return list
}

// TestOrderNeverMatters checks that the order of policies and files changes no decision, except for
// its version if the files differ.
func TestOrderNeverMatters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, r := policiesOf(t), requestOf(t)
		want := engineOf(t, list, 1).Decide(r)
		shown := engineOf(t, list, 1).Shows(r)
		other := engineOf(t, rapid.Permutation(list).Draw(t, "order"), rapid.IntRange(1, 3).Draw(t, "files"))
		got := other.Decide(r)
		got.Version = want.Version
		if fmt.Sprint(got) != fmt.Sprint(want) || other.Shows(r) != shown {
			t.Fatalf("%+v, %t\nwant %+v, %t\n%s", got, other.Shows(r), want, shown, strings.Join(list, ""))
		}
	})
}

// TestShownAndStrictest checks that allowed and asking calls are visible. Adding a forbid, or a
// bounded permit to a permitted call, must never loosen a decision.
func TestShownAndStrictest(t *testing.T) {
	strict := map[policy.Effect]int{policy.Allow: 0, policy.Ask: 1, policy.Deny: 2}
	rapid.Check(t, func(t *rapid.T) {
		list, r := policiesOf(t), requestOf(t)
		e := engineOf(t, list, 1)
		d := e.Decide(r)
		if d.Effect != policy.Deny && !e.Shows(r) {
			t.Fatalf("%s, and hidden: %+v\n%s", d.Effect, r, strings.Join(list, ""))
		}
		more := policyOf(t, 100)
		if d.Effect == policy.Deny && strings.Contains(more, "permit") {
			return
		}
		if now := engineOf(t, append(list, more), 1).Decide(r); strict[now.Effect] < strict[d.Effect] ||
			d.Effect != policy.Deny && now.Effect != policy.Deny && (now.Grant.Tier < d.Grant.Tier || lost(d, now)) {
			t.Fatalf("%+v\nbecame %+v with %s", d, now, more)
		}
	})
}

// lost reports whether a limit on usage is missing.
func lost(was, now policy.Decision) bool {
	return slices.ContainsFunc(was.Grant.Bounds, func(b tool.Bound) bool {
		return !slices.Contains(now.Grant.Bounds, b)
	})
}

// TestHiddenMeansNoCall checks that a visible tool can be called with some arguments. The policies
// here don't contradict each other on an argument, so partial evaluation is exact.
func TestHiddenMeansNoCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, r := policiesOf(t), requestOf(t)
		for i, p := range list { // only conditions that don't need a call, and one that does
			for _, c := range unsureConditions {
				p = strings.ReplaceAll(p, "unless { "+c+" }", "")
				p = strings.ReplaceAll(p, "{ "+c+" }", "{ context.arguments has a }")
			}
			list[i] = p
		}
		e := engineOf(t, list, 1)
		some := false
		for _, args := range []string{`{}`, `{"a":1}`} {
			q := r
			q.Arguments = json.RawMessage(args)
			some = some || e.Decide(q).Effect != policy.Deny
		}
		for _, p := range list { // a forbid and a permit on the same argument may exclude each other
			if strings.Contains(p, "forbid") && strings.Contains(p, "arguments") {
				return
			}
		}
		if e.Shows(r) != some && !twoTiersOrAsks(list) {
			t.Fatalf("shown %t, some call %t: %+v\n%s", e.Shows(r), some, r, strings.Join(list, ""))
		}
	})
}

// twoTiersOrAsks reports whether a bound depends on an argument. Which bounds apply together is not
// evaluated for lists.
func twoTiersOrAsks(list []string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		return strings.Contains(p, "@") && strings.Contains(p, "arguments")
	})
}

// TestExplanationAgrees checks that an explanation has the same decision as Decide. The deciding
// policies must hold, or fail to be evaluated, and a change must be named.
func TestExplanationAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list, r := policiesOf(t), requestOf(t)
		e := engineOf(t, list, 1)
		x := e.Explain(r)
		if fmt.Sprint(x.Decision) != fmt.Sprint(e.Decide(r)) {
			t.Fatalf("explained %+v, decided %+v", x.Decision, e.Decide(r))
		}
		decided := strings.Split(x.Decision.Policy, ", ")
		for _, p := range x.Policies {
			if p.Holds && p.Forbid && x.Decision.Effect != policy.Deny {
				t.Fatalf("forbid %s holds, and it is %s", p.ID, x.Decision.Effect)
			}
			if slices.Contains(decided, p.ID) && !p.Holds &&
				!strings.Contains(strings.Join(p.Missing, ""), "can't be evaluated") {
				t.Fatalf("%s decided, and doesn't hold: %v", p.ID, p.Missing)
			}
		}
		if len(x.Policies) > 0 && x.Change == "" {
			t.Fatalf("nothing is said of a change: %+v", x)
		}
	})
}

// TestMoreLabelsNeverLoosen checks the starter policies. More labels must never allow more, and
// labels from only one side of the trio must change nothing.
func TestMoreLabelsNeverLoosen(t *testing.T) {
	strict := map[policy.Effect]int{policy.Allow: 0, policy.Ask: 1, policy.Deny: 2}
	some := func(t *rapid.T, of []string, name string) []string {
		return rapid.SliceOfDistinct(rapid.SampledFrom(of), rapid.ID).Draw(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		f, _ := policy.Starter(rapid.SampledFrom(policy.Starters()).Draw(t, "policy"))
		hint := rapid.SampledFrom([]*bool{nil, new(bool), new(true)})
		r := requestOf(t)
		r.Tool.Annotations = tool.Annotations{ReadOnly: hint.Draw(t, "read only"),
			OpenWorld: hint.Draw(t, "open world")}
		e, err := policy.New(policy.Config{Tier: tool.WASM, Files: []policy.File{f}, Rules: []policy.Rule{
			{Upstream: "shop", Labels: some(t, policy.Labels(), "shop")},
			{Pattern: "bank.p*", Labels: some(t, policy.Labels(), "bank")},
		}})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		r.Labels = some(t, policy.Sources(), "less")
		less := e.Decide(r)
		r.Labels = tool.JoinLabels(r.Labels, some(t, policy.Sources(), "more"))
		if more := e.Decide(r); strict[more.Effect] < strict[less.Effect] {
			t.Fatalf("%+v, with more labels %+v", less, more)
		}
		r.Labels = nil
		none := e.Decide(r)
		for _, half := range [][]string{{"untrusted"}, {"confidential", "pii"}} {
			r.Labels = half
			if d := e.Decide(r); d.Effect != none.Effect || d.Policy != none.Policy {
				t.Fatalf("with %v %+v, with none %+v", half, d, none)
			}
		}
	})
}

func TestSources(t *testing.T) {
	e, err := policy.New(policy.Config{Rules: []policy.Rule{
		{Pattern: "*", Labels: []string{"pii", "external"}}, {Upstream: "shop", Labels: []string{"confidential"}},
		{Pattern: "shop.put", Labels: []string{"public"}},
	}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	for _, c := range []struct{ upstream, name, want string }{
		{"shop", "put", "[confidential pii]"}, {"shopping", "put", "[pii]"}, {"biplane", "fetch", "[pii untrusted]"},
		{"biplane", "send", "[pii untrusted]"},
		{"biplane", "execute", "[]"}, {"biplane", "resume", "[]"},
	} {
		if got := fmt.Sprint(e.SourceOf(&tool.Tool{Upstream: c.upstream, Name: c.name})); got != c.want {
			t.Errorf("%s.%s: %s, want %s", c.upstream, c.name, got, c.want)
		}
	}
}

func FuzzPolicies(f *testing.F) {
	for _, name := range policy.Starters() {
		file, _ := policy.Starter(name)
		f.Add(file.Text, []byte(`{"a":1}`))
	}
	for _, c := range unsureConditions {
		f.Add([]byte("permit(principal,action,resource) when {"+c+"};"), []byte(`{"a":1e5,"b":null,"d":[[]]}`))
	}
	tl := &tool.Tool{Upstream: "shop", Name: "get",
		InputSchema: json.RawMessage(
			`{"type":"object","properties":{"a":{"type":"number"},"d":{"type":"array","items":{"type":"string"}}}}`)}
	f.Fuzz(func(t *testing.T, text, args []byte) {
		e, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar", Text: text}}})
		if err != nil {
			if tool.AsError(err).Kind != tool.Invalid {
				t.Fatalf("err = %v, want tool.AsError(err).Kind == tool.Invalid", err)
			}
			return
		}
		e.Check([]*tool.Tool{tl})
		r := policy.Request{Tool: tl, Arguments: args}
		if d := e.Decide(r); d.Effect != policy.Deny && !e.Shows(r) {
			t.Fatalf("%+v, and hidden", d)
		}
		e.Explain(r)
	})
}

func FuzzShape(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/properties/a"},"b":{"anyOf":[{"type":"null"},`+
		`{"type":"integer"}]}}}`), []byte(`{"a":{"a":1},"b":3}`))
	f.Fuzz(func(t *testing.T, schema, args []byte) {
		tl := &tool.Tool{Upstream: "shop", Name: "get", InputSchema: schema}
		e, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar",
			Text: []byte(`permit(principal,action,resource) when { context.arguments has a };`)}}})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		e.Decide(policy.Request{Tool: tl, Arguments: args})
		problems, _ := e.Check([]*tool.Tool{tl})
		for _, p := range problems {
			if strings.Contains(p.Message, "policy schema") {
				t.Fatalf("the schema that is made can't be read: %s", p.Message)
			}
		}
	})
}
