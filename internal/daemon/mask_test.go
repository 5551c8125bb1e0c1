package daemon_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/tool"
)

const held = "up-tok/4711+value"

// leaky returns an upstream that repeats its credential.
func leaky(t *testing.T) *httptest.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "leaky " + held, Version: "1"}, nil)
	object := json.RawMessage(`{"type":"object"}`)
	text := func(isError bool, t string) *mcp.CallToolResult {
		return &mcp.CallToolResult{IsError: isError, Content: []mcp.Content{&mcp.TextContent{Text: t}}}
	}
	add := func(name string, answer func(r *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, Description: "Says " + held, InputSchema: object},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return answer(r) })
	}
	add("text", func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(false, "token "+held+" Basic "+base64.StdEncoding.EncodeToString([]byte("ann:"+held))), nil
	})
	add("structured", func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		out := text(false, "{}")
		out.StructuredContent = map[string]any{"env": map[string]any{"UPTOK": held,
			"n": json.Number("12345678901234567890")}, held: 1}
		out.Meta = mcp.Meta{"auth": "Bearer " + held}
		return out, nil
	})
	add("fails", func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text(true, "401 for "+held), nil })
	add("errs", func(*mcp.CallToolRequest) (*mcp.CallToolResult, error) { return nil, errors.New("bad token " + held) })
	add("tells", func(r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.GetProgressToken() != nil {
			_ = r.Session.NotifyProgress(t.Context(),
				&mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 1,
					Message: "with " + held})
		}
		return text(false, "told"), nil
	})
	w := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() { w.CloseClientConnections(); w.Close() })
	return w
}

// encoded matches the forms in which no secret may leave.
var encoded = regexp.MustCompile(`4711\+value|4711%2Bvalue|LTQ3MTErdmFsdWV|0NzExK3ZhbHV|tNDcxMSt2YWx1Z`)

// logText stores what is written to it.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestSecretsStayHere has an upstream, and a process that fails to start, repeat the value of a
// variable. They use every way that leads to an agent, a program, the log, the record or a user.
func TestSecretsStayHere(t *testing.T) {
	t.Parallel()
	dir, up := t.TempDir(), leaky(t)
	s, err := config.Parse(filepath.Join(dir, "biplane.yaml"), []byte(`
policy: open
mcpServers:
  leaky: { url: '`+up.URL+`', headers: { X-Thing: '${UPTOK}' } }
  dead: { command: sh, args: ['-c', 'echo "no luck with $TOK" >&2; exit 3'], env: { TOK: '${UPTOK}' } }
`), func(name string) (string, bool) { return held, name == "UPTOK" }, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	logged := &logText{}
	d, _ := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0", Version: "test",
		Log: slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	check := func(what string, v any) string {
		t.Helper()
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		if m := encoded.Find(raw); m != nil {
			t.Errorf("%s shows %q: %s", what, m, raw)
		}
		return string(raw)
	}
	for code, want := range map[string]string{
		`return await leaky.text({})`:                                    "token [redacted]",
		`return await leaky.structured({})`:                              "12345678901234567890",
		`return (await leaky.text({})).split("").reverse().join("")`:     "]detcader[",
		`await leaky.fails({})`:                                          "401 for [redacted]",
		`try { await leaky.errs({}) } catch (e) { return e.message }`:    "bad token [redacted]",
		`try { await dead.anything({}) } catch (e) { return e.message }`: "",
		`return search("says")`:                                          "Says [redacted]",
	} {
		x, err := d.Client().Run(t.Context(), api.RunRequest{Code: code})
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		if got := check(code, x); !strings.Contains(got, want) {
			t.Errorf("%s: no %q in %s", code, want, got)
		}
	}
	said := &logText{} // the client receives notifications concurrently, some after the answer
	agent := model(t, d, func(m string) { _, _ = said.Write([]byte(m)) })
	for _, code := range []string{`await leaky.text({})`, `await leaky.errs({})`, `await leaky.tells({})`,
		`await dead.x({})`} {
		p := &mcp.CallToolParams{Name: "execute", Arguments: map[string]any{"code": code}}
		p.SetProgressToken("p")
		r, err := agent.CallTool(t.Context(), p)
		check(code, r)
		check(code, fmt.Sprint(err))
	}
	agent.Close() // no notification arrives after this
	check("the progress", said.String())
	for path := range map[string]bool{"/api/v1/upstreams": true, "/api/v1/status": true, "/api/v1/tools": true,
		"/api/v1/executions": true, "/api/v1/audit/records": true} {
		check(path, fetched(t, d, path))
	}
	if up := fetched(t, d, "/api/v1/upstreams"); !strings.Contains(up, "no luck with [redacted]") {
		t.Errorf("the last line of the process is not masked: %s", up)
	}
	if m := encoded.FindString(logged.String()); m != "" ||
		!strings.Contains(logged.String(), "no luck with [redacted]") {
		t.Errorf("the log has %q:\n%s", m, logged)
	}
}

// TestSecretsOfPrograms has a program assemble a secret from its parts. The execution and its
// journal must not show it either.
func TestSecretsOfPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := config.Parse(filepath.Join(dir, "biplane.yaml"), []byte(`
policy: open
mcpServers: { off: { command: none, disabled: true, env: { TOK: '${UPTOK}' } } }
`), func(name string) (string, bool) { return held, name == "UPTOK" }, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	d, _ := runWith(t, daemon.Config{Settings: s, DataDir: dir, Version: "test"})
	x, err := d.Client().Run(t.Context(),
		api.RunRequest{Code: `const s = "up-tok/" + 4711 + "+value"; console.log(s); return { s, lines: ` +
			`btoa("a".repeat(40) + s + "b".repeat(40)).replace(/(.{76})/g, "$1\r\n") }`})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	again, err := d.Client().Execution(t.Context(), x.ID)
	if err != nil {
		t.Fatalf("Execution: %v", err)
	}
	for what, v := range map[string]any{"the answer": x, "the execution": again} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatalf("json.Marshal: %v", err)
		}
		flat := strings.ReplaceAll(string(raw), `\r\n`, "")
		if m := encoded.FindString(flat); m != "" || !strings.Contains(flat, "[redacted]") {
			t.Errorf("%s shows %q: %s", what, m, raw)
		}
	}
}

// fetched returns the daemon's answer to a request over its socket.
func fetched(t *testing.T, d *daemon.Daemon, path string) string {
	t.Helper()
	c := d.Client()
	r, err := c.HTTP.Get(c.Base + path)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	return string(text)
}
