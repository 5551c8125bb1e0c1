package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// watchLog receives which resources are watched.
type watchLog chan string

func (w watchLog) WatchResource(upstream, uri, _ string)   { w <- "watch " + upstream + " " + uri }
func (w watchLog) UnwatchResource(upstream, uri, _ string) { w <- "unwatch " + upstream + " " + uri }

func (w watchLog) expect(t *testing.T, want string) {
	t.Helper()
	if got := <-w; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// TestSubscriptions checks what a client is notified of, what is refused, and that nothing of a
// subscription is left when the client is gone.
func TestSubscriptions(t *testing.T) {
	d := newDoor()
	d.handle("a.resources.subscribe", func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		if strings.Contains(string(c.Arguments), "x://both") {
			return nil, tool.Errorf(tool.Denied, "x://both is denied")
		}
		return tool.StructuredResult(json.RawMessage("{}"))
	})
	o := offersOf("a")
	o.Tools = tool.NewOffers("a", tool.ReadResource, tool.Subscribe).Tools
	cfg := config(d, mcpserver.Direct)
	cfg.Catalog = upstreams{list: upstreamTools, offers: []*tool.Offers{o}}
	watched := make(watchLog, 100)
	cfg.Resources = watched
	cfg.Limits.Subscriptions = 2
	s := mcpserver.New(cfg)
	legacy := startHTTP(t, s, "2025-11-25")
	modern := dial(t, legacy.url, "2026-07-28")
	stream, err := http.NewRequestWithContext(t.Context(), "GET", legacy.url, nil)
	if err != nil {
		t.Fatalf("NewRequestWithContext: %v", err)
	}
	legacy.header(t, stream.Header, "")
	res, err := legacy.client.Do(stream)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	defer res.Body.Close()
	early := bufio.NewReader(res.Body)

	subscribe := func(uri, want string) {
		t.Helper()
		if got, _ := legacy.call(t, "resources/subscribe", `{"uri":"`+uri+`"}`); !strings.Contains(got, want) {
			t.Errorf("subscribe to %s: %s, want %s", uri, got, want)
		}
	}
	subscribe("x://a", `"result":{}`)
	subscribe("x://a", `"result":{}`) // again: it stays one subscription
	watched.expect(t, "watch a x://a")
	subscribe("x://both", "x://both is denied")
	watched.expect(t, "watch a x://both")
	watched.expect(t, "unwatch a x://both")
	subscribe("biplane://a/x://new", `"result":{}`)
	watched.expect(t, "watch a x://new")
	subscribe("a://3", `"kind":"limit"`)
	subscribe("x://a\\u0000"+"1", "error")

	listen := modern.post(t, request(9, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":`+
		`["x://a","x://a"]}}`, modern.version), nil)
	if body := drain(t, listen); !strings.Contains(body, `"kind":"limit"`) {
		t.Errorf("a subscription beyond the limit of a principal: %s", body)
	}
	if got, _ := legacy.call(t, "resources/unsubscribe", `{"uri":"biplane://a/x://new"}`); !strings.Contains(got,
		`"result":{}`) {
		t.Errorf("unsubscribe: %s", got)
	}
	watched.expect(t, "unwatch a x://new")
	listen = modern.post(t, request(9, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":`+
		`["biplane://a/x://a"]}}`, modern.version), nil)
	defer listen.Body.Close()
	watched.expect(t, "watch a x://a")
	late := bufio.NewReader(listen.Body)
	await(t, late, `"resourceSubscriptions":["biplane://a/x://a"]`)
	s.NotifyResource("b", "x://a", "")
	s.NotifyResource("a", "x://new", "")
	s.NotifyResource("a", "x://a", "")
	for stream, want := range map[*bufio.Reader]string{early: `"uri":"x://a"`, late: `"uri":"biplane://a/x://a"`} {
		for { // the first notification must be this one
			line, err := stream.ReadString('\n')
			if err != nil {
				t.Fatalf("no notification with %s: %v", want, err)
			}
			if strings.Contains(line, "notifications/resources/updated") {
				if !strings.Contains(line, want) {
					t.Errorf("notified with %s, want %s", line, want)
				}
				break
			}
		}
	}

	listen.Body.Close() // ends its subscription
	watched.expect(t, "unwatch a x://a")
	end, err := http.NewRequestWithContext(t.Context(), "DELETE", legacy.url, nil)
	if err != nil {
		t.Fatalf("NewRequestWithContext: %v", err)
	}
	legacy.header(t, end.Header, "")
	res, err = legacy.client.Do(end)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	res.Body.Close()
	watched.expect(t, "unwatch a x://a") // with the session
}

// TestNoSubscriptions checks that subscriptions are refused where nothing watches resources.
func TestNoSubscriptions(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Direct)
	cfg.Catalog = upstreams{list: upstreamTools, offers: []*tool.Offers{offersOf("a")}}
	peers(t, cfg, func(t *testing.T, p peer, version string) {
		if got, _ := p.call(t, "resources/subscribe", `{"uri":"x://a"}`); !strings.Contains(got, "-32601") {
			t.Errorf("%s: %s", version, got)
		}
	})
}
