package daemon_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// TestAttemptsAreOnRecord runs programs that name hidden tools, of a visible and of a hidden
// upstream. Each attempt is recorded as a denied call, whether the check rejects the program or it
// runs. The error is the same as for a tool that doesn't exist.
func TestAttemptsAreOnRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "policies"), 0o700); err != nil {
		t.Fatalf("os.MkdirAll: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "policies", "p.cedar"), []byte(`
@id("all") permit (principal, action in [Action::"call", Action::"execute"], resource);
@id("no-fail") forbid (principal, action == Action::"call", resource == Tool::"crm.fail");
@id("no-bank") forbid (principal, action == Action::"call", resource in Upstream::"bank");
`), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	up := newCRM(t)
	d, _ := run(t, dir, "policy: ./policies\nmcpServers: { crm: { url: '"+up.URL+"' }, bank: { url: '"+up.URL+"' } }")
	seen := map[string]bool{}
	attempts := func(path string) (n int) {
		t.Helper()
		all, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Tool: path})
		if err != nil {
			t.Fatalf("AuditRecords: %v", err)
		}
		for _, r := range all {
			if !seen[r.ID] {
				seen[r.ID] = true
				if r.Effect != "deny" || r.Execution == "" {
					t.Errorf("%s is on record as %+v", path, r)
				}
				n++
			}
		}
		return n
	}
	for _, c := range []struct{ language, code, path string }{
		{"typescript", `await crm.fail({})`, "crm.fail"},
		{"typescript", `await crm.fail({ wrong: 1 }, 2)`, "crm.fail"},
		{"typescript", `await tools.crm.fail({})`, "crm.fail"},
		{"typescript", `await callTool("crm.fail", {})`, "crm.fail"},
		{"typescript", `try { await callTool("crm.fail", {}) } catch (e) { return e.message }`, "crm.fail"},
		{"typescript", `await bank.send({})`, "bank.send"},
		{"typescript", `await tools.bank.send({})`, "bank.send"},
		{"typescript", `await callTool("bank.send", {})`, "bank.send"},
		{"typescript", `const path = "bank.send"; await callTool(path, {})`, "bank.send"},
		{"typescript", `try { await bank.send({}) } catch (e) { return e.message }`, "bank.send"},
		{"python", `await crm.fail()`, "crm.fail"},
		{"python", `await call_tool("crm.fail", {})`, "crm.fail"},
		{"python", `await bank.send(to="x")`, "bank.send"},
		{"python", "try:\n    await bank.send()\nexcept Exception as e:\n    print(e)", "bank.send"},
		{"python", `await call_tool("bank.send", {})`, "bank.send"},
	} {
		x, err := d.Client().Run(t.Context(), api.RunRequest{Code: c.code, Language: c.language})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if n := attempts(c.path); n != 1 {
			t.Errorf("%s (%s): %d records, %+v", c.code, c.language, n, x.Error)
		}
		if x.Error != nil && x.Error.Kind == "check" { // the same error as for an unknown tool
			nowhere := strings.NewReplacer("bank", "bonk", "fail", "foil").Replace(c.code)
			y, err := d.Client().Run(t.Context(), api.RunRequest{Code: nowhere, Language: c.language})
			if err != nil {
				t.Fatalf("Run: %v", err)
			}
			suggestion := regexp.MustCompile(`; did you mean [^?]*\?`) // the suggestion depends on the name
			told := suggestion.ReplaceAllString(x.Error.Message, "")
			if y.Error == nil ||
				strings.NewReplacer("bonk", "bank", "foil",
					"fail").Replace(suggestion.ReplaceAllString(y.Error.Message, "")) != told {
				t.Errorf("%s is told from what doesn't exist: %+v, %+v", c.code, x.Error, y.Error)
			}
			if strings.Contains(x.Error.Message, "denied") {
				t.Errorf("c.code = %s, x.Error.Message = %s, want !strings.Contains(x.Error.Message, "+
					"\"denied\")", c.code, x.Error.Message)
			}
		}
	}
	if got := up.last(); got != "" {
		t.Errorf("the upstream was called: %s", got)
	}
	many := ""
	for i := range 60 {
		many += "await bank.t" + strings.Repeat("x", i) + "({});"
	}
	if _, err := d.Client().Run(t.Context(), api.RunRequest{Code: many + "await bank.send({})"}); err != nil {
		t.Fatalf("Run: %v", err)
	}
}
