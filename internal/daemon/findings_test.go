package daemon_test

import (
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestFindingsAreOnRecord checks that the record of execute lists the rules of a program's
// findings, once each and sorted, and that the record of a program without findings has none.
func TestFindingsAreOnRecord(t *testing.T) {
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
		{"fails", "typescript", `const api_key = "kT9xQ2mWz7RbL4vN8pY"; throw new Error("stop " + api_key.length)`, "secret"},
		{"none", "typescript", `return await callTool("peer.echo", { text: "1" })`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := d.Client().Run(t.Context(), api.RunRequest{Code: tt.code, Language: tt.language}); err != nil {
				t.Fatalf("Run: %v", err)
			}
			all, err := d.Client().AuditRecords(t.Context(), api.AuditQuery{Tool: "biplane.execute", Limit: 1})
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
