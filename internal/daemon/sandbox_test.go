package daemon_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
)

const inSandboxes = `permit (principal, action == Action::"execute", resource)
unless { resource == Tool::"biplane.sandbox_remove" };`

// TestSandboxServer works in a principal's own sandbox with a real MCP client: with plain tools, as
// far as policy permits, and on the record.
func TestSandboxServer(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, inSandboxes)
	box, err := r.d.Client().OwnSandboxes().CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "work"})
	if err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	progress := make(chan string, 1)
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, p *mcp.ProgressNotificationClientRequest) {
			select {
			case progress <- p.Params.Message:
			default:
			}
		}})
	connect := func(id string) (*mcp.ClientSession, error) {
		return c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.d.URL() + "/mcp/sandboxes/" + id,
			HTTPClient: http.DefaultClient, MaxRetries: -1}, nil)
	}
	if _, err := connect("sb_unknown"); err == nil {
		t.Error("connected to an unknown sandbox")
	}
	s, err := connect(box.ID)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer s.Close()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatalf("ListTools: %v", err)
	}
	var names []string
	for _, l := range list.Tools {
		names = append(names, l.Name)
	}
	if all := strings.Join(names, " "); !strings.Contains(all, "run start processes logs stop read write files") ||
		strings.Contains(all, "remove") || strings.Contains(all, "create") {
		t.Errorf("tools: %s", all)
	}
	params := &mcp.CallToolParams{Name: "run", Arguments: map[string]any{"command": "echo hello; exit 3"}}
	params.SetProgressToken("p")
	res, err := s.CallTool(t.Context(), params)
	if err != nil || len(res.Content) != 1 {
		t.Fatalf("CallTool: %+v, %v", res, err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != "hello\n\n[exit status 3]" {
		t.Errorf("run: %q", got)
	}
	if got := <-progress; got != "hello\n" {
		t.Errorf("progress: %q", got)
	}
	for _, bad := range []*mcp.CallToolParams{{Name: "remove", Arguments: map[string]any{"path": "x"}},
		{Name: "run", Arguments: map[string]any{"command": "true", "sandbox": "other"}},
		{Name: "biplane.execute", Arguments: map[string]any{"code": "1"}}, {Name: "sandbox_list"}} {
		if res, err := s.CallTool(t.Context(), bad); err == nil && !res.IsError {
			t.Errorf("%s %v succeeded: %+v", bad.Name, bad.Arguments, res.Content)
		}
	}
	records, err := r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Tool: "biplane.sandbox_run"})
	if err != nil || len(records) != 1 || records[0].Outcome != "ok" {
		t.Errorf("records of run: %+v, %v", records, err)
	}
	records, err = r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Tool: "biplane.sandbox_remove"})
	if err != nil || len(records) != 1 || records[0].Effect != "deny" {
		t.Errorf("records of remove: %+v, %v", records, err)
	}
}
