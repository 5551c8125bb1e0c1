package daemon_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
)

// TestAPlanThatIsCarriedOutWaits checks a program that branches differently when its plan is
// carried out, and reads something that needs approval. Resuming the planned execution must say so,
// and ask in the client.
func TestAPlanThatIsCarriedOutWaits(t *testing.T) {
	t.Parallel()
	const policies = `permit (principal, action in [Action::"execute", Action::"call", Action::"read", Action::"write"], resource);
@id("all") @ask("approvers") permit (principal, action == Action::"call", resource in Upstream::"till");`
	const code = `const r = JSON.stringify(await callTool("till.put", { n: 1 })); return r.includes("booked") ? ` +
		`await callTool("till.total", {}) : r`
	for channel, version := range channels {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "policies"), 0o700); err != nil {
				t.Fatalf("os.MkdirAll: %v", err)
			}
			if err := os.WriteFile(filepath.Join(dir, "policies", "all.cedar"), []byte(policies), 0o600); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
			p := newTill(t)
			p.mcp.AddTool(&mcp.Tool{Name: "total", Description: "Sum",
				Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
				InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "in all 1"}}}, nil
				})
			d, _ := run(t, dir, "policy: ./policies\nmcpServers: { till: { url: '"+p.URL+"' } }\n"+mayDecide)
			if _, err := d.Client().Upstreams(t.Context()); err != nil {
				t.Fatalf("Upstreams: %v", err)
			}
			key := approverKey(t, d)
			x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Code: code, Mode: "plan"})
			if err != nil || x.State != api.StateWaiting {
				t.Fatalf("x = %+v, err = %v, want err == nil && x.State == api.StateWaiting", x, err)
			}
			decideElsewhere(true)(t, d, p, pending(t, d, 1)[0])
			if all := pending(t, d, 1); all[0].Tool != "till.total" {
				t.Fatalf(`all = %+v, want all[0].Tool == "till.total"`, all)
			}
			until(t, func() bool {
				page, err := clientOf(d, key).Executions(t.Context(),
					api.ExecutionFilter{States: []string{api.StateWaiting}})
				return err == nil && len(page.Executions) == 2 // the planned execution, and the one that carries it out
			})
			a := overHTTP(t, d, key, version, accept("decision", "approve"))
			text, err := call(t, a.ClientSession, "resume", map[string]any{"execution": x.ID})
			if err != nil || !strings.Contains(text, "in all 1") || len(a.shown()) != 1 ||
				!strings.Contains(a.shown()[0], "till.total") {
				t.Errorf("%q %v, asked %q", text, err, a.shown())
			}
			p.booked(t, `{"n":1}`)
		})
	}
}
