package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// A served is a process of biplane serve, to which browsers and agents connect.
type served struct {
	base   string
	client *api.Client // of its socket
}

// serveProcess starts biplane serve with a configuration in dir, and waits until it answers.
func serveProcess(t *testing.T, dir, config, listen string) *served {
	t.Helper()
	writeFile(t, filepath.Join(dir, "biplane.yaml"), config, 0o600)
	data := filepath.Join(dir, "data")
	p := start(t, dir, "serve", "--data-dir", data, "--listen", listen)
	t.Cleanup(func() {
		p.cmd.Process.Signal(syscall.SIGTERM)
		p.cmd.Wait()
	})
	s := &served{client: daemon.Client(data)}
	waitFor(t, "biplane serve answers", func() bool {
		status, err := s.client.Status(t.Context())
		if err != nil {
			return false
		}
		s.base = "http://" + status.Listen
		return true
	})
	return s
}

// createKey creates an API key, and returns its text.
func (s *served) createKey(t *testing.T, name string, roles ...string) string {
	t.Helper()
	k, err := s.client.Keys().Create(t.Context(),
		api.KeyRequest{Name: name, Scopes: []string{"mcp", "api"}, Roles: roles})
	if err != nil {
		t.Fatalf("create the key %s: %v", name, err)
	}
	return k.Key
}

// withKey returns a client of the HTTP API with a key.
func (s *served) withKey(key string) *api.Client {
	return &api.Client{Base: s.base, HTTP: &http.Client{Transport: bearer(key)}}
}

// pending waits until a number of requests wait for approval.
func (s *served) pending(t *testing.T, n int) (all []api.Approval) {
	t.Helper()
	waitFor(t, "requests for approval", func() bool {
		var err error
		if all, err = s.client.Approvals().ListFor(t.Context(), "", false); err != nil {
			t.Fatalf("list the requests: %v", err)
		}
		return len(all) == n
	})
	return all
}

// A bearer adds a credential to requests.
type bearer string

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// An agentClient is the client of an agent, connected over HTTP.
type agentClient struct{ *mcp.ClientSession }

// connectAgent connects the client of an agent with its key.
func (s *served) connectAgent(t *testing.T, key string) agentClient {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.base + "/mcp",
		HTTPClient: &http.Client{Transport: bearer(key)}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatalf("connect the agent: %v", err)
	}
	t.Cleanup(func() { session.Close() })
	return agentClient{session}
}

// ask calls a tool of Biplane, and returns the text that the agent reads.
func (a agentClient) ask(t *testing.T, name string, args map[string]any) string {
	t.Helper()
	res, err := a.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var all []string
	for _, b := range res.Content {
		if text, ok := b.(*mcp.TextContent); ok {
			all = append(all, text.Text)
		}
	}
	return strings.Join(all, "\n")
}

// A shop is an upstream with the tools put, which writes, and echo and get_price, which read.
type shop struct {
	url    string
	server *mcp.Server

	mu  sync.Mutex
	got []string // the arguments of put
}

func newShop(t *testing.T) *shop {
	t.Helper()
	p := &shop{server: mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)}
	p.addTool("put", "Books", false)
	p.addTool("echo", "Returns its arguments", true)
	p.describePrice("Returns a price.")
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return p.server }, nil))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	p.url = s.URL
	return p
}

// describePrice adds or replaces the tool get_price.
func (p *shop) describePrice(description string) { p.addTool("get_price", description, true) }

func (p *shop) addTool(name, description string, reads bool) {
	p.server.AddTool(&mcp.Tool{Name: name, Description: description,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads},
		InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)},
		func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			text := string(r.Params.Arguments)
			if name == "put" {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.got, text = append(p.got, text), "booked"
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
		})
}

// booked returns the arguments of put so far.
func (p *shop) booked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.got)
}
