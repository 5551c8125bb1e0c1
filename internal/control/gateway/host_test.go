package gateway_test

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/approval"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/audit/audittest"
	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/control/gateway"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestConnectionsDontWait checks that a connection is not permitted if a person would be asked
// about it, also if only the labels of what its program has read make the difference.
func TestConnectionsDontWait(t *testing.T) {
	g := ownGateway(t, "connect", `
permit (principal, action == Action::"connect", resource == Host::"a.example");
@ask("it has read personal data") permit (principal, action == Action::"connect", resource == Host::"a.example")
when { context.labels.contains("pii") };
@ask("always") permit (principal, action == Action::"connect", resource == Host::"b.example");`)
	for _, c := range []struct {
		host   string
		labels []string
		want   bool
	}{{"a.example", nil, true}, {"a.example", []string{"pii"}, false}, {"b.example", nil, false}} {
		call := &tool.Call{Path: "biplane.connect", Principal: tool.Principal{ID: "ann"}, Labels: c.labels,
			Arguments: json.RawMessage(`{"method":"CONNECT","url":"https://` + c.host + `/"}`)}
		if got := g.PermitsConnection(call); got != c.want {
			t.Errorf("%s with labels %v: permitted %v, want %v", c.host, c.labels, got, c.want)
		}
	}
}

// TestPermitsAgain checks that a call no longer holds if policy forbids it with the labels of now,
// and that a person's approval holds only for what they approved.
func TestPermitsAgain(t *testing.T) {
	g := ownGateway(t, "sandbox_preview", `
permit (principal, action == Action::"execute", resource);
forbid (principal, action == Action::"execute", resource) when { context.labels.contains("confidential") };
@ask("it has read personal data") permit (principal, action == Action::"execute", resource)
when { context.labels.contains("pii") };`)
	for _, c := range []struct {
		label   string
		differs bool
		want    bool
	}{{"untrusted", true, true}, {"confidential", true, false}, {"confidential", false, false}, {"pii", false, true},
		{"pii", true, false}} {
		call := &tool.Call{Tool: &tool.Tool{Upstream: tool.Own, Name: "sandbox_preview"}, Labels: []string{c.label},
			Principal: tool.Principal{ID: "ann"}, Arguments: json.RawMessage(`{"sandbox":"a","port":8000}`)}
		if got := g.PermitsAgain(call, c.differs); got != c.want {
			t.Errorf("with label %s, differs %v: permitted %v, want %v", c.label, c.differs, got, c.want)
		}
	}
}

// ownGateway returns a gateway with one of Biplane's own tools, and policies.
func ownGateway(t *testing.T, name, policies string) *gateway.Gateway {
	t.Helper()
	e, err := policy.New(policy.Config{Files: []policy.File{{Name: "p.cedar", Text: []byte(policies)}}})
	if err != nil {
		t.Fatalf("policy.New: %v", err)
	}
	cat := catalog.New(catalog.Config{})
	cat.Set(catalog.Source{Name: tool.Own, Health: tool.Health{State: tool.Ready}, Tools: []*tool.Tool{{
		Upstream: tool.Own, Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}}})
	g, err := gateway.New(gateway.Config{Catalog: cat, Policy: e, Approval: new(approval.Gate),
		Audit: audit.New(audit.Config{Store: audittest.NewMemory()}), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("gateway.New: %v", err)
	}
	return g
}
