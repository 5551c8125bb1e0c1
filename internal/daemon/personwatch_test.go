package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// newWatchedPeer returns an MCP server over HTTP with one server for each key, and these servers by
// key. Each has the resource own://notes, and sends to subscribed when a client subscribes to it.
func newWatchedPeer(t *testing.T, keys []string) (url string, servers map[string]*mcp.Server,
	subscribed chan string) {
	t.Helper()
	servers, subscribed = map[string]*mcp.Server{}, make(chan string, 20)
	for _, key := range keys {
		s := mcp.NewServer(&mcp.Implementation{Name: "watched", Version: "1"}, &mcp.ServerOptions{
			SubscribeHandler: func(context.Context, *mcp.SubscribeRequest) error {
				subscribed <- key
				return nil
			},
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		})
		s.AddResource(&mcp.Resource{URI: "own://notes", Name: "notes"},
			func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: key}}}, nil
			})
		servers[key] = s
	}
	next := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return servers[r.Header.Get("X-Key")]
	}, nil)
	p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if servers[r.Header.Get("X-Key")] == nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p.URL, servers, subscribed
}

// watcher connects an agent that reports updates of resources.
func watcher(t *testing.T, d *daemon.Daemon, key string) (*mcp.ClientSession, chan string) {
	t.Helper()
	updates := make(chan string, 20)
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			updates <- r.Params.URI
		}})
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: d.URL() + "/mcp",
		HTTPClient: &http.Client{Transport: bearer(key)}}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s, updates
}

// TestSubscriptionsPerPerson checks that each principal subscribes with their own credentials, that
// only their agents are notified, and that subscriptions outlive an idle connection and a new
// secret.
func TestSubscriptionsPerPerson(t *testing.T) {
	t.Parallel()
	url, servers, subscribed := newWatchedPeer(t, []string{"of-ann", "new-of-ann", "of-bob"})
	dir := t.TempDir()
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "auth: { keys: true }\npolicy: open\nmode: direct\n"+
		"mcpServers: { peer: { url: '"+url+"', headers: { X-Key: '${secret:KEY}' }, credentials: person, idle: 1s } }")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	d, stop := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0"})
	agents, updates := map[string]*mcp.ClientSession{}, map[string]chan string{}
	for _, name := range []string{"ann", "bob", "stranger"} {
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"mcp"}})
		agents[name], updates[name] = watcher(t, d, key)
		if name == "stranger" {
			continue
		}
		if _, err := d.Client().Secrets().Set(t.Context(), "key:"+name, "KEY", "of-"+name); err != nil {
			t.Fatalf("SetSecret: %v", err)
		}
		if err := agents[name].Subscribe(t.Context(), &mcp.SubscribeParams{URI: "own://notes"}); err != nil {
			t.Fatalf("%s subscribes: %v", name, err)
		}
		if got := <-subscribed; got != "of-"+name {
			t.Errorf("%s subscribed with the key %s, want their own", name, got)
		}
	}
	if err := agents["stranger"].Subscribe(t.Context(), &mcp.SubscribeParams{URI: "own://notes"}); err == nil {
		t.Error("a subscription without a secret: want an error")
	}
	update := func(key, name string) {
		t.Helper()
		if err := servers[key].ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{
			URI: "own://notes"}); err != nil {
			t.Fatalf("ResourceUpdated: %v", err)
		}
		if got := <-updates[name]; got != "own://notes" {
			t.Errorf("%s: an update of %s, want own://notes", name, got)
		}
	}
	update("of-ann", "ann")
	update("of-bob", "bob")
	if len(updates["ann"])+len(updates["bob"])+len(updates["stranger"]) > 0 {
		t.Error("an agent was notified of another principal's resource")
	}
	if _, err := d.Client().Secrets().Set(t.Context(), "key:ann", "KEY", "new-of-ann"); err != nil {
		t.Fatalf("SetSecret: %v", err)
	}
	if _, err := agents["ann"].ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "own://notes"}); err != nil {
		t.Fatalf("ann reads: %v", err)
	}
	if got := <-subscribed; got != "new-of-ann" {
		t.Errorf("after a new secret, %s subscribed, want new-of-ann", got)
	}
	if got := <-updates["ann"]; got != "own://notes" { // it may have been updated meanwhile
		t.Errorf("after a new secret: an update of %s, want own://notes", got)
	}
	update("new-of-ann", "ann")
	if len(updates["bob"]) > 0 {
		t.Error("bob was notified of ann's resource")
	}
	stop()
	for _, r := range recorded(t, dir, audit.KindCall) {
		if strings.HasSuffix(r.Subject.Tool, ".subscribe") && r.Detail["credential"] != r.Principal {
			t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
		}
	}
}

// TestFoldersPerPerson checks that the tools of a folder see the secrets of the principal who calls
// them, and that what all principals see doesn't contain a secret.
func TestFoldersPerPerson(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeTools(t, dir, map[string]string{
		"who.ts": "const early = process.env.TOKEN;\n" +
			"export async function who() {\n" +
			"  return \"I am \" + process.env.TOKEN.slice(9) + \" \" + process.env.PLAIN;\n}\n" +
			"who.description = \"made for \" + early;\n",
		"py.py": "import os\n\ndef py() -> str:\n    return \"I am \" + os.environ[\"TOKEN\"][9:]\n",
	})
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "auth: { keys: true }\npolicy: open\n"+
		"folders: { own: { path: ./tools, env: { TOKEN: '${secret:TOKEN}', PLAIN: here }, credentials: person } }\n")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	d, stop := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0"})
	for _, name := range []string{"ann", "bob", "stranger"} {
		key := makeKey(t, d, api.KeyRequest{Name: name, Scopes: []string{"api"}})
		want := `["I am ` + name + ` here","I am ` + name + `"]`
		if name == "stranger" {
			want = "secret TOKEN is not set for key:stranger"
		} else if _, err := d.Client().Secrets().Set(t.Context(), "key:"+name, "TOKEN", "token-of-"+name); err != nil {
			t.Fatalf("SetSecret: %v", err)
		}
		x, err := clientOf(d, key).Run(t.Context(), api.RunRequest{Code: `[await own.who(), await own.py()]`})
		if err != nil || !strings.Contains(fmt.Sprint(string(x.Value), x.Error), want) {
			t.Errorf("%s: %s, %+v, %v, want %s", name, x.Value, x.Error, err, want)
		}
	}
	tools, err := d.Client().Tools(t.Context())
	if err != nil || len(tools) != 2 {
		t.Fatalf("Tools: %+v, %v, want 2 tools", tools, err)
	}
	for _, x := range tools {
		if strings.Contains(x.Description, "token-of") {
			t.Errorf("%s is described as %q, with a secret", x.Name, x.Description)
		}
	}
	stop()
	for _, r := range recorded(t, dir, audit.KindCall) {
		if strings.HasPrefix(r.Subject.Tool, "own.") && r.Detail["credential"] != r.Principal {
			t.Errorf("%s used the credential of %q", r.Principal, r.Detail["credential"])
		}
	}
}
