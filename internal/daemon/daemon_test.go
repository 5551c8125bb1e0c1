package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tiktoken-go/tokenizer"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/daemon"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A peer is an MCP server over HTTP with the tools echo and meet. A call of meet returns when n
// calls are under way, where n is its argument.
type peer struct {
	*httptest.Server
	calls   atomic.Int64
	mu      sync.Mutex
	waiting []chan struct{}
}

func newPeer(t *testing.T) *peer {
	p := &peer{}
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	type args struct {
		N int `json:"n"`
	}
	answer := func(v any) (*mcp.CallToolResult, any, error) {
		p.calls.Add(1)
		text, err := json.Marshal(v)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}}, nil, err
	}
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "Gives the number back",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
			return answer(a)
		})
	mcp.AddTool(s, &mcp.Tool{Name: "meet"},
		func(ctx context.Context, _ *mcp.CallToolRequest, a args) (*mcp.CallToolResult, any, error) {
			p.meet(ctx, a.N)
			return answer(a)
		})
	p.Server = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

func (p *peer) meet(ctx context.Context, n int) {
	p.mu.Lock()
	me := make(chan struct{})
	if p.waiting = append(p.waiting, me); len(p.waiting) == n {
		for _, w := range p.waiting {
			close(w)
		}
		p.waiting = nil
	}
	p.mu.Unlock()
	select {
	case <-me:
	case <-ctx.Done():
	}
}

// env is the environment of the tests' configurations.
func env(name string) (string, bool) { return "", false }

// parse parses a configuration.
func parse(path, text string) (*config.Config, error) {
	return config.Parse(path, []byte(text), env, tool.WASM)
}

// run runs a Daemon with the configuration text, until the test ends or stop is called.
func run(t *testing.T, dir, text string) (d *daemon.Daemon, stop func()) {
	t.Helper()
	if !strings.Contains(text, "policy:") {
		text = "policy: open\n" + text // most tests need no approvals
	}
	s, err := config.Parse(filepath.Join(dir, "biplane.yaml"), []byte(text), env, tool.WASM)
	if err != nil {
		t.Fatalf("config.Parse: %v", err)
	}
	if !s.StartWaitSaid {
		s.StartWait = time.Minute // a busy machine loads a folder of tools slowly
	}
	return runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "127.0.0.1:0", Version: "test"})
}

func execute(t *testing.T, c *api.Client, code string) *api.Execution {
	t.Helper()
	x, err := c.Run(t.Context(), api.RunRequest{Code: code})
	if err != nil {
		t.Fatalf("Run: %v", err)
	}
	return x
}

func TestDaemon(t *testing.T) {
	before := runtime.NumGoroutine()
	dir := t.TempDir()
	p := newPeer(t)
	d, stop := run(t, dir, "mcpServers: { peer: { url: '"+p.URL+"' } }")
	for _, c := range []*api.Client{d.Client(),
		{Base: "http://" + d.Addr(), HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}} {
		x := execute(t, c, `return (await callTool("peer.echo", { n: 41 })).n + 1`)
		if x.Error != nil || string(x.Value) != "42" || len(x.Calls) != 1 || x.Calls[0].Tool != "peer.echo" ||
			x.Tier != "wasm" {
			t.Fatalf("x = %+v, x.Error = %+v", x, x.Error)
		}
		again, err := c.Execution(t.Context(), x.ID)
		if err != nil || string(again.Value) != "42" || again.Tokens == nil || again.Tokens.Returned == 0 {
			t.Errorf("the execution, read again: %+v, %v, want the value 42 and its tokens", again, err)
		}
	}
	// As many concurrent calls as the program makes.
	x := execute(t, d.Client(), `const r = await Promise.all(Array.from({ length: 100 }, () => callTool("peer.meet", `+
		`{ n: 100 }))); return r.length`)
	if string(x.Value) != "100" || len(x.Calls) != 100 {
		t.Errorf("100 concurrent calls: value %s, error %+v, want 100 results",
			x.Value, x.Error)
	}
	if got := p.calls.Load(); got != 102 {
		t.Errorf("the upstream saw %d calls, want 102", got)
	}
	stop()
	p.CloseClientConnections()
	p.Close()
	settled(t, before)

	// Everything is recorded: the agents' calls, and those of their programs.
	s, err := store.Open(t.Context(), store.Config{Path: dir})
	if err != nil {
		t.Fatalf("store.Open: %v", err)
	}
	defer s.Close()
	key, err := secret.Open(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatalf("secret.Open: %v", err)
	}
	stored, err := s.Audit(t.Context(), key)
	if err != nil {
		t.Fatalf("Audit: %v", err)
	}
	record := audit.New(audit.Config{Store: stored, Key: key})
	records, err := record.Records(t.Context(), audit.Query{Kind: audit.KindCall, Execution: x.ID, Limit: 1000})
	if err != nil || len(records) != 100 {
		t.Fatalf("%d records of the program's calls, %v", len(records), err)
	}
	for _, r := range records {
		args, err := record.Kept(t.Context(), r.Seq, r.Arguments.Kept)
		if r.End.Outcome != audit.OK || r.Subject.Tool != "peer.meet" || string(args) != `{"n":100}` || err != nil ||
			!strings.HasPrefix(r.Principal, "local:") {
			t.Fatalf("r = %+v", r)
		}
	}
	records, err = record.Records(t.Context(), audit.Query{Tool: "biplane.execute"})
	if err != nil || len(records) != 3 {
		t.Fatalf("%d records of execute, %v", len(records), err)
	}
	if args, err := record.Kept(t.Context(), records[0].Seq, records[0].Arguments.Kept); err != nil ||
		!strings.Contains(string(args), "peer.meet") {
		t.Errorf("records of execute: %+v %v", records, err)
	}
}

// settled waits until there are no more goroutines than before.
func settled(t *testing.T, before int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for runtime.NumGoroutine() > before {
		select {
		case <-tick.C:
		case <-ctx.Done():
			buf := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// TestSilentUpstream checks that nothing waits longer than start_wait for an upstream that accepts
// connections but sends nothing.
func TestSilentUpstream(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(),
		fmt.Sprintf("start_wait: 100ms\nmcpServers: { silent: { url: 'http://%s/mcp' }, peer: { url: '%s' } }",
			l.Addr(), p.URL))
	ups, err := d.Client().Upstreams(t.Context())
	if err != nil || len(ups) != 2 || ups[0].Name != "silent" || ups[0].State != "connecting" {
		t.Fatalf("upstreams at the start: %+v, %v, want two, of which silent is still connecting", ups, err)
	}
	until(t, func() bool { // start_wait may end before the other upstream is ready
		_, err := d.Client().Tool(t.Context(), "peer.echo")
		return err == nil
	})
	x := execute(t, d.Client(), `return (await callTool("peer.echo", { n: 1 })).n`)
	if string(x.Value) != "1" {
		t.Errorf("a call while another upstream is silent: error %+v, want the value 1", x.Error)
	}
}

// TestStopped stops the daemon in the middle of a call. The caller must get an error, and nothing
// may be left running.
func TestStopped(t *testing.T) {
	before := runtime.NumGoroutine()
	p := newPeer(t)
	d, stop := run(t, t.TempDir(), "mcpServers: { peer: { url: '"+p.URL+"' } }")
	got := make(chan error, 1)
	go func() {
		x, err := d.Client().Run(context.Background(), api.RunRequest{Code: `await callTool("peer.meet", { n: 2 })`})
		if err == nil && x.Error != nil {
			err = errors.New(x.Error.Message)
		}
		got <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for waiting := false; !waiting; {
		p.mu.Lock()
		waiting = len(p.waiting) == 1
		p.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatal("the call never came")
		}
		<-time.After(time.Millisecond)
	}
	stop()
	if err := <-got; err == nil {
		t.Error("the program ended well")
	}
	p.CloseClientConnections()
	p.Close()
	settled(t, before)
}

func TestSaysWhatItIs(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	s := config.Default()
	s.Policy = "open"
	d, err := daemon.New(t.Context(),
		daemon.Config{Settings: s, DataDir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatalf("daemon.New: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(d.Run(ctx), d.Close(), d.Close()); err != nil {
		t.Fatalf("errors.Join: %v", err)
	}
	for _, part := range []string{"policy open: every call of every tool is allowed", "tier=wasm",
		"no upstream tools"} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("the log doesn't say %q:\n%s", part, log.String())
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for addr, want := range map[string]string{"0.0.0.0:0": "without sign-in", "[::]:0": "without sign-in",
		"example.com:80": "without sign-in", "nonsense": "listen address"} {
		if _, err := daemon.New(t.Context(), daemon.Config{DataDir: dir, Listen: addr}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("listen at %s: error %v, want one that contains the reason of the table", addr, err)
		}
	}
	run(t, dir, "mode: code")
	_, err := daemon.New(t.Context(), daemon.Config{DataDir: dir})
	if o, ok := daemon.FindOwner(err); !ok || o.PID == 0 || !strings.HasSuffix(o.Config, "biplane.yaml") {
		t.Errorf("the owner of the folder: %+v, error %v, want its process and configuration", o, err)
	}
	// The socket works with a long path too.
	long := filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	d, _ := run(t, long, "mode: code")
	if s, err := d.Client().Status(t.Context()); err != nil || s.DataDir != long {
		t.Errorf("status of a daemon with a long path: %+v, %v, want that path", s, err)
	}
}

// TestAgentsSeeLittle checks that an agent reads less than 1,000 tokens before it does anything,
// and the same each time.
func TestAgentsSeeLittle(t *testing.T) {
	t.Parallel()
	d, _ := run(t, t.TempDir(), "mode: code")
	list := func() string {
		body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list",` +
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`)
		req, err := http.NewRequest("POST", "http://"+d.Addr()+"/mcp", body)
		if err != nil {
			t.Fatalf("http.NewRequest: %v", err)
		}
		req.Header = http.Header{"Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {"2026-07-28"},
			"Mcp-Method": {"tools/list"}}
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatalf("Do: %v", err)
		}
		defer resp.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil || resp.StatusCode != 200 {
			t.Fatalf("resp.Status = %v, b.String() = %v, err = %v, want err == nil && resp.StatusCode "+
				"== 200", resp.Status, b.String(), err)
		}
		return b.String()
	}
	first := list()
	if first != list() {
		t.Error("the list of tools is not the same twice")
	}
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatalf("tokenizer.Get: %v", err)
	}
	n, err := codec.Count(first)
	if err != nil || !strings.Contains(first, `"name":"search"`) || n >= 1000 {
		t.Errorf("%d tokens, %v: %s", n, err, first)
	}
}
