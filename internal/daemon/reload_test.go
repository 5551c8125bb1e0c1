package daemon_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// An editedConfig is a configuration that a test changes while a daemon runs.
type editedConfig struct {
	path     string
	requests chan struct{}
	ended    chan struct{}

	mu   sync.Mutex
	text string
}

func (e *editedConfig) ReadSettings() (*config.Config, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return parse(e.path, e.text)
}

func (e *editedConfig) ReloadRequests() <-chan struct{} { return e.requests }

func (e *editedConfig) ReportReload(ended bool) {
	if ended {
		e.ended <- struct{}{}
	}
}

// change replaces the text, and waits until it was reloaded.
func (e *editedConfig) change(text string) {
	e.mu.Lock()
	e.text = text
	e.mu.Unlock()
	e.requests <- struct{}{}
	<-e.ended
}

// runEdited runs a daemon whose configuration can change.
func runEdited(t *testing.T, text string) (*daemon.Daemon, *editedConfig) {
	t.Helper()
	dir := t.TempDir()
	e := &editedConfig{path: filepath.Join(dir, "biplane.yaml"), text: text, requests: make(chan struct{}),
		ended: make(chan struct{})}
	s, err := e.ReadSettings()
	if err != nil {
		t.Fatalf("ReadSettings: %v", err)
	}
	d, _ := runWith(t, daemon.Config{Settings: s, Source: e, DataDir: dir, Listen: "127.0.0.1:0", Version: "test"})
	if _, err := d.Client().Upstreams(t.Context()); err != nil {
		t.Fatalf("Upstreams: %v", err)
	}
	return d, e
}

func statusOf(t *testing.T, d *daemon.Daemon) *api.Status {
	t.Helper()
	s, err := d.Client().Status(t.Context())
	if err != nil {
		t.Fatalf("Status: %v", err)
	}
	return s
}

// TestReloadUnderLoad calls tools, directly and from programs, while thirty reloads change,
// add and remove upstreams, policies and limits. No call may fail.
func TestReloadUnderLoad(t *testing.T) {
	t.Parallel()
	p, other := newPeer(t), newPeer(t)
	text := func(i int) string {
		out := fmt.Sprintf("policy: open\nmode: direct\nmcpServers:\n  peer: { url: '%s', timeout: %ds }\n", p.URL,
			60+i/10)
		if i%2 == 1 {
			out += "  other: { url: '" + other.URL + "' }\nlimits: [{ what: calls, max: 100000000, window: 1m }]\n"
		}
		return out
	}
	d, e := runEdited(t, text(0))
	var over atomic.Bool
	var made atomic.Int64
	var work sync.WaitGroup
	for range 3 {
		agent := overHTTP(t, d, "", channels["elicitation"], action("cancel"))
		work.Go(func() {
			for !over.Load() {
				r, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "peer_echo",
					Arguments: map[string]any{"n": 1}})
				if err != nil || r.IsError {
					t.Errorf("a direct call failed: %v, %+v", err, r)
					return
				}
				made.Add(1)
			}
		})
	}
	work.Go(func() {
		for !over.Load() {
			x := execute(t, d.Client(), `let n = 0; for (let i = 0; i < 50; i++) n += (await callTool("peer.echo", `+
				`{ n: 1 })).n; return n`)
			if x.Error != nil || string(x.Value) != "50" {
				t.Errorf("a program's calls: %s, %+v, want 50", x.Value, x.Error)
				return
			}
			made.Add(50)
		}
	})
	for i := range 30 {
		e.change(text(i + 1))
		if s := statusOf(t, d); s.Upstreams != 1+(i+1)%2 || s.Reload == nil || s.Reload.Problem != "" ||
			len(s.Reload.Restart) > 0 {
			t.Fatalf("after reload %d: %d upstreams, %+v, want %d", i, s.Upstreams, s.Reload, 1+(i+1)%2)
		}
	}
	over.Store(true)
	work.Wait()
	t.Logf("%d calls during 30 reloads", made.Load())
	records, err := d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "configuration", Limit: 200})
	if err != nil || len(records) != 31 {
		t.Errorf("%d records of configurations, %v, want 31", len(records), err)
	}
}

// TestReloadChanges checks what a reload changes, and what it doesn't.
func TestReloadChanges(t *testing.T) {
	t.Parallel()
	p, other := newPeer(t), newPeer(t)
	head := "mode: direct\nmcpServers:\n  peer: { url: '" + p.URL + "' }\n"
	both := head + "  other: { url: '" + other.URL + "' }\n"
	d, e := runEdited(t, "policy: open\n"+both)
	news := make(chan struct{}, 1000)
	agent := connectListener(t, d, news)

	// A changed policy holds for the next call of a running program.
	result := make(chan *api.Execution, 1)
	go func() {
		result <- execute(t, d.Client(), `await callTool("peer.meet", { n: 2 }); try { await callTool("peer.meet", `+
			`{ n: 1 }); return "allowed" } catch (e) { return String(e) }`)
	}()
	until(t, func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.waiting) == 1 })
	e.change("policy: read-only\n" + both)
	p.meet(t.Context(), 2)
	if x := <-result; x.Error != nil || !strings.Contains(string(x.Value), "denied") {
		t.Errorf("after the policy changed: %s, %+v, want a denied call", x.Value, x.Error)
	}

	// The tools of a removed upstream vanish, and clients learn of it.
	for len(news) > 0 {
		<-news
	}
	e.change("policy: read-only\n" + head)
	<-news
	list, err := agent.ListTools(t.Context(), nil)
	if err != nil || slices.ContainsFunc(list.Tools, func(l *mcp.Tool) bool { return l.Name == "other_echo" }) {
		t.Errorf("the removed upstream's tools are listed: %v", err)
	}
	if _, err := d.Client().Tool(t.Context(), "other.echo"); err == nil {
		t.Error("the removed upstream's tool is still known")
	}

	// An invalid file changes nothing, and the status says why.
	e.change("policy: no such\nmcpServers: {}\n")
	if s := statusOf(t, d); s.Upstreams != 1 || s.Policy != "read-only" || s.Reload.Problem == "" {
		t.Errorf("after an invalid file: %+v, %+v, want the previous configuration and a problem", s, s.Reload)
	}
	e.change("policy: ./absent\n" + head)
	if s := statusOf(t, d); s.Upstreams != 1 || s.Policy != "read-only" || s.Reload.Problem == "" {
		t.Errorf("after an absent folder: %+v, %+v, want the previous configuration and a problem", s, s.Reload)
	}

	// What needs a restart is named, and the rest is in force.
	e.change("policy: open\nlisten: 127.0.0.1:1\njournal: { keep: 1h }\n" + head)
	if s := statusOf(t, d); s.Policy != "open" || !slices.Equal(s.Reload.Restart, []string{"journal", "listen"}) ||
		s.Listen != d.Addr() {
		t.Errorf("after changes that need a restart: %+v, %+v, want journal and listen", s, s.Reload)
	}
}

// TestReloadKeepsConnections checks that a reload leaves the connection of an unchanged upstream.
func TestReloadKeepsConnections(t *testing.T) {
	t.Parallel()
	var connections atomic.Int64
	p := newPeer(t)
	inner := p.Config.Handler
	p.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Session-Id") == "" {
			connections.Add(1)
		}
		inner.ServeHTTP(w, r)
	})
	text := "policy: open\nmcpServers: { peer: { url: '" + p.URL + "' } }\n"
	d, e := runEdited(t, text)
	before := connections.Load()
	e.change(text + "limits: [{ what: calls, max: 5, window: 1h }]\n")
	if n := connections.Load(); n != before {
		t.Errorf("%d connections after a reload, want %d", n, before)
	}
	if x := execute(t, d.Client(), `let n = 0; try { for (;;) { await callTool("peer.echo", { n: 1 }); n++ } } `+
		`catch {} return n`); string(x.Value) != "5" {
		t.Errorf("%s calls, want the 5 that the new limit allows", x.Value)
	}
}

// TestReloadRemovesFirst checks that a removed upstream is gone while a new one still connects.
func TestReloadRemovesFirst(t *testing.T) {
	t.Parallel()
	p, slow := newPeer(t), newPeer(t)
	connect := make(chan struct{})
	inner := slow.Config.Handler
	slow.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-connect
		inner.ServeHTTP(w, r)
	})
	text := func(name, url string) string {
		return "policy: open\nmode: direct\nstart_wait: 5m\nmcpServers:\n  " + name + ": { url: '" + url + "' }\n"
	}
	d, e := runEdited(t, text("old", p.URL))
	changed := make(chan struct{})
	go func() { defer close(changed); e.change(text("fresh", slow.URL)) }()
	until(t, func() bool { _, err := d.Client().Tool(t.Context(), "old.echo"); return err != nil })
	select {
	case <-changed:
		t.Error("the reload ended before the new upstream was connected")
	default:
	}
	close(connect)
	<-changed
	if _, err := d.Client().Tool(t.Context(), "fresh.echo"); err != nil {
		t.Errorf("after the reload: %v, want the new upstream's tool", err)
	}
}

// connectListener connects a client that sends to news when the list of tools has changed.
func connectListener(t *testing.T, d *daemon.Daemon, news chan<- struct{}) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { news <- struct{}{} }})
	s, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: d.URL() + "/mcp"},
		&mcp.ClientSessionOptions{ProtocolVersion: channels["elicitation"]})
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
