package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
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
	s.AddPrompt(&mcp.Prompt{Name: "greet"},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "for " + names[r.Extra.Header.Get("X-Key")]}, nil
		})
	s.AddResource(&mcp.Resource{URI: "own://notes", Name: "notes"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI,
				Text: "notes of " + names[r.Extra.Header.Get("X-Key")]}}}, nil
		})
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			res, err := next(ctx, method, r)
			if list, ok := res.(*mcp.ListResourcesResult); ok { // each user has one of their own, too
				name := strings.ReplaceAll(names[r.GetExtra().Header.Get("X-Key")], " ", "-")
				own := *list
				own.Resources = append(slices.Clone(list.Resources), &mcp.Resource{URI: "own://" + name, Name: name})
				return &own, err
			}
			return res, err
		}
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

// formatPersonal returns a configuration with a peer that each principal uses with their own token.
func formatPersonal(p *httptest.Server) string {
	return "auth: { keys: true }\nmcpServers: { peer: { url: '" + p.URL +
		"', headers: { X-Key: '${secret:TOKEN}' }, credentials: person } }"
}

// TestCredentialsPerPerson lets agents call a server over HTTP at the same time, each with the
// token of its principal.
func TestCredentialsPerPerson(t *testing.T) {
	t.Parallel()
	const agents = 5
	names := map[string]string{}
	for n := range agents {
		names[fmt.Sprintf("token-of-%d", n)] = fmt.Sprintf("agent %d", n)
	}
	p := newTokenPeer(t, names)
	dir := t.TempDir()
	d, stop := run(t, dir, formatPersonal(p))
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
		if _, err := d.Client().Secrets().Set(t.Context(), "key:"+name, "TOKEN", token); err != nil {
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
	if _, err := d.Client().Secrets().Set(t.Context(), "key:stranger", "TOKEN", "unknown-token"); err != nil {
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

// TestHandshakeConnectsToNoOne checks that a handshake in mode direct, whose answer has the
// instructions of servers, doesn't connect to servers with the client's own credentials: these have
// no part in it.
func TestHandshakeConnectsToNoOne(t *testing.T) {
	t.Parallel()
	p := newTokenPeer(t, map[string]string{"token-of-ann": "ann", "token-of-bob": "bob"})
	var requests atomic.Int64 // of bob
	serve := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") == "token-of-bob" {
			requests.Add(1)
		}
		serve.ServeHTTP(w, r)
	})
	d, stop := run(t, t.TempDir(), "mode: direct\n"+formatPersonal(p))
	defer stop()
	for _, name := range []string{"ann", "bob"} {
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"mcp"}})
		if _, err := d.Client().Secrets().Set(t.Context(), "key:"+name, "TOKEN", "token-of-"+name); err != nil {
			t.Fatalf("SetSecret: %v", err)
		}
		c, err := agent(t, d, key)
		if err != nil {
			t.Fatalf("connect as %s: %v", name, err)
		}
		if name == "ann" {
			if list, err := c.ListTools(t.Context(), nil); err != nil || len(list.Tools) == 0 {
				t.Fatalf("ListTools: %+v, %v", list, err)
			}
		}
	}
	if n := requests.Load(); n > 0 {
		t.Errorf("the handshake made %d requests with the client's own credentials", n)
	}
}

// TestResourcesPerPerson checks that each principal lists and reads resources, and gets prompts,
// with their own credentials, in programs and in mode direct.
func TestResourcesPerPerson(t *testing.T) {
	t.Parallel()
	names := map[string]string{"token-of-ann": "ann", "token-of-bob": "bob"}
	p := newTokenPeer(t, names)
	dir := t.TempDir()
	d, stop := run(t, dir, "mode: direct\n"+formatPersonal(p))
	for _, name := range []string{"ann", "bob"} {
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api", "mcp"}})
		if _, err := d.Client().Secrets().Set(t.Context(), "key:"+name, "TOKEN", "token-of-"+name); err != nil {
			t.Fatalf("SetSecret: %v", err)
		}
		c, err := agent(t, d, key)
		if err != nil {
			t.Fatalf("connect as %s: %v", name, err)
		}
		list, err := c.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 2 || list.Resources[0].URI != "own://notes" ||
			list.Resources[1].URI != "own://"+name {
			t.Errorf("%s lists %+v, %v, want the notes and own://%s", name, list, err, name)
		}
		got, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "own://notes"})
		if err != nil || got.Contents[0].Text != "notes of "+name {
			t.Errorf("%s reads %+v, %v, want their own notes", name, got, err)
		}
		prompt, err := c.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet"})
		if err != nil || prompt.Description != "for "+name {
			t.Errorf("%s gets %+v, %v, want their own prompt", name, prompt, err)
		}
		x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Code: `const own = await peer.resources.list();
			[own.resources.length, (await peer.resources.read("own://notes")).contents[0].text,
				(await peer.prompts.get("greet")).description]`})
		if want := `[2,"notes of ` + name + `","for ` + name + `"]`; err != nil || string(x.Value) != want {
			t.Errorf("a program of %s: %s, %+v, %v, want %s", name, x.Value, x.Error, err, want)
		}
	}
	key := makeKey(t, d, api.KeyRequest{Name: "stranger", Scopes: []string{"mcp"}})
	c, err := agent(t, d, key)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	if list, err := c.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 0 {
		t.Errorf("without credentials: %+v, %v, want no resources", list, err)
	}
	if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "own://notes"}); err == nil ||
		!strings.Contains(err.Error(), "secret TOKEN is not set for key:stranger") {
		t.Errorf("without credentials, reading fails with %v, want what to do", err)
	}
	stop()
	for _, r := range recorded(t, dir, audit.KindCall) {
		if strings.HasPrefix(r.Subject.Tool, "peer.resources.") && r.Detail["credential"] != r.Principal {
			t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
		}
	}
}
