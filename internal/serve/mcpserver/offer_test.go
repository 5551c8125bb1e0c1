package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	settings "github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// offersOf returns offers of an upstream: its own, and some that other upstreams have, too.
func offersOf(upstream string) *tool.Offers {
	o := tool.NewOffers(upstream, true, true)
	for _, uri := range []string{"x://both", "x://" + upstream} {
		o.Resources = append(o.Resources, tool.Offer{Key: uri,
			Raw: json.RawMessage(`{"uri":"` + uri + `","name":"n","size":9007199254740993}`)})
	}
	o.Templates = []tool.Offer{{Key: upstream + "://{id}",
		Raw: json.RawMessage(`{"uriTemplate":"` + upstream + `://{id}","name":"t"}`)}}
	for _, name := range []string{"both", upstream} {
		o.Prompts = append(o.Prompts, tool.Offer{Key: name, Raw: json.RawMessage(`{"name":"` + name + `","x":1.10}`)})
	}
	return o
}

func TestOffers(t *testing.T) {
	d := newDoor()
	for _, up := range []string{"a", "b", "dark"} {
		answer := func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return tool.StructuredResult(json.RawMessage(`{"x":[9007199254740993],"called":` + string(c.Arguments) +
				`,"by":"` + up + `"}`))
		}
		d.handle(up+".resources.read", answer)
		d.handle(up+".prompts.get", answer)
	}
	d.handle("dark.resources.read", func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.Denied, "dark is denied")
	})
	cfg := config(d, mcpserver.Direct)
	cfg.Limits.PageSize = 3
	cfg.Catalog = upstreams{list: upstreamTools, offers: []*tool.Offers{offersOf("a"), offersOf("b")},
		hidden: []*tool.Offers{offersOf("dark")}}
	peers(t, cfg, func(t *testing.T, p peer, version string) {
		check := func(method, params string, want ...string) string {
			t.Helper()
			got, _ := p.call(t, method, params)
			for _, w := range want {
				if !strings.Contains(got, w) {
					t.Errorf("%s %s: got %s, want %s", method, params, got, w)
				}
			}
			return got
		}
		first := check("resources/list", "", `{"uri":"biplane://a/x://both","name":"n","size":9007199254740993}`,
			`"uri":"x://a"`, `"uri":"biplane://b/x://both"`)
		cursor := string(fieldOf(t, first, "result", "nextCursor"))
		second := check("resources/list", `{"cursor":`+cursor+`}`, `"uri":"x://b"`)
		if strings.Contains(second, "dark") || strings.Contains(second, "x://a") {
			t.Errorf("second page: %s", second)
		}
		check("resources/list", `{"cursor":"bm8"}`, "-32602")
		check("resources/templates/list", "", `"uriTemplate":"a://{id}"`, `"uriTemplate":"b://{id}"`)
		check("prompts/list", "", `{"name":"a_both","x":1.10}`, `{"name":"a","x":1.10}`, `{"name":"b_both","x":1.10}`)

		for uri, want := range map[string]string{
			"x://a":                `"called":{"uri":"x://a"},"by":"a"`,
			"biplane://b/x://both": `"called":{"uri":"x://both"},"by":"b"`,
			"biplane://b/x://new":  `"called":{"uri":"x://new"},"by":"b"`,
			"b://7":                `"called":{"uri":"b://7"},"by":"b"`,
			"x://both":             "several upstreams have x://both: read biplane://a/x://both",
			"y://unknown":          "not found: y://unknown",
			"x://dark":             "dark is denied",
		} {
			got := check("resources/read", `{"uri":"`+uri+`"}`, want)
			if fieldOf(t, got, "result") == nil != (fieldOf(t, got, "error") != nil) {
				t.Errorf("%s: %s", uri, got)
			}
			if version >= "2026" && fieldOf(t, got, "result") != nil &&
				string(fieldOf(t, got, "result", "cacheScope")) != `"private"` {
				t.Errorf("%s may be cached for others: %s", uri, got)
			}
		}
		check("prompts/get", `{"name":"b_both","arguments":{"k":"v"}}`, `"by":"b"`, `"arguments":{"k":"v"}`,
			`"name":"both"`)
		check("prompts/get", `{"name":"a"}`, `"called":{"name":"a"},"by":"a"`)
		check("prompts/get", `{"name":"c"}`, "-32602", "not found: c")
	})
	cfg.Mode = mcpserver.Code
	peers(t, cfg, func(t *testing.T, p peer, _ string) {
		for _, method := range []string{"resources/list", "prompts/list"} {
			if got, _ := p.call(t, method, ""); !strings.Contains(got, "-32601") {
				t.Errorf("mode code answers %s with %s", method, got)
			}
		}
	})
}

// offeringServer returns the URL of a server with a resource and a prompt.
func offeringServer(t *testing.T, name string) string {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	srv.AddResource(&mcp.Resource{URI: "x://" + name, Name: "r"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			contents := []*mcp.ResourceContents{{URI: r.Params.URI, Text: "of " + name}}
			return &mcp.ReadResourceResult{Contents: contents}, nil
		})
	srv.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who"}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: name + " greets " + r.Params.Arguments["who"]}}}}, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	t.Cleanup(web.Close)
	return web.URL
}

// TestOffersPassTheDoor reads resources and gets prompts of two servers through a complete Biplane.
func TestOffersPassTheDoor(t *testing.T) {
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	rules := filepath.Join(folder, "rules")
	if err := os.Mkdir(rules, 0o700); err != nil {
		t.Fatal(err)
	}
	const text = `permit (principal, action == Action::"call", resource);
forbid (principal, action == Action::"call", resource == Tool::"two.prompts.get");
forbid (principal, action == Action::"call", resource == Tool::"two.resources.read")
  when { context.arguments.uri == "x://secret" };`
	if err := os.WriteFile(filepath.Join(rules, "own.cedar"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := settings.Default()
	c.Mode, c.Policy, c.PolicyDir = "direct", rules, rules
	for _, name := range []string{"one", "two"} {
		c.Servers = append(c.Servers, settings.Server{Name: name, Type: "http", URL: offeringServer(t, name)})
	}
	d, err := daemon.New(t.Context(), daemon.Config{Settings: c, DataDir: folder, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-done, d.Close()); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + d.Addr() + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })

	resources, err := s.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 2 {
		t.Fatalf("resources %+v, %v", resources, err)
	}
	prompts, err := s.ListPrompts(t.Context(), nil)
	if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "greet" {
		t.Fatalf("prompts %+v, %v: only those of one may be seen, and their name clashes with none", prompts, err)
	}
	tools, err := s.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 0 {
		t.Fatalf("tools %+v, %v: reading a resource is not a listed tool", tools, err)
	}
	read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "x://two"})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].Text != "of two" {
		t.Fatalf("read %+v, %v", read, err)
	}
	ann := map[string]string{"who": "ann"}
	got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet", Arguments: ann})
	if err != nil || fmt.Sprint(got.Messages[0].Content.(*mcp.TextContent).Text) != "one greets ann" {
		t.Fatalf("prompt %+v, %v", got, err)
	}
	var wire *jsonrpc.Error
	_, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "biplane://two/x://secret"})
	if !errors.As(err, &wire) || !strings.Contains(string(wire.Data), string(tool.Denied)) {
		t.Errorf("a forbidden URI: %v", err)
	}
	_, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "two_greet"})
	if !errors.As(err, &wire) || !strings.Contains(string(wire.Data), string(tool.Denied)) {
		t.Errorf("a forbidden prompt: %v", err)
	}
	records, err := d.Client().AuditRecords(t.Context(), api.AuditQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var log []string
	for _, r := range records {
		if r.Kind == "call" {
			log = append(log, r.Tool+" "+r.Effect)
		}
	}
	slices.Sort(log)
	want := []string{"one.prompts.get allow", "two.prompts.get deny", "two.resources.read allow",
		"two.resources.read deny"}
	if !slices.Equal(log, want) {
		t.Errorf("recorded %q, want %q", log, want)
	}
}
