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
	"time"

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
	o := tool.NewOffers(upstream, tool.ReadResource, tool.GetPrompt, tool.Complete)
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
		d.handle(up+".completion.complete", answer)
	}
	d.handle("dark.resources.read", func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, tool.Errorf(tool.Denied, "dark is denied")
	})
	cfg := config(d, mcpserver.Direct)
	cfg.Limits.PageSize = 3
	silent := tool.NewOffers("silent", tool.GetPrompt) // without completion
	silent.Prompts = []tool.Offer{{Key: "silent", Raw: json.RawMessage(`{"name":"silent"}`)}}
	cfg.Catalog = upstreams{list: upstreamTools, offers: []*tool.Offers{offersOf("a"), offersOf("b"), silent},
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
				t.Errorf("uri = %s, got = %s, want fieldOf(t, got, \"result\") == nil == (fieldOf(t, "+
					"got, \"error\") != nil)", uri, got)
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
		const argument = `"argument":{"name":"k","value":"v"}`
		const others = `"context":{"arguments":{"o":"p"}}`
		check("completion/complete", `{"ref":{"type":"ref/prompt","name":"b_both"},`+argument+`,`+others+`}`,
			`"by":"b"`, `"name":"both"`, argument, others)
		check("completion/complete", `{"ref":{"type":"ref/resource","uri":"a://{id}"},`+argument+`}`, `"by":"a"`,
			`"uri":"a://{id}"`)
		check("completion/complete", `{"ref":{"type":"ref/resource","uri":"biplane://b/a://{id}"},`+argument+`}`,
			`"by":"b"`, `"uri":"a://{id}"`)
		check("completion/complete", `{"ref":{"type":"ref/prompt","name":"silent"},`+argument+`}`,
			`"completion":{"values":[]}`)
		for _, hidden := range []string{`{"type":"ref/prompt","name":"dark"}`,
			`{"type":"ref/resource","uri":"x://dark"}`} {
			check("completion/complete", `{"ref":`+hidden+`,`+argument+`}`, "-32602", "not found")
		}
	})
	cfg.Mode = mcpserver.Code
	peers(t, cfg, func(t *testing.T, p peer, _ string) {
		for method, params := range map[string]string{"resources/list": "", "prompts/list": "",
			"completion/complete": `{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"k","value":"v"}}`} {
			if got, _ := p.call(t, method, params); !strings.Contains(got, "-32601") {
				t.Errorf("mode code answers %s with %s", method, got)
			}
		}
	})
}

// offeringServer returns the URL of a server with a resource and a prompt.
func offeringServer(t *testing.T, name string) string {
	t.Helper()
	complete := func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		values := []string{name + " completes " + r.Params.Ref.Name + " " + r.Params.Argument.Value}
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: values}}, nil
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"},
		&mcp.ServerOptions{CompletionHandler: complete})
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

// TestListsOfOffersChange checks that a client is notified when an upstream adds a resource or a
// prompt, and then finds it in the list.
func TestListsOfOffersChange(t *testing.T) {
	for name, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			srv := mcp.NewServer(&mcp.Implementation{Name: "growing", Version: "1"}, &mcp.ServerOptions{
				Capabilities: &mcp.ServerCapabilities{Resources: &mcp.ResourceCapabilities{ListChanged: true},
					Prompts: &mcp.PromptCapabilities{ListChanged: true}}})
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
				&mcp.StreamableHTTPOptions{Stateless: stateless}))
			t.Cleanup(web.Close)
			d := direct(t, web.URL)
			resources, prompts := make(chan struct{}, 100), make(chan struct{}, 100)
			s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
				ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
					resources <- struct{}{}
				},
				PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) {
					prompts <- struct{}{}
				},
			}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + d.Addr() + "/mcp"}, nil)
			if err != nil {
				t.Fatalf("Connect: %v", err)
			}
			t.Cleanup(func() { s.Close() })
			if l, err := s.ListPrompts(t.Context(), nil); err != nil || len(l.Prompts) != 0 {
				t.Fatalf("prompts %+v, %v before one is added", l, err)
			}
			untilNotified(prompts, func(name string) { srv.AddPrompt(&mcp.Prompt{Name: name}, nil) }, func() bool {
				l, err := s.ListPrompts(t.Context(), nil)
				return err == nil && len(l.Prompts) > 0
			})
			add := func(name string) { srv.AddResource(&mcp.Resource{URI: "x://" + name, Name: name}, nil) }
			untilNotified(resources, add, func() bool {
				l, err := s.ListResources(t.Context(), nil)
				return err == nil && len(l.Resources) > 0
			})
		})
	}
}

// TestSubscriptionsPassTheDoor subscribes to resources through a complete Biplane, for both
// revisions on either side.
func TestSubscriptionsPassTheDoor(t *testing.T) {
	for _, upstream := range []string{"2025-11-25", "2026-07-28"} {
		for _, client := range []string{"2025-11-25", "2026-07-28"} {
			t.Run(upstream+" for "+client, func(t *testing.T) {
				begun, ended := make(chan string, 100), make(chan string, 100)
				srv := mcp.NewServer(&mcp.Implementation{Name: "live", Version: "1"}, &mcp.ServerOptions{
					SubscribeHandler: func(_ context.Context, r *mcp.SubscribeRequest) error {
						begun <- r.Params.URI
						return nil
					},
					UnsubscribeHandler: func(_ context.Context, r *mcp.UnsubscribeRequest) error {
						ended <- r.Params.URI
						return nil
					}})
				for _, uri := range []string{"x://one", "x://two"} {
					srv.AddResource(&mcp.Resource{URI: uri, Name: uri}, nil)
				}
				web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv },
					&mcp.StreamableHTTPOptions{Stateless: upstream >= "2026"}))
				t.Cleanup(web.Close)
				d := direct(t, web.URL)
				updated := make(chan string, 100)
				connect := func() *mcp.ClientSession {
					s, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
						ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
							updated <- r.Params.URI
						},
					}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: "http://" + d.Addr() + "/mcp"},
						&mcp.ClientSessionOptions{ProtocolVersion: client})
					if err != nil {
						t.Fatalf("Connect: %v", err)
					}
					return s
				}
				s := connect()
				if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "x://one"}); err != nil {
					t.Fatalf("Subscribe: %v", err)
				}
				if got := <-begun; got != "x://one" {
					t.Errorf("the upstream has a subscription to %q, want x://one", got)
				}
				// The client's stream for notifications may not be open at the first update.
				again := time.NewTicker(time.Second)
				defer again.Stop()
				for got := ""; got == ""; {
					for _, uri := range []string{"x://two", "x://one"} {
						_ = srv.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri})
					}
					select {
					case got = <-updated:
						if got != "x://one" {
							t.Errorf("notified of %q, want x://one", got)
						}
					case <-again.C:
					}
				}
				if err := s.Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: "x://one"}); err != nil {
					t.Fatalf("Unsubscribe: %v", err)
				}
				if got := <-ended; got != "x://one" {
					t.Errorf("the upstream's subscription to %q has ended, want x://one", got)
				}
				if err := s.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "x://two"}); err != nil {
					t.Fatalf("Subscribe: %v", err)
				}
				<-begun
				s.Close() // also ends the subscription
				if got := <-ended; got != "x://two" {
					t.Errorf("the upstream's subscription to %q has ended, want x://two", got)
				}
			})
		}
	}
}

// untilNotified adds offers until the client is notified and finds one. The client's subscription
// may not be active when the first is added.
func untilNotified(notified <-chan struct{}, add func(name string), found func() bool) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for n := 0; ; n++ {
		add(fmt.Sprint("late", n))
		select {
		case <-notified:
			if found() {
				return
			}
		case <-again.C:
		}
	}
}

// direct runs a complete Biplane in mode Direct in front of a server on the network.
func direct(t *testing.T, url string) *daemon.Daemon {
	t.Helper()
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	c := settings.Default()
	c.Mode, c.Policy = "direct", "open"
	c.Servers = []settings.Server{{Name: "up", Type: "http", URL: url}}
	d, err := daemon.New(t.Context(), daemon.Config{Settings: c, DataDir: folder, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("daemon.New: %v", err)
	}
	runDaemon(t, d)
	return d
}

// TestOffersPassTheDoor reads resources and gets prompts of two servers through a complete Biplane.
func TestOffersPassTheDoor(t *testing.T) {
	folder, err := os.MkdirTemp("", "biplane") // a short path, since it contains a socket
	if err != nil {
		t.Fatalf("os.MkdirTemp: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	rules := filepath.Join(folder, "rules")
	if err := os.Mkdir(rules, 0o700); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	const text = `permit (principal, action == Action::"call", resource);
forbid (principal, action == Action::"call", resource == Tool::"two.completion.complete");
forbid (principal, action == Action::"call", resource == Tool::"two.prompts.get");
forbid (principal, action == Action::"call", resource == Tool::"two.resources.read")
  when { context.arguments.uri == "x://secret" };`
	if err := os.WriteFile(filepath.Join(rules, "own.cedar"), []byte(text), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	c := settings.Default()
	c.Mode, c.Policy, c.PolicyDir = "direct", rules, rules
	for _, name := range []string{"one", "two"} {
		c.Servers = append(c.Servers, settings.Server{Name: name, Type: "http", URL: offeringServer(t, name)})
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

	resources, err := s.ListResources(t.Context(), nil)
	if err != nil || len(resources.Resources) != 2 {
		t.Fatalf("resources %+v, %v", resources, err)
	}
	prompts, err := s.ListPrompts(t.Context(), nil)
	if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "greet" {
		t.Fatalf("prompts %+v, %v, want only the prompts of one, with their plain names", prompts, err)
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
	complete := func(ref *mcp.CompleteReference) (*mcp.CompleteResult, error) {
		return s.Complete(t.Context(), &mcp.CompleteParams{Ref: ref,
			Argument: mcp.CompleteParamsArgument{Name: "who", Value: "a"}})
	}
	done, err := complete(&mcp.CompleteReference{Type: "ref/prompt", Name: "greet"})
	if err != nil || !slices.Equal(done.Completion.Values, []string{"one completes greet a"}) {
		t.Errorf("completion = %+v, %v, want the completion of one", done, err)
	}
	var wire *jsonrpc.Error
	_, err = complete(&mcp.CompleteReference{Type: "ref/resource", URI: "x://two"})
	if !errors.As(err, &wire) || !strings.Contains(string(wire.Data), string(tool.Denied)) {
		t.Errorf("completion at an upstream where it is forbidden: %v", err)
	}
	_, err = s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "biplane://two/x://secret"})
	if !errors.As(err, &wire) || !strings.Contains(string(wire.Data), string(tool.Denied)) {
		t.Errorf("a forbidden URI: %v", err)
	}
	_, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "two_greet"})
	if !errors.As(err, &wire) || !strings.Contains(string(wire.Data), string(tool.Denied)) {
		t.Errorf("a forbidden prompt: %v", err)
	}
	records, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	var log []string
	for _, r := range records {
		if r.Kind == "call" {
			log = append(log, r.Tool+" "+r.Effect)
		}
	}
	slices.Sort(log)
	want := []string{"one.completion.complete allow", "one.prompts.get allow", "two.completion.complete deny",
		"two.prompts.get deny", "two.resources.read allow", "two.resources.read deny"}
	if !slices.Equal(log, want) {
		t.Errorf("recorded %q, want %q", log, want)
	}
}
