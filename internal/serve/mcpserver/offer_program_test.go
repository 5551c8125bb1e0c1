package mcpserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	settings "github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// galleryServer returns the URL of a server with a resource that is an image, a template and a
// prompt.
func galleryServer(t *testing.T) string {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "gallery", Version: "1"}, nil)
	srv.AddResource(&mcp.Resource{URI: "x://picture", Name: "picture"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{
				{URI: r.Params.URI, MIMEType: "image/png", Blob: []byte("picture")},
				{URI: r.Params.URI, Text: "title"}}}, nil
		})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "x://rooms/{id}", Name: "room"}, nil)
	srv.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who"}}},
		func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user",
				Content: &mcp.TextContent{Text: "hello " + r.Params.Arguments["who"]}}}}, nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	t.Cleanup(web.Close)
	return web.URL
}

// TestOffersInPrograms uses resources and prompts in programs of both languages.
func TestOffersInPrograms(t *testing.T) {
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	rules := filepath.Join(folder, "rules")
	if err := os.Mkdir(rules, 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	const text = `permit (principal, action, resource);
forbid (principal, action == Action::"call", resource == Tool::"closed.prompts.get");
forbid (principal, action == Action::"call", resource == Tool::"closed.resources.read")
  when { context.arguments.uri == "x://picture" };`
	if err := os.WriteFile(filepath.Join(rules, "own.cedar"), []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	c := settings.Default()
	c.Policy, c.PolicyDir = rules, rules
	for _, name := range []string{"gallery", "closed"} {
		c.Servers = append(c.Servers, settings.Server{Name: name, Type: "http", URL: galleryServer(t)})
	}
	d, err := daemon.New(t.Context(), daemon.Config{Settings: c, DataDir: folder, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("daemon.New: %v", err)
	}
	runDaemon(t, d)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + d.Addr() + "/mcp"}, nil)
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	execute := func(t *testing.T, language, code string) *mcp.CallToolResult {
		t.Helper()
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "execute",
			Arguments: map[string]any{"code": code, "language": language}})
		if err != nil {
			t.Fatalf("execute: %v", err)
		}
		return res
	}
	for language, code := range map[string]string{"typescript": `
const read = await gallery.resources.read("x://picture");
emit(read.contents[0]);
const got = await gallery.prompts.get("greet", { who: "ann" });
return [read.contents[1].text, (await gallery.resources.list()).resources[0].uri,
  (await gallery.resources.templates()).resourceTemplates[0].uriTemplate,
  (await gallery.prompts.list()).prompts[0].name, got.messages[0].content.text].join(" ");`,
		"python": `
read = await gallery.resources.read("x://picture")
emit(read["contents"][0])
got = await gallery.prompts.get("greet", {"who": "ann"})
return " ".join([read["contents"][1]["text"], (await gallery.resources.list())["resources"][0]["uri"],
  (await gallery.resources.templates())["resourceTemplates"][0]["uriTemplate"],
  (await gallery.prompts.list())["prompts"][0]["name"], got["messages"][0]["content"]["text"]])`} {
		t.Run(language, func(t *testing.T) {
			res := execute(t, language, code)
			all, err := json.Marshal(res)
			if err != nil {
				t.Fatalf("json.Marshal: %v", err)
			}
			if want := "title x://picture x://rooms/{id} greet hello ann"; !strings.Contains(string(all), want) {
				t.Errorf("got %s, want %q", all, want)
			}
			image := false
			for _, b := range res.Content {
				if i, ok := b.(*mcp.ImageContent); ok && string(i.Data) == "picture" && i.MIMEType == "image/png" {
					image = true
				}
			}
			if !image {
				t.Errorf("got %s, want the image as a content block", all)
			}
		})
	}
	for _, call := range []string{`resources.read("x://picture")`, `prompts.get("greet")`, `prompts.list()`} {
		res := execute(t, "typescript", "return await closed."+call)
		if all, _ := json.Marshal(res); !res.IsError || !strings.Contains(string(all), "denied") {
			t.Errorf("%s: %s, want denied", call, all)
		}
	}
	if res := execute(t, "typescript", "return (await closed.resources.list()).resources.length"); res.IsError {
		t.Errorf("a list of resources of which some may be read: %+v", res)
	}
}
