package daemon_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/tool"
)

// TestNamesAreCheckedWithoutUpstreams checks that names in the configuration are compared with the
// tools that upstreams last listed, without starting them, even while a process runs.
func TestNamesAreCheckedWithoutUpstreams(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	dir := withPolicies(t, `
@id("all") permit (principal, action, resource);
@id("gone") forbid (principal, action == Action::"call", resource == Tool::"peer.ech");
@id("nowhere") forbid (principal, action == Action::"call", resource in Upstream::"pear");
@id("down") forbid (principal, action == Action::"call", resource == Tool::"down.anything");
@id("built in") forbid (principal, action == Action::"call", resource == Tool::"biplane.execute");`)
	text := `
policy: ./policies
start_wait: 5s
privacy: { mode: tokenize, fields: [customer.name, peer.echo.ssn, "**.ssn"] }
tools: { "peer.ecko": { tags: [a] }, "peer.echo": { tags: [a] } }
mcpServers:
  peer: { url: '` + p.URL + `', disabledTools: [ecko, MEET] }
  shut: { url: '` + p.URL + `', disabledTools: [echo, meet, "*"] }
  down: { url: 'http://127.0.0.1:1/', disabledTools: [x] }
  other: { url: 'http://127.0.0.1:1/' }
  off: { url: 'http://127.0.0.1:1/', disabledTools: [x], disabled: true }
`
	s, err := config.Parse(filepath.Join(dir, "biplane.yaml"), []byte(text), func(string) (string, bool) {
		return "", false
	}, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	checked := func(want ...string) {
		t.Helper()
		lines, err := daemon.CheckNames(t.Context(), s, dir)
		if err != nil {
			t.Fatalf("daemon.CheckNames: %v", err)
		}
		for _, w := range want {
			if !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, w) }) {
				t.Errorf("not reported: %s\n%s", w, strings.Join(lines, "\n"))
			}
		}
		if len(lines) != len(want) {
			t.Errorf("%d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
		}
	}
	nowhere := `unknown entity Upstream::"pear": did you mean "peer"? (as last listed)`
	checked("have not listed any yet (peer, shut, down): run biplane tools", `unknown entity Upstream::"pear"`)
	d, stop := run(t, dir, text)
	if _, err := d.Client().Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	want := []string{"have not listed any yet (down): run biplane tools", nowhere,
		`unknown entity Tool::"peer.ech": did you mean "peer.echo"? (as last listed)`,
		`mcpServers.peer names the unknown tool "ecko": did you mean "echo"? (as last listed)`,
		`tools has the pattern "peer.ecko", which matches no tool: did you mean "peer.echo"?`,
		`privacy.fields[1] has the path "peer.echo.ssn", which begins with the name of a tool or an upstream; paths ` +
			`begin with a field of a result: write "ssn"`}
	checked(want...)
	st, err := d.Client().Status(t.Context())
	if err != nil || !slices.ContainsFunc(st.Warnings, func(l string) bool {
		return strings.HasPrefix(l, "privacy.fields[1] ")
	}) {
		t.Errorf("st = %v, err = %v", st, err)
	}
	stop()
	checked(want...)
}
