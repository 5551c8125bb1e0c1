package daemon_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

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
	report, err := r.d.Client().Policies().Check(t.Context(), nil)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("Check: %+v, %v; want no problems with the names of tools of sandboxes", report, err)
	}
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

// TestRevokeInSandboxes revokes a key while two commands run in its sandbox, one by its MCP server
// and one by the HTTP API: both must end, and so must the MCP session.
func TestRevokeInSandboxes(t *testing.T) {
	t.Parallel()
	r := newProcessRig(t, inSandboxes)
	r.stop()
	r.more = "auth: { keys: true }\n"
	r.start(inSandboxes, nil)
	key := makeKey(t, r.d, api.KeyRequest{Name: "ci", Scopes: []string{"api", "mcp"}})
	own := clientOf(r.d, key).OwnSandboxes()
	box, err := own.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "work"})
	if err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: r.d.URL() + "/mcp/sandboxes/" + box.ID,
		HTTPClient: &http.Client{Transport: bearer(key)}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	defer s.Close()
	ended := make(chan bool, 2)
	go func() {
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "run",
			Arguments: map[string]any{"command": "touch a; sleep 50"}})
		ended <- err != nil || res.IsError
	}()
	go func() {
		_, err := own.UseSandbox(t.Context(), "work", "run", api.SandboxOperation{Command: "touch b; sleep 50"})
		ended <- err != nil
	}()
	until(t, func() bool {
		v, err := own.UseSandbox(t.Context(), "work", "run", api.SandboxOperation{Command: "ls a b | wc -l"})
		return err == nil && strings.TrimSpace(v.Stdout) == "2"
	})
	began := time.Now()
	if _, err := r.d.Client().Keys().Revoke(t.Context(), "ci"); err != nil {
		t.Fatalf("Revoke: %v", err)
	}
	for range 2 {
		if !<-ended {
			t.Error("a command of a revoked key went on to its end")
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the commands ended after %v", took)
	}
	if _, err := s.ListTools(t.Context(), nil); err == nil {
		t.Error("the session goes on")
	}
}
