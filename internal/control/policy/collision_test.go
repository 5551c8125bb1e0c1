package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// listOf returns a list of n elements in JSON.
func listOf(n int, element func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = element(i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// TestCollidingElements checks that lists whose values collide in Cedar's sets are denied before
// they are compared with each other, and that other long lists are decided on.
func TestCollidingElements(t *testing.T) {
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "x.cedar", Text: []byte(
		`@id("p") permit (principal, action == Action::"call", resource) when { context.arguments.a.contains(7) };`)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	number := func(i int) string { return fmt.Sprint(i) }
	pair := func(i int) string { return fmt.Sprintf("[%d,%d]", i, 10_000-i) } // a set's hash is a sum
	nested := func(i int) string {
		return "[" + listOf(100, func(j int) string { return fmt.Sprintf("[%d,%d]", j, 1000-j) }) +
			fmt.Sprintf(",[%d,%d]]", i+200, 3000-i)
	}
	after := func(elements string) string { return `{"a":[7,` + elements[1:] }
	text := func(i int) string { return fmt.Sprintf("%q", number(i)) }
	record := func(i int) string { return fmt.Sprintf(`{"x":%d,"y":%d}`, i, 4_000-i) }
	other := func(i int) string { return pair(i + 1_000) }
	for name, c := range map[string]struct{ arguments, want string }{
		"numbers":            {`{"a":` + listOf(15_000, number) + `}`, "p"},
		"texts":              {after(listOf(15_000, text)) + `}`, "p"},
		"the same":           {after(listOf(15_000, func(int) string { return `"x"` })) + `}`, "p"},
		"records":            {after(listOf(4_000, record)) + `}`, "p"},
		"some pairs":         {after(listOf(800, pair)) + `}`, "p"},
		"pairs":              {after(listOf(4_000, pair)) + `}`, "arguments"},
		"pairs, not read":    {`{"a":[7],"b":{"c":` + listOf(4_000, pair) + `}}`, "arguments"},
		"pairs of two lists": {after(listOf(1_000, pair)) + `,"b":` + listOf(2_000, other) + `}`, "arguments"},
		"lists of pairs":     {after(listOf(60, nested)) + `}`, "arguments"},
	} {
		d := e.Decide(policy.Request{Principal: tool.Principal{ID: "user:ann"}, Arguments: json.RawMessage(c.arguments),
			Tool: &tool.Tool{Upstream: "crm", Name: "get", InputSchema: json.RawMessage(`{"type":"object"}`)}})
		if d.Policy != c.want {
			t.Errorf("%s: decision = %+v, want Policy %s", name, d, c.want)
		}
	}
}
