package daemon_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// TestFindingsAreOnRecord checks that the record of execute lists the rules of a program's
// findings, once each and sorted, and that the record of a program without findings has none.
func TestFindingsAreOnRecord(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "mcpServers: { peer: { url: '"+p.URL+"' } }\n")
	if _, err := d.Client().Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	for _, tt := range []struct{ name, language, code, want string }{
		{"two rules", "typescript", `const token = "kT9xQ2mWz7RbL4vN8pY"; const other = "kT9xQ2mWz7RbL4vN8pZ"; ` +
			`const password = "kT9xQ2mWz7RbL4vN8pX"; const r: any = await callTool("peer.echo", { text: "1" }); ` +
			`return eval(r) + token.length + password.length`, "eval,secret"},
		{"python", "python", "api_key = \"kT9xQ2mWz7RbL4vN8pY\"\nlen(api_key)", "secret"},
		{"fails", "typescript", `const api_key = "kT9xQ2mWz7RbL4vN8pY"; throw new Error("stop " + api_key.length)`,
			"secret"},
		{"none", "typescript", `return await callTool("peer.echo", { text: "1" })`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := d.Client().Run(t.Context(), api.RunRequest{Code: tt.code, Language: tt.language}); err != nil {
				t.Fatalf("Run: %v", err)
			}
			all, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Tool: "biplane.execute", Limit: 1})
			if err != nil {
				t.Fatalf("AuditRecords: %v", err)
			}
			if len(all) != 1 {
				t.Fatalf("%d records of execute, want 1", len(all))
			}
			if got := all[0].Detail["findings"]; got != tt.want {
				t.Errorf("findings = %q, want %q (%+v)", got, tt.want, all[0])
			}
		})
	}
}

// TestFindingsAreShownToApprovers checks that a request shows the findings of its program: over the
// API, on the page, and after a restart.
func TestFindingsAreShownToApprovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, p, stop := runTill(t, dir, "auth: { keys: true }\n")
	boss := makeKey(t, d, api.KeyRequest{Name: "boss", Scopes: []string{"api"}, Roles: []string{"approver"}})
	for _, code := range []string{
		"const api_key = \"kT9xQ2mWz7RbL4vN8pY\";\n" +
			"return await callTool(\"till.put\", { text: api_key.length + \"\" })",
		`return await callTool("till.put", { text: "plain" })`,
	} {
		if _, err := d.Client().Run(t.Context(), api.RunRequest{Code: code}); err != nil {
			t.Fatalf("Run: %v", err)
		}
	}
	check := func(d *daemon.Daemon) (faulty api.Approval) {
		t.Helper()
		for _, r := range pending(t, d, 2) {
			shown, err := d.Client().Approvals().Get(t.Context(), r.ID)
			if err != nil {
				t.Fatalf("Approval: %v", err)
			}
			if strings.Contains(string(shown.Arguments), "plain") {
				if len(shown.Findings) != 0 || len(r.Findings) != 0 {
					t.Errorf("findings of a program without faults: %+v", shown.Findings)
				}
				continue
			}
			faulty = *shown
			if len(shown.Findings) != 1 || shown.Findings[0].Rule != "secret" || shown.Findings[0].Line != 1 ||
				shown.Findings[0].Message == "" || !slices.Equal(shown.Findings, r.Findings) {
				t.Errorf("shown.Findings = %+v, want one of the rule secret at line 1", shown.Findings)
			}
		}
		return faulty
	}
	before := check(d)
	b := newBrowser(t, d)
	if _, _, text := b.signIn(t, boss, "/approvals/"+before.ID); !strings.Contains(text, "secret at line 1: ") {
		t.Errorf("the page doesn't show the finding:\n%s", text)
	}
	stop()
	d, _ = run(t, dir, "auth: { keys: true }\npolicy: ask-for-writes\nmcpServers: { till: { url: '"+p.URL+"' } }\n")
	after := check(d)
	if after.ID != before.ID || after.Digest != before.Digest {
		t.Errorf("after a restart the request is %s (%s), want %s (%s)", after.ID, after.Digest,
			before.ID, before.Digest)
	}
	approve := api.Decision{Approve: true, Digest: after.Digest}
	if _, err := d.Client().Approvals().Decide(t.Context(), after.ID, approve); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	pending(t, d, 1)
}

// TestPolicyRefusesFindings checks that policies decide by what the review found: on the program,
// on its calls, and on its files.
func TestPolicyRefusesFindings(t *testing.T) {
	t.Parallel()
	r := newTierRig(t)
	r.start(`
@id("all") permit (principal, action, resource);
@id("no-secrets") @reason("secrets belong in the configuration")
forbid (principal, action == Action::"execute", resource) when { context.findings.contains("secret") };
@id("no-eval") forbid (principal, action in [Action::"call", Action::"write"], resource)
when { context.findings.contains("eval") };
@id("asked") @ask("approvers") permit (principal, action == Action::"execute", resource)
when { context.findings.contains("tls") };
`, nil)
	const (
		secret = `const api_key = "kT9xQ2mWz7RbL4vN8pY"; `
		eval   = `const r: any = await callTool("box.slow", {}); if (r === 1) eval(r); `
		put    = `return await callTool("box.put", {})`
	)
	close(r.release)
	for _, tt := range []struct{ name, code, want string }{
		{"plain", put, "done"},
		{"secret", secret + put + " + api_key", "policy no-secrets, because of what the review found in it (secret): " +
			"secrets belong in the configuration"},
		{"call", eval + put, "policy no-eval"},
		{"file", eval + `(await import("node:fs")).writeFileSync("./workspace/a", "x")`, "policy no-eval"},
		{"ask", `process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0"; ` + put, "it requires approval"},
	} {
		text, _, failed := r.execute("", tt.code)
		if !strings.Contains(text, tt.want) || failed == (tt.name == "plain") {
			t.Errorf("%s: failed %v: %s, want %q", tt.name, failed, text, tt.want)
		}
	}
	refused, err := r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "execution", Effect: "deny",
		Limit: 10})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	if len(refused) != 2 || refused[1].Detail["findings"] != "secret" || refused[1].Execution == "" {
		t.Errorf("records of refused programs: %+v, want two, the first for secret", refused)
	}
}
