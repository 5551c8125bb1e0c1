package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/exec/execution"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/tool"
)

// index is an Index with one tool.
type index struct{}

func (index) Tools(context.Context, tool.Principal) []api.Tool { return []api.Tool{{Path: "a.b"}} }
func (index) Tool(_ context.Context, _ tool.Principal, path string) (*api.ToolDetail, error) {
	if path != "a.b" {
		return nil, tool.Errorf(tool.NotFound, "no tool %q", path)
	}
	return &api.ToolDetail{Tool: api.Tool{Path: path}, InputSchema: json.RawMessage(`{}`)}, nil
}
func (index) Search(context.Context, tool.Principal, string, int) ([]api.Hit, error) { return nil, nil }
func (index) Types(context.Context, tool.Principal) map[string]string {
	return map[string]string{"tools/a/b.ts": "export {}"}
}

// A process has the given state.
type process struct {
	status    api.Status
	upstreams []api.Upstream
	notReady  error
}

func (p process) Status() api.Status                         { return p.status }
func (p process) Upstreams(context.Context) []api.Upstream   { return p.upstreams }
func (p process) Sandboxes(context.Context) []api.Capability { return nil }
func (p process) Ready() error                               { return p.notReady }

// runningJournals are the journals of a process that runs the executions which find returns.
type runningJournals struct {
	journals
	find func(id string) (*execution.Execution, bool)
}

func (j runningJournals) Execution(id string) (*execution.Execution, bool) { return j.find(id) }

// echoStdio returns the first line that it reads.
type echoStdio struct{}

func (echoStdio) ServeConnection(_ context.Context, _ httpapi.StdioClient, rw io.ReadWriteCloser) error {
	line, _ := bufio.NewReader(rw).ReadString('\n')
	_, err := io.WriteString(rw, "got "+line)
	return err
}

// server returns a Server whose door returns err for all calls, if it is not nil. Otherwise it
// answers execute with a running execution, and resume with a finished one.
func server(t *testing.T, err error) *httpapi.Server {
	running := true
	s := httpapi.New(httpapi.Config{
		Door: tool.CallerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if err != nil {
				return nil, err
			}
			state := "done"
			if c.Path == "biplane.execute" {
				state = "running"
			}
			running = state == "running"
			return tool.NewResult([]any{tool.TextBlock{Type: "text", Text: "text of " + c.Path}},
				map[string]any{"biplane.dev/execution": map[string]string{"id": "ex_1", "state": state}}, false)
		}),
		Index: index{}, Process: process{status: api.Status{Version: "v1"}, notReady: err},
		Sessions: newSessions(), Skills: &skills{},
		Journals: runningJournals{find: func(id string) (*execution.Execution, bool) {
			if id != "ex_1" {
				return nil, false
			}
			x := &execution.Execution{ID: id, State: execution.Done, Value: json.RawMessage("9007199254740993")}
			if running {
				x.State, x.Value = execution.Running, nil
			}
			return x, true
		}},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "calls 7\n") }),
		Agents:  httpapi.Agents{Stdio: echoStdio{}},
	})
	t.Cleanup(func() { s.Close() })
	return s
}

func TestRoutes(t *testing.T) {
	for _, tt := range []struct {
		method, path, body string
		header             string
		status             int
		want               string
	}{
		{"GET", "/healthz", "", "", 200, "ok"},
		{"GET", "/readyz", "", "", 200, "ready"},
		{"GET", "/", "", "", 200, "Biplane v1"},
		{"GET", "/metrics", "", "", 200, "calls 7"},
		{"POST", "/metrics", "{}", "", 404, "no route"},
		{"GET", "/metrics", "", "Host: evil.example", 403, "not supported"},
		{"GET", "/metrics", "", "Origin: https://evil.example", 403, "not accepted"},
		{"GET", "/api/v1/status", "", "", 200, `"version":"v1"`},
		{"GET", "/api/v1/upstreams", "", "", 200, `[]`},
		{"GET", "/api/v1/tools", "", "", 200, `"path":"a.b"`},
		{"GET", "/api/v1/tools/a.b", "", "", 200, `"path":"a.b"`},
		{"GET", "/api/v1/tools/a.c", "", "", 404, `"error":{"kind":"not_found","message":"no tool \"a.c\""}}`},
		{"GET", "/api/v1/tools/types", "", "", 200, `tools/a/b.ts`},
		{"GET", "/api/v1/tools/search?query=x", "", "", 200, `{"hits":[],"text":"text of biplane.search"}`},
		{"GET", "/api/v1/tools/search?query=x&limit=-1", "", "", 400, `must be a positive number`},
		{"POST", "/api/v1/executions", `{"code":"1"}`, "", 200, `"value":9007199254740993`},
		{"POST", "/api/v1/executions", `{"code":"1","no_wait":true}`, "", 200, `"state":"running"`},
		{"POST", "/api/v1/executions", `{"cod":"1"}`, "", 400, `unknown field`},
		{"POST", "/api/v1/executions", `{"code":"1"} x`, "", 400, `"kind":"invalid"`},
		{"POST", "/api/v1/executions", `{"code":"` + strings.Repeat("x", 5<<20) + `"}`, "", 429, `larger than`},
		{"POST", "/api/v1/executions", `{"code":"1"}`, "Content-Type: text/plain", 400, `Content-Type`},
		{"GET", "/api/v1/executions/none", "", "", 404, `no execution`},
		{"DELETE", "/api/v1/executions/ex_1/journal", "", "", 404, `no route`},
		{"GET", "/api/v2/status", "", "", 404, `no route`},
		{"GET", "/mcp", "", "", 404, `MCP is not available`},
		{"GET", "/mcp/stdio", "", "Upgrade: " + api.StdioProtocol, 403, `requires sign-in`},
		{"GET", "/api/v1/status", "", "Host: evil.example", 403, `not supported`},
		{"GET", "/api/v1/status", "", "Host: 127.0.0.1.evil.example:80", 403, `not supported`},
		{"GET", "/api/v1/status", "", "Host: 192.168.0.1", 403, `not supported`},
		{"GET", "/api/v1/status", "", "Host: localhost:1", 200, `v1`},
		{"GET", "/api/v1/status", "", "Host: [::1]:1", 200, `v1`},
		{"GET", "/api/v1/status", "", "Origin: https://evil.example", 403, `not accepted`},
		{"GET", "/api/v1/status", "", "Origin: null", 403, `not accepted`},
		{"GET", "/healthz", "", "Origin: http://127.0.0.1:9", 403, `not accepted`},
		{"GET", "/healthz", "", "Origin: http://127.0.0.1", 200, `ok`},
	} {
		t.Run(tt.method+" "+tt.path+" "+tt.header, func(t *testing.T) {
			r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			r.Host = "127.0.0.1"
			r.Header.Set("Content-Type", "application/json")
			if k, v, ok := strings.Cut(tt.header, ": "); ok {
				if r.Header.Set(k, v); k == "Host" {
					r.Host = v
				}
			}
			w := httptest.NewRecorder()
			server(t, nil).Loopback().ServeHTTP(w, r)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.want)
			}
		})
	}
}

func TestNoMetrics(t *testing.T) {
	s := httpapi.New(httpapi.Config{})
	defer s.Close()
	w := httptest.NewRecorder()
	s.Socket().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 404 {
		t.Errorf("w.Code = %v, w.Body = %v, want w.Code == 404", w.Code, w.Body)
	}
}

// TestKinds checks the status of each kind of error.
func TestKinds(t *testing.T) {
	for kind, status := range map[tool.Kind]int{
		tool.Invalid: 400, tool.NotFound: 404, tool.Conflict: 409, tool.Denied: 403, tool.Limit: 429,
		tool.Timeout: 504, tool.Unavailable: 503, tool.Canceled: 499, tool.Internal: 500,
	} {
		r := httptest.NewRequest("POST", "/api/v1/executions", strings.NewReader(`{"code":"1"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		server(t, tool.Errorf(kind, "because")).Socket().ServeHTTP(w, r)
		if w.Code != status ||
			!strings.Contains(w.Body.String(), `"error":{"kind":"`+string(kind)+`","message":"because"}}`) {
			t.Errorf("kind = %s, w.Code = %d, w.Body = %s", kind, w.Code, w.Body)
		}
	}
}

// TestRetryAfter checks that an error with a retry time sets the header Retry-After.
func TestRetryAfter(t *testing.T) {
	for wait, header := range map[time.Duration]string{0: "", time.Millisecond: "1", 90 * time.Second: "90"} {
		r := httptest.NewRequest("POST", "/api/v1/executions", strings.NewReader(`{"code":"1"}`))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		server(t, &tool.Error{Kind: tool.Limit, Msg: "over", RetryAfter: wait}).Socket().ServeHTTP(w, r)
		if got := w.Header().Get("Retry-After"); w.Code != 429 || got != header {
			t.Errorf("%v: %d, Retry-After %q", wait, w.Code, got)
		}
	}
}

func TestSocketRefusesBrowsers(t *testing.T) {
	r := httptest.NewRequest("GET", "/api/v1/status", nil)
	r.Header.Set("Origin", "http://localhost")
	w := httptest.NewRecorder()
	server(t, nil).Socket().ServeHTTP(w, r)
	if w.Code != 403 {
		t.Errorf("w.Code = %v, w.Body = %v, want w.Code == 403", w.Code, w.Body)
	}
}

// TestStdio hijacks a connection, and checks that closing the server closes it.
func TestStdio(t *testing.T) {
	s := server(t, nil)
	h := httptest.NewServer(s.Socket())
	defer h.Close()
	dial := func() (net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", h.Listener.Addr().String())
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		// The first line arrives with the request: none of it may be lost.
		io.WriteString(c, "GET /mcp/stdio HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: "+
			api.StdioProtocol+"\r\n\r\nhel")
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 101 {
			t.Fatalf("resp = %v, err = %v, want err == nil && resp.StatusCode == 101", resp, err)
		}
		return c, r
	}
	c, r := dial()
	io.WriteString(c, "lo\n")
	if line, err := r.ReadString('\n'); line != "got hello\n" {
		t.Fatalf(`line = %v, err = %v, want line == "got hello\n"`, line, err)
	}
	c.Close()
	open, r := dial()
	defer open.Close()
	if err := s.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf(`err = %v, want err == nil || strings.Contains(err.Error(), "reset")`, err)
	}
	req, err := http.NewRequest("GET", h.URL+"/mcp/stdio", nil)
	if err != nil {
		t.Fatalf("http.NewRequest: %v", err)
	}
	req.Header.Set("Upgrade", api.StdioProtocol)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 503 {
		t.Errorf("resp.Status = %v, want resp.StatusCode == 503", resp.Status)
	}
}
