package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// newTokenPeer returns an MCP server over HTTP that refuses requests without one of the tokens. Its
// tool who returns the name that the token of the request stands for.
func newTokenPeer(t *testing.T, names map[string]string) *httptest.Server {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "tokens", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "who", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{
				Text: "you are " + names[r.Extra.Header.Get("X-Key")]}}}, nil, nil
		})
	next := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if names[r.Header.Get("X-Key")] == "" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// TestCredentialsPerPerson lets agents call a server over HTTP at the same time, each with the
// token of its principal.
func TestCredentialsPerPerson(t *testing.T) {
	const agents = 5
	names := map[string]string{}
	for n := range agents {
		names[fmt.Sprintf("token-of-%d", n)] = fmt.Sprintf("agent %d", n)
	}
	p := newTokenPeer(t, names)
	dir := t.TempDir()
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "auth: { keys: true }\npolicy: open\n"+
		"mcpServers: { peer: { url: '"+p.URL+"', headers: { X-Key: '${secret:TOKEN}' }, credentials: person } }")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	d, stop := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0"})
	run := func(name, key string) string {
		x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Code: `return await peer.who({})`})
		if err != nil {
			t.Errorf("Run as %s: %v", name, err)
			return ""
		}
		return fmt.Sprint(string(x.Value), x.Error)
	}
	var all sync.WaitGroup
	for n := range agents {
		name := fmt.Sprintf("a%d", n)
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}})
		token := fmt.Sprintf("token-of-%d", n)
		if _, err := d.Client().SetSecret(t.Context(), "key:"+name, "TOKEN", token); err != nil {
			t.Fatalf("SetSecret: %v", err)
		}
		all.Go(func() {
			for range 3 {
				if got, want := run(name, key), fmt.Sprintf("you are agent %d", n); !strings.Contains(got, want) {
					t.Errorf("%s got %s, want %q", name, got, want)
				}
			}
		})
	}
	all.Wait()
	key := makeKey(t, d, api.KeyRequest{Name: "stranger", Scopes: []string{"api"}})
	if got := run("stranger", key); !strings.Contains(got, "secret TOKEN is not set for key:stranger") {
		t.Errorf("without a secret: %s", got)
	}
	if _, err := d.Client().SetSecret(t.Context(), "key:stranger", "TOKEN", "unknown-token"); err != nil {
		t.Fatalf("SetSecret: %v", err)
	}
	if got := run("stranger", key); !strings.Contains(got, "set a valid secret: `biplane secrets set NAME --for me`") {
		t.Errorf("with an invalid token: %s", got)
	}
	stop()
	calls := map[string]int{}
	for _, r := range recorded(t, dir, audit.KindCall) {
		if r.Subject.Tool == "peer.who" {
			if r.Detail["credential"] != r.Principal {
				t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
			}
			calls[r.Principal]++
		}
	}
	if len(calls) != agents+1 || calls["key:a0"] != 3 {
		t.Errorf("recorded %v, want 3 calls of each agent", calls)
	}
}
