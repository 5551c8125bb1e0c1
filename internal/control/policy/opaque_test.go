package policy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestOpaqueConnections checks that a connection whose requests are not seen is permitted only if
// no policy depends on its requests, and that hosts are reachable if some request could be
// permitted.
func TestOpaqueConnections(t *testing.T) {
	const to = `principal, action == Action::"connect", resource == Host::"a.example"`
	for _, c := range []struct {
		name, policies string
		opaque, get    policy.Effect
		reaches        bool
	}{
		{"nothing permits it", `permit (principal, action == Action::"connect", resource == Host::"b.example");`,
			policy.Deny, policy.Deny, false},
		{"every request", `permit (` + to + `);`, policy.Allow, policy.Allow, true},
		{"one port", `permit (` + to + `) when { resource.port == 443 && resource.scheme == "https" };`,
			policy.Allow, policy.Allow, true},
		{"another port", `permit (` + to + `) when { resource.port == 8443 };`, policy.Deny, policy.Deny, true},
		{"one method", `permit (` + to + `) when { context.method == "GET" };`, policy.Deny, policy.Allow, true},
		{"not one method", `permit (` + to + `) unless { context.method == "POST" };`, policy.Deny, policy.Allow, true},
		{"one path", `permit (` + to + `) when { context.path like "/a/*" };`, policy.Deny, policy.Allow, true},
		{"a forbidden method", `permit (` + to + `); forbid (` + to + `) when { context.method == "POST" };`,
			policy.Deny, policy.Allow, true},
		{"a forbidden effect", `permit (` + to + `); forbid (` + to + `) when { resource.destructive };`,
			policy.Deny, policy.Allow, true},
		{"a forbidden effect, by all", `permit (principal, action, resource) unless { resource.destructive };`,
			policy.Deny, policy.Allow, true},
		{"a forbidden host", `permit (` + to + `); forbid (principal, action == Action::"connect", resource)
			when { resource.host like "*.example" };`, policy.Deny, policy.Deny, false},
		{"a person", `@ask("approvers") permit (` + to + `);`, policy.Ask, policy.Ask, true},
		{"another principal", `permit (principal == User::"x", action == Action::"connect", resource);`,
			policy.Deny, policy.Deny, false},
	} {
		e, err := policy.New(policy.Config{Files: []policy.File{{Name: "a.cedar", Text: []byte(c.policies)}}})
		if err != nil {
			t.Fatalf("%s: policy.New: %v", c.name, err)
		}
		decide := func(name, arguments string) policy.Effect {
			return e.Decide(policy.Request{Tool: &tool.Tool{Upstream: tool.Own, Name: name},
				Arguments: json.RawMessage(arguments), Parent: "ex_1"}).Effect
		}
		if got := decide("connect", `{"url":"https://a.example/","method":"CONNECT"}`); got != c.opaque {
			t.Errorf("%s: an opaque connection: %s, want %s", c.name, got, c.opaque)
		}
		if got := decide("fetch", `{"url":"https://A.example:443/x/../a/%62?q","method":"GET"}`); got != c.get {
			t.Errorf("%s: a request: %s, want %s", c.name, got, c.get)
		}
		if got := e.Sight(tool.Principal{ID: "p"}, time.Time{}).ReachesHost("a.example"); got != c.reaches {
			t.Errorf("%s: reaches the host: %v, want %v", c.name, got, c.reaches)
		}
	}
}

// TestExplainPermit checks that the policy that a denial proposes is valid and permits the target,
// and not another method.
func TestExplainPermit(t *testing.T) {
	for _, arguments := range []string{
		`{"url":"https://a.example/x","method":"POST"}`, `{"url":"http://a.example:8080/x"}`,
		`{"url":"https://a.example/","method":"CONNECT"}`, `{"url":"tcp://192.0.2.1:22/","method":"CONNECT"}`,
		`{"url":"https://[2001:db8::1]/"}`,
	} {
		target, err := policy.TargetOf(json.RawMessage(arguments))
		if err != nil {
			t.Errorf("%s: %v", arguments, err)
			continue
		}
		own := policy.File{Name: "a.cedar", Text: []byte(target.ExplainPermit())}
		e, err := policy.New(policy.Config{Files: []policy.File{own}})
		if err != nil {
			t.Errorf("%s: %s: %v", arguments, target.ExplainPermit(), err)
			continue
		}
		d := e.Decide(policy.Request{Tool: &tool.Tool{Upstream: tool.Own, Name: "connect"},
			Arguments: json.RawMessage(arguments)})
		if d.Effect != policy.Allow {
			t.Errorf("%s: %s: %+v, want it permitted", arguments, target.ExplainPermit(), d)
		}
	}
	if _, err := policy.TargetOf(json.RawMessage(`{"url":"tcp://a.example:22/","method":"GET"}`)); err == nil {
		t.Error("a request over tcp: no error")
	}
}
