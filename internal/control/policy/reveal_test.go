package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestReveals(t *testing.T) {
	yes, no := true, false
	tools := map[string]*tool.Tool{
		"write":  {Upstream: "crm", Name: "write"},
		"own":    {Upstream: "crm", Name: "own", Annotations: tool.Annotations{ReadOnly: &yes, OpenWorld: &no}},
		"web":    {Upstream: "web", Name: "search", Annotations: tool.Annotations{ReadOnly: &yes}},
		"blog":   {Upstream: "blog", Name: "post"},
		"search": {Upstream: "biplane", Name: "search"},
		"fetch":  {Upstream: "biplane", Name: "fetch"},
	}
	own := `permit (principal, action == Action::"call", resource);
@id("mail") permit (principal, action == Action::"reveal", resource == Tool::"crm.write") when { ["email", "phone"].containsAll(context.kinds) };
@id("asked") @ask("people") permit (principal, action in [Action::"call", Action::"reveal"], resource == Tool::"crm.own");`
	starter := func(name string) string {
		f, _ := policy.Starter(name)
		return string(f.Text)
	}
	for _, c := range []struct {
		text, tool string
		kinds      []string
		want       bool
	}{
		{own, "write", []string{"email"}, true},
		{own, "write", []string{"email", "card"}, false},
		{own, "write", nil, false},
		{own, "blog", []string{"email"}, false},
		{own, "own", []string{"email"}, false}, // approval of that alone is not supported
		{starter("open"), "blog", []string{"card"}, true},
		{starter("open"), "search", []string{"email"}, false},
		{starter("open"), "fetch", []string{"email"}, false},
		{starter("ask-for-writes"), "write", []string{"email"}, true},
		{starter("ask-for-writes"), "own", []string{"email"}, true},
		{starter("ask-for-writes"), "web", []string{"email"}, false},
		{starter("ask-for-writes"), "blog", []string{"email"}, false},
		{starter("read-only"), "own", []string{"email"}, false},
	} {
		e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar", Text: []byte(c.text)}},
			Rules: []policy.Rule{{Pattern: "blog.*", Labels: []string{"public"}}}})
		if err != nil {
			t.Fatalf("policy.New: %v", err)
		}
		got, why := e.Reveals(policy.Request{Principal: tool.Principal{ID: "local:ada"}, Tool: tools[c.tool],
			Arguments: json.RawMessage(`{}`), Kinds: c.kinds})
		if got != c.want || got == (why != "") {
			t.Errorf("%s %v: %v %q, want %v\n%s", c.tool, c.kinds, got, why, c.want, c.text)
		}
	}
	_, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar",
		Text: []byte(`@ask("people") permit (principal, action == Action::"reveal", resource);`)}}})
	if err == nil || !strings.Contains(err.Error(), "not to the action reveal") {
		t.Errorf("a bound that is not held is taken: %v", err)
	}
}
