//go:build unix

package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// peerMode is the environment variable that makes the test binary act as a server: see TestMain.
const peerMode = "BIPLANE_TEST_PEER"

// quickExit is GORACE for the servers: otherwise the race detector waits a second at every exit.
const quickExit = "atexit_sleep_ms=0"

// self returns the configuration that starts this test binary as a server.
func self(t testing.TB, mode string) mcp.Config {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatalf("os.Executable: %v", err)
	}
	return mcp.Config{Command: exe, Env: map[string]string{peerMode: mode, "GORACE": quickExit}}
}

// anyObject is a schema that accepts any object.
var anyObject = json.RawMessage(`{"type":"object"}`)

// sdkServer returns a server of the official SDK, which speaks all revisions. Its tool sleep sends
// to slept when it starts, and when it is canceled.
func sdkServer(slept chan<- struct{}) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "sdk-peer", Version: "1.2.3"}, &sdk.ServerOptions{PageSize: 3})
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	add := func(name string, h sdk.ToolHandler) { s.AddTool(&sdk.Tool{Name: name, InputSchema: anyObject}, h) }
	add("echo", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var v struct {
			Delay int `json:"delay"` // milliseconds
		}
		_ = json.Unmarshal(r.Params.Arguments, &v)
		select {
		case <-time.After(time.Duration(v.Delay) * time.Millisecond):
		case <-ctx.Done():
		}
		return text(string(r.Params.Arguments)), nil
	})
	add("fail", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		r := text("it went wrong")
		r.IsError = true
		return r, nil
	})
	tell := func() {
		select {
		case slept <- struct{}{}:
		default:
		}
	}
	add("sleep", func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		tell()
		<-ctx.Done()
		tell()
		return nil, ctx.Err()
	})
	add("forever", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := 1.0; ctx.Err() == nil; i++ {
			if err := r.Session.NotifyProgress(ctx,
				&sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: i}); err != nil {
				return nil, err
			}
			time.Sleep(20 * time.Millisecond) // a server that never finishes
		}
		return nil, ctx.Err()
	})
	add("progress", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := 1; i <= 10; i++ {
			err := r.Session.NotifyProgress(ctx,
				&sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i),
					Total: 10, Message: "step"})
			if err != nil {
				return nil, err
			}
			time.Sleep(120 * time.Millisecond) // a server at work
		}
		return text("done"), nil
	})
	var grown atomic.Int32
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add(fmt.Sprintf("grown-%d", grown.Add(1)),
			func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return text("new"), nil })
		return text("grown"), nil
	})
	return s
}

func sdkCases(p upstreamtest.Peer) upstreamtest.Peer {
	p.Echo = func(i int) upstreamtest.Case {
		args := fmt.Sprintf(`{"i":%d,"delay":%d}`, i, i*37%50) // answers arrive out of order
		return upstreamtest.Case{Tool: "echo", Args: args, Text: fmt.Sprintf(`{\"i\":%d,`, i)}
	}
	p.Fails = &upstreamtest.Case{Tool: "fail", Args: `{}`}
	p.Slow = &upstreamtest.Case{Tool: "sleep", Args: `{}`}
	return p
}

// A way is a way to reach a server of the SDK.
type way struct {
	name     string
	revision string
	config   func(t testing.TB, slept chan<- struct{}) mcp.Config // over stdio, slept is not used
}

// web returns a way over HTTP.
func web(name, revision, typ string, handler func(get func(*http.Request) *sdk.Server) http.Handler) way {
	return way{name, revision, func(t testing.TB, slept chan<- struct{}) mcp.Config {
		t.Helper()
		s := sdkServer(slept)
		w := httptest.NewServer(handler(func(*http.Request) *sdk.Server { return s }))
		t.Cleanup(func() { w.CloseClientConnections(); w.Close() })
		return mcp.Config{URL: w.URL, Type: typ}
	}}
}

func streamable(name, revision string, o sdk.StreamableHTTPOptions) way {
	return web(name, revision, "http", func(get func(*http.Request) *sdk.Server) http.Handler {
		return sdk.NewStreamableHTTPHandler(get, &o)
	})
}

var ways = []way{
	{"stdio", "2026-07-28", func(t testing.TB, _ chan<- struct{}) mcp.Config { return self(t, "sdk") }},
	streamable("http stateless", "2026-07-28",
		sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}),
	streamable("http stateless json", "2026-07-28",
		sdk.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true, JSONResponse: true}),
	streamable("http sessions", "2025-11-25", sdk.StreamableHTTPOptions{}),
	streamable("http sessions json", "2025-11-25", sdk.StreamableHTTPOptions{JSONResponse: true}),
	web("sse", "2025-11-25", "sse", func(get func(*http.Request) *sdk.Server) http.Handler {
		return sdk.NewSSEHandler(get, nil)
	}),
}

func TestSDK(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			p := sdkCases(upstreamtest.Peer{New: maker(w.config(t, nil))})
			if w.name == "stdio" {
				p.Kill = killChild
			}
			upstreamtest.Run(t, p)
		})
	}
}

// everyWay runs a test against the SDK's server in every way to reach it.
func everyWay(t *testing.T, test func(t *testing.T, w way, cfg mcp.Config)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { test(t, w, w.config(t, nil)) })
	}
}

func TestRevision(t *testing.T) {
	everyWay(t, func(t *testing.T, w way, cfg mcp.Config) {
		r := start(t, cfg)
		if s := r.Ready(t); s.Protocol != w.revision || s.Server != "sdk-peer 1.2.3" {
			t.Errorf("protocol %q, server %q", s.Protocol, s.Server)
		}
		r.Close(t)
		if cfg.URL != "" {
			t.Run("without being told the kind", func(t *testing.T) {
				cfg.Type = ""
				if s := start(t, cfg).Ready(t); s.Protocol != w.revision {
					t.Errorf("protocol %q", s.Protocol)
				}
			})
		}
	})
}

// TestCancelReachesServer checks that a server gets a notification when a call is canceled.
func TestCancelReachesServer(t *testing.T) {
	for _, w := range ways[1:] { // over stdio the notification is checked with a scripted server
		t.Run(w.name, func(t *testing.T) {
			slept := make(chan struct{}, 2)
			told := func(what string) {
				t.Helper()
				select {
				case <-slept:
				case <-time.After(20 * time.Second):
					t.Fatal("the server was not told that " + what)
				}
			}
			r := start(t, w.config(t, slept))
			r.Ready(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := r.Do(ctx, "sleep", `{}`)
				failed <- err
			}()
			told("it is to begin")
			cancel()
			if err := <-failed; err == nil {
				t.Error("no error")
			}
			told("nobody waits")
		})
	}
}

func TestListChanged(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, cfg mcp.Config) {
		r := start(t, cfg)
		before := len(r.Ready(t).Tools)
		if before != 6 { // on two pages
			t.Errorf("%d tools, want 6", before)
		}
		for grown := 1; len(r.Snapshot().Tools) == before; grown++ { // the subscription may not be active yet
			if _, err := r.Do(t.Context(), "grow", `{}`); err != nil {
				t.Fatalf("Do: %v", err)
			}
			for deadline := time.Now().Add(time.Second); len(r.Snapshot().Tools) == before &&
				time.Now().Before(deadline); {
				<-time.After(5 * time.Millisecond)
			}
			if grown == 10 {
				t.Fatalf("%d tools were added and the list did not change", grown)
			}
		}
	})
}

// A tool that is added after the list was read, and before the server knows of the subscription, is
// found.
func TestListChangedBeforeTheSubscription(t *testing.T) {
	for name, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			s := sdk.NewServer(&sdk.Implementation{Name: "late", Version: "1"}, nil)
			add := func(name string) {
				s.AddTool(&sdk.Tool{Name: name, InputSchema: anyObject},
					func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
						return &sdk.CallToolResult{}, nil
					})
			}
			add("one")
			listed := make(chan struct{})
			once := sync.OnceFunc(func() { close(listed) })
			s.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
				return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
					if method == "subscriptions/listen" {
						add("two")
					}
					res, err := next(ctx, method, r)
					if method == "tools/list" {
						once()
					}
					return res, err
				}
			})
			h := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server {
				return s
			}, &sdk.StreamableHTTPOptions{Stateless: stateless})
			w := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					<-listed
					add("two")
				}
				h.ServeHTTP(w, r)
			}))
			t.Cleanup(func() { w.CloseClientConnections(); w.Close() })
			r := start(t, mcp.Config{URL: w.URL, Type: "http"})
			r.Wait(t, "with both tools", func(s upstream.Snapshot) bool { return len(s.Tools) == 2 })
		})
	}
}

func TestProgress(t *testing.T) {
	everyWay(t, func(t *testing.T, w way, cfg mcp.Config) {
		if strings.HasSuffix(w.name, "json") {
			t.Skip("an answer in one piece carries no progress")
		}
		cfg.Timeouts = map[string]time.Duration{"progress": time.Second} // it lasts 1.2 s, with shorter pauses
		r := start(t, cfg)
		r.Ready(t)
		var seen []tool.Progress
		res, err := r.Call(t.Context(), &tool.Call{Tool: &tool.Tool{Upstream: "peer", Name: "progress"},
			Observer: progressFunc(func(p tool.Progress) { seen = append(seen, p) })})
		if err != nil || res.IsError {
			t.Fatalf("err = %v, res = %v, want err == nil && !res.IsError", err, res)
		}
		if len(seen) != 10 || seen[9] != (tool.Progress{Done: 10, Total: 10, Message: "step"}) {
			t.Errorf("progress %v", seen)
		}
	})
}

func TestTimeout(t *testing.T) {
	everyWay(t, func(t *testing.T, _ way, cfg mcp.Config) {
		cfg.Timeouts = map[string]time.Duration{"sleep": 50 * time.Millisecond}
		r := start(t, cfg)
		r.Ready(t)
		_, err := r.Do(t.Context(), "sleep", `{}`)
		var e *tool.Error
		if !errors.As(err, &e) || e.Kind != tool.Timeout {
			t.Fatalf("got %v", err)
		}
		if s := r.Snapshot(); s.Health.State != tool.Ready {
			t.Errorf("one slow call made it %+v", s.Health)
		}
	})
}

func TestCeiling(t *testing.T) {
	cfg := self(t, "sdk")
	cfg.Timeout, cfg.MaxTime = time.Second, 1500*time.Millisecond
	r := start(t, cfg)
	r.Ready(t)
	_, err := r.Do(t.Context(), "forever", `{}`)
	var e *tool.Error
	if !errors.As(err, &e) || e.Kind != tool.Timeout || !strings.Contains(e.Msg, "though it reported progress") {
		t.Fatalf("got %v, want a timeout in spite of the progress", err)
	}
}

// TestRemembered checks that a reconnect doesn't probe for the revision again.
func TestRemembered(t *testing.T) {
	r := start(t, self(t, "sdk"))
	if s := r.Ready(t); s.Protocol != "2026-07-28" {
		t.Errorf("revision %q", s.Protocol)
	}
	was := upstreamtest.ChildProcesses(t)
	killChild(t, r)
	r.Wait(t, "another process", func(upstream.Snapshot) bool {
		for pid := range upstreamtest.ChildProcesses(t) {
			if _, ok := was[pid]; !ok {
				return true
			}
		}
		return false
	})
	if s := r.Ready(t); s.Protocol != "2026-07-28" {
		t.Errorf("revision %q", s.Protocol)
	}
}
