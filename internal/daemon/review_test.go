package daemon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestNamesThatMeanNothingAreReported checks that unknown names are reported at startup: tools in
// the configuration, and tools, upstreams, groups and approvers in policies.
func TestNamesThatMeanNothingAreReported(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	dir := withPolicies(t, `
@id("all") permit (principal, action, resource);
@id("gone") forbid (principal, action == Action::"call", resource == Tool::"peer.ech");
@id("nowhere") forbid (principal, action == Action::"call", resource in Upstream::"pear");
@id("leads") @ask("leads") permit (principal, action == Action::"call", resource == Tool::"peer.echo");
@id("ops") @ask("ops") permit (principal in Group::"dev", action == Action::"call", resource == Tool::"peer.echo");
@id("down") forbid (principal, action == Action::"call", resource == Tool::"off.anything");
@id("nobody") forbid (principal == User::"key:nobody", action == Action::"call", resource);`)
	d, _ := run(t, dir, "policy: ./policies\nauth: { keys: true }\nstart_wait: 5s\nmcpServers:\n  peer: { url: '"+p.URL+
		"', disabledTools: [ecko] }\n  off: { url: 'http://127.0.0.1:1/' }\n")
	if _, err := d.Client().Keys().Create(t.Context(),
		api.KeyRequest{Name: "lead", Roles: []string{"approver"}, Groups: []string{"leads"}}); err != nil {
		t.Fatalf("CreateKey: %v", err)
	}
	if _, err := d.Client().Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	st, err := d.Client().Status(t.Context())
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	for _, want := range []string{`names the unknown tool "ecko": did you mean "echo"?`,
		`unknown entity Tool::"peer.ech": did you mean "peer.echo"?`,
		`unknown entity Upstream::"pear": did you mean "peer"?`,
		`@ask names the group "ops"`, `Group::"dev" has no members`, `unknown entity User::"key:nobody"`} {
		if !slices.ContainsFunc(st.Warnings, func(l string) bool { return strings.Contains(l, want) }) {
			t.Errorf("not reported: %s\n%s", want, strings.Join(st.Warnings, "\n"))
		}
	}
	r, err := d.Client().Policies().Check(t.Context(), nil)
	if err != nil {
		t.Fatalf("CheckPolicy: %v", err)
	}
	var all []string
	for _, p := range append(r.Problems, r.Warnings...) {
		all = append(all, p.Message)
	}
	text := strings.Join(all, "\n")
	if strings.Contains(text, "off.anything") || strings.Contains(text, `group "leads"`) ||
		!strings.Contains(text, `group "ops"`) {
		t.Errorf("policy check:\n%s", text)
	}
}
