package daemon_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/tool"
)

// atProfile connects an agent to the endpoint of a profile.
func atProfile(t *testing.T, d *daemon.Daemon, profile string) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	s, err := c.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: d.URL() + "/mcp" + profile, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// listed returns the names of the tools that an agent sees.
func listed(t *testing.T, s *mcp.ClientSession) (names []string) {
	t.Helper()
	res, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatalf("ListTools: %v", err)
	}
	for _, x := range res.Tools {
		names = append(names, x.Name)
	}
	slices.Sort(names)
	return names
}

// TestProfiles checks what the agents of a profile see and may call, in each mode.
func TestProfiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPeer(t)
	d, _ := run(t, dir, `
policy: open
network: { private: [127.0.0.1/32] }
mcpServers:
  crm: { url: '`+p.URL+`' }
  mail: { url: '`+p.URL+`' }
profiles:
  front: { tools: [crm.echo], mode: direct }
  plain: { tools: [crm.echo, crm.meet, mail.meet], mode: direct, unprefixed: true }
  back: { tools: [mail, "none.*"], instructions: "Only mail." }
`)
	whole, front, back := atProfile(t, d, ""), atProfile(t, d, "/front"), atProfile(t, d, "/back")

	if got := listed(t, front); !slices.Equal(got, []string{"crm_echo"}) {
		t.Errorf("profile front lists %v, want crm_echo", got)
	}
	plain := atProfile(t, d, "/plain")
	if got := listed(t, plain); !slices.Equal(got, []string{"crm_meet", "echo", "mail_meet"}) {
		t.Errorf("profile plain lists %v, want echo without its upstream", got)
	}
	if text, err := call(t, plain, "echo", map[string]any{"n": 6}); err != nil || !strings.Contains(text, "6") {
		t.Errorf("echo: %q, %v", text, err)
	}
	if got := listed(t, back); !slices.Equal(got, listed(t, whole)) || len(got) != 3 {
		t.Errorf("profile back lists %v, want Biplane's three tools", got)
	}
	if got := back.InitializeResult().Instructions; got != "Only mail." {
		t.Errorf("instructions of profile back: %q", got)
	}
	if got := front.InitializeResult().Capabilities; got.Prompts == nil {
		t.Error("profile front, in mode direct, passes on no prompts")
	}
	if text, err := call(t, front, "crm_echo", map[string]any{"n": 7}); err != nil || !strings.Contains(text, "7") {
		t.Errorf("crm_echo: %q, %v", text, err)
	}
	for _, name := range []string{"mail_echo", "mail.echo", "crm_meet"} {
		if text, err := call(t, front, name, map[string]any{"n": 1}); err == nil && !strings.Contains(text, "front") {
			t.Errorf("profile front called %s: %q", name, text)
		}
	}
	const refused = "try { return await callTool(['crm', 'echo'].join('.'), {n: 9}) } catch (e) { return e.message }"
	for code, want := range map[string]string{
		"return (await mail.echo({n: 8})).n": "8",
		"return await crm.echo({n: 9})":      `no tool "crm.echo"`,
		refused:                              "profile back does not have it",
		"return await fetch('" + p.URL + "').then(r => r.status, e => e.message)": "profile back does not have it",
	} {
		text, err := call(t, back, "execute", map[string]any{"code": code})
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%s: %q, %v, want %q", code, text, err, want)
		}
	}
	if calls := p.calls.Load(); calls != 3 {
		t.Errorf("%d calls were made, want 3", calls)
	}
	if text, err := call(t, back, "search", map[string]any{"query": "echo"}); err != nil ||
		!strings.Contains(text, "mail") || strings.Contains(text, "crm") {
		t.Errorf("search: %q, %v, want only mail", text, err)
	}
	text, err := call(t, whole, "execute", map[string]any{"code": "return (await crm.echo({n: 5})).n"})
	if err != nil || !strings.Contains(text, "5") {
		t.Errorf("without a profile: %q, %v", text, err)
	}
	records, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Tool: "crm.echo", Limit: 100})
	if err != nil || !slices.ContainsFunc(records, func(r api.AuditRecord) bool {
		return r.Detail["profile"] == "front" && r.Effect == "allow"
	}) {
		t.Errorf("records of crm.echo: %v, %v, want one with profile front", records, err)
	}
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	if _, err := c.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: d.URL() + "/mcp/nothing", MaxRetries: -1}, nil); err == nil {
		t.Error("an unknown profile is served")
	}
}

// TestProfileAfterRestart checks that a program which continues after a restart still has only the
// tools of its profile.
func TestProfileAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPeer(t)
	text := `
policy: ask-for-writes
mcpServers:
  crm: { url: '` + p.URL + `' }
  mail: { url: '` + p.URL + `' }
profiles:
  back: { tools: [mail] }
`
	d, stop := run(t, dir, text)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const code = `await mail.meet({n: 1})
try { return await callTool(['crm', 'echo'].join('.'), {n: 9}) } catch (e) { return e.message }`
	agent := atProfile(t, d, "/back")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = agent.CallTool(ctx, &mcp.CallToolParams{Name: "execute", Arguments: map[string]any{"code": code}})
	}()
	pending := awaitApproval(t, d)
	stop()
	cancel()
	<-ended

	settings, err := config.Parse(filepath.Join(dir, "biplane.yaml"), []byte(text), env, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	d, _ = runWith(t, daemon.Config{Settings: settings, DataDir: dir, Listen: "127.0.0.1:0", Version: "test",
		Recover: true})
	if _, err := d.Client().Approvals().Decide(t.Context(), pending.ID,
		api.Decision{Approve: true, Digest: pending.Digest}); err != nil {
		t.Fatalf("Decide: %v", err)
	}
	answer, err := call(t, atProfile(t, d, "/back"), "resume", map[string]any{"execution": pending.Execution})
	if err != nil || !strings.Contains(answer, "profile back does not have it") {
		t.Errorf("after the restart: %q, %v, want a refusal by the profile", answer, err)
	}
}

// awaitApproval returns the only pending approval, once there is one.
func awaitApproval(t *testing.T, d *daemon.Daemon) api.Approval {
	t.Helper()
	for {
		all, err := d.Client().Approvals().ListFor(t.Context(), "", false)
		if err != nil {
			t.Fatalf("Approvals: %v", err)
		}
		if len(all) == 1 {
			return all[0]
		}
		<-time.After(10 * time.Millisecond)
	}
}
