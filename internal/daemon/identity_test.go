package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity/identitytest"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/lab/peertest"
	"github.com/biplane-dev/biplane/internal/store"
)

// bearer adds a credential to each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// clientOf returns a client of the HTTP API with a credential.
func clientOf(d *daemon.Daemon, credential string) *api.Client {
	return &api.Client{Base: d.URL(), HTTP: &http.Client{Transport: bearer(credential)}}
}

// agent connects a real MCP client.
func agent(t *testing.T, d *daemon.Daemon, credential string) (*mcp.ClientSession, error) {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: d.URL() + "/mcp",
		HTTPClient: &http.Client{Transport: bearer(credential)}, MaxRetries: -1}, nil)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// call calls a tool, and returns all text in its result.
func call(t *testing.T, s *mcp.ClientSession, name string, args map[string]any) (text string, err error) {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", err
	}
	for _, c := range res.Content {
		if b, ok := c.(*mcp.TextContent); ok {
			text += b.Text + "\n"
		}
	}
	return text, nil
}

func makeKey(t *testing.T, d *daemon.Daemon, r api.KeyRequest) string {
	t.Helper()
	k, err := d.Client().Keys().Create(t.Context(), r)
	if err != nil {
		t.Fatalf("CreateKey: %v", err)
	}
	return k.Key
}

// recorded returns the records of a kind, oldest first, once the daemon has stopped.
func recorded(t *testing.T, dir string, kind audit.Kind) []audit.Record {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	defer s.Close()
	key, err := secret.Open(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	stored, err := s.Audit(t.Context(), key)
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	records, err := audit.New(audit.Config{Store: stored, Key: key}).Records(t.Context(),
		audit.Query{Kind: kind, Limit: 1000})
	if err != nil {
		t.Fatalf("Records: %v", err)
	}
	slices.Reverse(records)
	return records
}

// TestTwoKeys checks that two agents with a key each see nothing of each other's data.
func TestTwoKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPeer(t)
	d, stop := run(t, dir, "auth: { keys: true }\nmcpServers: { peer: { url: '"+p.URL+"' } }")
	both := []string{"mcp", "api"}
	ann, bob := makeKey(t, d, api.KeyRequest{Name: "ann", Scopes: both}),
		makeKey(t, d, api.KeyRequest{Name: "bob", Scopes: both})
	a, err := agent(t, d, ann)
	if err != nil {
		t.Fatalf("agent: %v", err)
	}
	b, err := agent(t, d, bob)
	if err != nil {
		t.Fatalf("agent: %v", err)
	}
	if text, err := call(t, a, "execute", map[string]any{"code": "globalThis.secret = 41",
		"session": "work"}); err != nil || !strings.Contains(text, "41") {
		t.Fatalf("ann's first program: answer %v, error %v, want 41", text, err)
	}
	if text, err := call(t, b, "execute", map[string]any{"code": "typeof secret", "session": "work"}); err != nil ||
		!strings.Contains(text, "undefined") {
		t.Errorf("bob sees ann's session: %s %v", text, err)
	}
	if text, err := call(t, a, "execute", map[string]any{"code": "secret + 1", "session": "work"}); err != nil ||
		!strings.HasPrefix(text, "42") {
		t.Errorf("ann's second program: answer %v, error %v, want her variable + 1, 42", text, err)
	}
	for who, want := range map[string]string{ann: "key:ann", bob: "key:bob"} {
		all, err := clientOf(d, who).Sessions().List(t.Context())
		if err != nil || len(all) != 1 || all[0].Owner != want {
			t.Errorf("the sessions of %s: %+v, %v, want only its own", want, all, err)
		}
	}
	// An execution belongs to its owner, however it is requested.
	x, err := clientOf(d, ann).Run(t.Context(), api.RunRequest{Code: "'mine'"})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	if _, err := clientOf(d, ann).Execution(t.Context(), x.ID); err != nil {
		t.Errorf("Execution: %v", err)
	}
	if y, err := clientOf(d, bob).Execution(t.Context(), x.ID); err == nil {
		t.Errorf("bob reads ann's execution: %+v", y)
	}
	if text, err := call(t, b, "resume", map[string]any{"execution": x.ID}); err == nil &&
		strings.Contains(text, "mine") {
		t.Errorf("bob resumes ann's execution: %s", text)
	}
	// An MCP session is bound to the key that opened it.
	for who, want := range map[string]int{bob: 404, "nonsense": 401} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL()+"/mcp",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
		if err != nil {
			t.Fatalf("http.NewRequestWithContext: %v", err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Mcp-Session-Id", a.ID())
		req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		resp, err := (&http.Client{Transport: bearer(who)}).Do(req)
		if err != nil {
			t.Fatalf("Do: %v", err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != want && a.ID() != "" {
			t.Errorf("ann's MCP session with %.10s: %s", who, resp.Status)
		}
	}
	stop()
	var got []string
	for _, r := range recorded(t, dir, audit.KindSignIn) {
		got = append(got, r.Principal+" "+r.Decision.Effect)
	}
	if want := []string{"key:ann allow", "key:bob allow"}; !slices.Equal(got[:2], want) ||
		!slices.Contains(got[2:], " deny") {
		t.Errorf("recorded: %v", got)
	}
	keys := recorded(t, dir, audit.KindKey)
	if len(keys) != 2 || keys[0].Subject.Name != "ann" || keys[0].Detail["action"] != "create" ||
		!strings.HasPrefix(keys[0].Principal, "local:") {
		t.Errorf("keys = %+v", keys)
	}
	for _, r := range recorded(t, dir, audit.KindCall) {
		if r.Principal != "key:ann" && r.Principal != "key:bob" {
			t.Errorf("a recorded call: %+v, want it to be of key:ann or key:bob", r)
		}
	}
}

// TestKeyForOneTool checks that a key neither shows nor reaches tools outside of its scope.
func TestKeyForOneTool(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "auth: { keys: true }\nmode: direct\nmcpServers: { peer: { url: '"+p.URL+"' } }")
	if _, err := d.Client().Upstreams(t.Context()); err != nil { // wait until they are connected
		t.Fatalf("Upstreams: %v", err)
	}
	key := makeKey(t, d, api.KeyRequest{Name: "echo", Scopes: []string{"mcp", "api"}, Tools: []string{"peer.echo"}})
	s, err := agent(t, d, key)
	if err != nil {
		t.Fatalf("agent: %v", err)
	}
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatalf("ListTools: %v", err)
	}
	if text, err := json.Marshal(list); err != nil || !strings.Contains(string(text), "echo") ||
		strings.Contains(string(text), "meet") {
		t.Errorf("text = %s, err = %v, want err == nil && strings.Contains(string(text), \"echo\") && "+
			"!strings.Contains(string(text), \"meet\")", text, err)
	}
	tools, err := clientOf(d, key).Tools(t.Context())
	if err != nil || slices.ContainsFunc(tools, func(t api.Tool) bool { return t.Path == "peer.meet" }) {
		t.Errorf("tools = %+v, err = %v, want err == nil && !slices.ContainsFunc(tools, func(t "+
			"api.Tool) bool { return t.Path == \"peer.meet\" })", tools, err)
	}
	x := execute(t, clientOf(d, key), `const e = await callTool("peer.echo", { n: 1 }); try { await `+
		`callTool("peer.meet", { n: 1 }) } catch (err) { return e.n + " " + err.message }`)
	if x.Error != nil || !strings.HasPrefix(string(x.Value), `"1 `) {
		t.Errorf("x.Value = %s, x.Error = %+v, want x.Error == nil && "+
			"strings.HasPrefix(string(x.Value), `\"1 `)", x.Value, x.Error)
	}
	if n := p.calls.Load(); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestRevoke revokes a key while a call with it waits. The call and the MCP session must end, and
// new requests must be refused.
func TestRevoke(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := newPeer(t)
	d, stop := run(t, dir, "auth: { keys: true }\nmcpServers: { peer: { url: '"+p.URL+"' } }")
	key := makeKey(t, d, api.KeyRequest{Name: "ci"})
	other, err := agent(t, d, makeKey(t, d, api.KeyRequest{Name: "other"}))
	if err != nil {
		t.Fatalf("agent: %v", err)
	}
	s, err := agent(t, d, key)
	if err != nil {
		t.Fatalf("agent: %v", err)
	}
	waiting := make(chan error, 1)
	go func() {
		res, err := s.CallTool(context.WithoutCancel(t.Context()),
			&mcp.CallToolParams{Name: "peer.meet", Arguments: map[string]any{"n": 2}})
		if err == nil && res.IsError {
			err = errors.New("the call was cut")
		}
		waiting <- err
	}()
	until(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.waiting) == 1 })
	if _, err := d.Client().Keys().Revoke(t.Context(), "ci"); err != nil {
		t.Fatalf("RevokeKey: %v", err)
	}
	select {
	case err := <-waiting:
		if err == nil {
			t.Error("the call went on")
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call is not cut")
	}
	if _, err := s.ListTools(t.Context(), nil); err == nil {
		t.Error("the session goes on")
	}
	if _, err := agent(t, d, key); err == nil {
		t.Error("a revoked key opens a session")
	}
	if _, err := other.ListTools(t.Context(), nil); err != nil {
		t.Errorf("another key's session was cut: %v", err)
	}
	stop()
	records := recorded(t, dir, audit.KindSignIn)
	last := records[len(records)-1]
	if last.Decision.Effect != "deny" || last.Detail["claimed"] != "key:ci" ||
		!strings.HasPrefix(last.Decision.Reason, "revoked key") {
		t.Errorf("last = %+v", last)
	}
}

// TestRevokedWhileItRuns checks that the running program of a revoked key no longer reaches tools.
func TestRevokedWhileItRuns(t *testing.T) {
	t.Parallel()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), "auth: { keys: true }\nmcpServers: { peer: { url: '"+p.URL+"' } }")
	key := makeKey(t, d, api.KeyRequest{Name: "ci", Scopes: []string{"api"}})
	done := make(chan *api.Execution, 1)
	go func() {
		x, err := clientOf(d, key).Run(context.WithoutCancel(t.Context()), api.RunRequest{Code: `
			await callTool("peer.meet", { n: 2 });
			try { await callTool("peer.echo", { n: 1 }) } catch (err) { return err.message }`})
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		done <- x
	}()
	until(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.waiting) == 1 })
	if _, err := d.Client().Keys().Revoke(t.Context(), "ci"); err != nil {
		t.Fatalf("RevokeKey: %v", err)
	}
	if x := execute(t, d.Client(), `await callTool("peer.meet", { n: 2 })`); x.Error != nil {
		t.Fatalf("x.Error = %+v, want nil", x.Error)
	}
	if x := <-done; x == nil || !strings.Contains(string(x.Value), "key ci was revoked") {
		t.Errorf("the program of the revoked key: %+v, want an answer that says that the key was revoked", x)
	}
	if n := p.calls.Load(); n != 2 {
		t.Errorf("%d calls", n)
	}
}

// until waits for a condition.
func until(t *testing.T, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("not within two minutes")
		}
	}
}

// TestTokens connects agents with tokens of an issuer.
func TestTokens(t *testing.T) {
	t.Parallel()
	i, err := identitytest.NewIssuer()
	if err != nil {
		t.Fatalf("identitytest.NewIssuer: %v", err)
	}
	defer i.Close()
	const resource = "https://biplane.example.com/mcp"
	dir := t.TempDir()
	d, stop := run(t, dir, "auth:\n  resource: "+resource+"\n  issuers: [{ issuer: '"+i.URL+
		"' }]\n  roles: { admin: ['group:ops'] }\n")
	token := func(change map[string]any) string {
		text, err := i.SignToken(i.ValidClaims("ann", resource, time.Now(), change), nil)
		if err != nil {
			t.Fatalf("SignToken: %v", err)
		}
		return text
	}
	if s, err := agent(t, d, token(nil)); err != nil {
		t.Errorf("agent: %v", err)
	} else if text, err := call(t, s, "execute", map[string]any{"code": "1 + 1"}); err != nil ||
		!strings.HasPrefix(text, "2") {
		t.Errorf("a program of a signed-in agent: answer %v, error %v, want 2", text, err)
	}
	if _, err := agent(t, d, token(map[string]any{"aud": "https://other.example.com"})); err == nil {
		t.Error("a token for somebody else is taken")
	}
	// Only an admin may use an admin's route.
	share := func(credential string) error {
		return errors.Join(clientOf(d, credential).Skills().Share(t.Context(), "none", true))
	}
	var e *api.Error
	if err := share(token(nil)); !errors.As(err, &e) || e.Kind != api.Denied {
		t.Errorf("share a skill without the role: error %v, want kind denied", err)
	}
	if err := share(token(map[string]any{"groups": []string{"ops"}})); !errors.As(err, &e) || e.Kind != api.NotFound {
		t.Errorf("share an unknown skill with the role: error %v, want kind not_found", err)
	}
	// A client without a token learns where to get one.
	resp, err := http.Post(d.URL()+"/mcp", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatalf("http.Post: %v", err)
	}
	resp.Body.Close()
	if h := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 401 ||
		!strings.Contains(h, `resource_metadata="https://biplane.example.com/.well-known/oauth-protected-resource/mcp"`) || !strings.Contains(h, `scope="mcp"`) {
		t.Errorf("resp.Status = %v, h = %v", resp.Status, h)
	}
	resp, err = http.Get(d.URL() + "/.well-known/oauth-protected-resource/mcp")
	if err != nil {
		t.Fatalf("http.Get: %v", err)
	}
	text, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 || !strings.Contains(string(text), `"authorization_servers":["`+i.URL+`"]`) {
		t.Errorf("resp.Status = %s, text = %s, want resp.StatusCode == 200 && "+
			"strings.Contains(string(text), `\"authorization_servers\":[\"`+i.URL+`\"]`)", resp.Status, text)
	}
	stop()
	var got []string
	for _, r := range recorded(t, dir, audit.KindSignIn) {
		reason, _, _ := strings.Cut(r.Decision.Reason, ":")
		got = append(got, strings.TrimSpace(r.Decision.Effect+" "+strings.TrimPrefix(r.Principal, i.URL)+" "+reason))
	}
	got = slices.Compact(got) // a client tries twice, once for each era of the protocol
	if want := []string{"allow #ann", "deny  another audience", "deny #ann insufficient role", "allow #ann",
		"deny  no credential"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// TestSignInOfARealClient has the MCP SDK for TypeScript discover the authorization server, get a
// token and use it.
func TestSignInOfARealClient(t *testing.T) {
	t.Parallel()
	node, sdk := peertest.Node(t),
		filepath.Dir(filepath.Dir(peertest.Module(t, "@modelcontextprotocol/sdk/dist/esm/client/index.js")))
	i, err := identitytest.NewIssuer()
	if err != nil {
		t.Fatalf("identitytest.NewIssuer: %v", err)
	}
	defer i.Close()
	address := "127.0.0.1:" + peertest.Port(t)
	dir := t.TempDir()
	resource := "http://" + address + "/mcp"
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "auth: { keys: false, resource: '"+resource+
		"', issuers: [{ issuer: '"+i.URL+"' }] }")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: address})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, filepath.Join("testdata", "signin.mjs"), resource, sdk)
	out, err := cmd.CombinedOutput()
	want := `{"scope":"mcp","resource":"` + resource + `","text":"42"}`
	if err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("%v\n%s\nwant %s", err, out, want)
	}
}
