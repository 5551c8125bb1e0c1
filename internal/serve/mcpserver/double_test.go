package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// door is a tool.Caller for tests. Like the gateway, it finds tools by path; it records the calls.
type door struct {
	mu    sync.Mutex
	tools map[string]tool.CallerFunc
	calls []*tool.Call
}

func newDoor() *door { return &door{tools: map[string]tool.CallerFunc{}} }

func (d *door) handle(path string, f tool.CallerFunc) { d.tools[path] = f }

func (d *door) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	d.mu.Lock()
	d.calls = append(d.calls, c)
	f := d.tools[c.Path]
	d.mu.Unlock()
	if f == nil {
		return nil, tool.Errorf(tool.NotFound, "no tool %q: did you mean up.echo?", c.Path)
	}
	return f(ctx, c)
}

func (d *door) last(t *testing.T) *tool.Call {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) == 0 {
		t.Fatal("no call came through the door")
	}
	return d.calls[len(d.calls)-1]
}

// own returns definitions like the ones of Biplane's own tools.
func own() []*tool.Tool {
	readOnly := true
	return []*tool.Tool{
		{Upstream: "biplane", Name: "search", Description: "Find tools.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string"}}}`),
			Annotations: tool.Annotations{ReadOnly: &readOnly}},
		{Upstream: "biplane", Name: "execute", Description: "Run a program.",
			InputSchema: json.RawMessage(
				`{"type":"object","properties":{"code":{"type":"string"}},"required":["code"]}`)},
		{Upstream: "biplane", Name: "resume", Description: "Wait for an execution.",
			InputSchema: json.RawMessage(`{"type":"object"}`)},
	}
}

// upstreamTools returns two tools of an upstream "up", as received from it.
func upstreamTools() []mcpserver.Listed {
	echo := &tool.Tool{Upstream: "up", Name: "echo",
		InputSchema: json.RawMessage(
			`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`),
		Raw: json.RawMessage(`{"zeta":9007199254740993,"name":"echo","description":"<Echo> & more",` +
			`"inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}},` +
			`"x-new":[1.10,{"b":1,"a":2}]}`)}
	other := &tool.Tool{Upstream: "up", Name: "other", Description: "Another.",
		InputSchema: json.RawMessage(`{"type":"object"}`)}
	return []mcpserver.Listed{{Name: "up_echo", Tool: echo}, {Name: "up_other", Tool: other}}
}

// upstreams is a catalog of the tools that list returns.
type upstreams struct {
	list func() []mcpserver.Listed
	text func() string // nil: the description is empty

	offers []*tool.Offers // visible to everyone
	hidden []*tool.Offers // visible to no one
}

func (u upstreams) ListTools(context.Context, tool.Principal) []mcpserver.Listed { return u.list() }

func (u upstreams) LookupTool(_ context.Context, _ tool.Principal, name string) *tool.Tool {
	for _, l := range u.list() {
		if l.Name == name || l.Tool.Path() == name {
			return l.Tool
		}
	}
	return nil
}

func (u upstreams) ListOffers(context.Context, tool.Principal) (visible, all []*tool.Offers) {
	return u.offers, append(u.offers, u.hidden...)
}

func (u upstreams) ListInstructions(context.Context, tool.Principal) []*tool.Tool { return nil }

func (u upstreams) DescribeTools(context.Context, tool.Principal) string {
	if u.text == nil {
		return ""
	}
	return u.text()
}

// config returns a Config with d as Door and the tools above.
func config(d *door, mode mcpserver.Mode) mcpserver.Config {
	return mcpserver.Config{
		Door: d, Builtin: own(), Endpoint: mcpserver.Endpoint{Mode: mode}, Version: "1.2.3",
		Local:   tool.Principal{ID: "local:test"},
		Catalog: upstreams{list: upstreamTools},
	}
}

// A peer is a client that exposes the bytes. call returns the response to a request, and the
// preceding notifications.
type peer interface {
	call(t testing.TB, method, params string) (response string, notes []string)
}

// stdioPeer communicates over pipes; each method waits for its own answer.
type stdioPeer struct {
	in      io.WriteCloser
	out     *bufio.Reader
	done    chan error // result of ServeStdio
	version string
	next    int
}

// startStdio connects a client of a revision, including the revision's handshake.
func startStdio(t testing.TB, s *mcpserver.Server, version string) *stdioPeer {
	t.Helper()
	return continueStdio(t, s, version, mcpserver.Conversation{})
}

func continueStdio(t testing.TB, s *mcpserver.Server, version string, known mcpserver.Conversation) *stdioPeer {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &stdioPeer{in: inW, out: bufio.NewReader(outR), done: make(chan error, 1), version: version}
	go func() {
		err := s.Continue(t.Context(), inR, outW, known)
		outW.Close()
		p.done <- err
	}()
	t.Cleanup(func() { inW.Close(); outR.Close() })
	if version < "2026" {
		p.call(t, "initialize",
			`{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`)
		p.write(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return p
}

func (p *stdioPeer) write(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatalf("io.WriteString: %v", err)
	}
}

func (p *stdioPeer) read(t testing.TB) string {
	t.Helper()
	l, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return strings.TrimSuffix(l, "\n")
}

func (p *stdioPeer) call(t testing.TB, method, params string) (string, []string) {
	t.Helper()
	p.next++
	p.write(t, request(p.next, method, params, p.version))
	var notes []string
	for {
		l := p.read(t)
		if id := fieldOf(t, l, "id"); string(id) == fmt.Sprint(p.next) {
			return l, notes
		}
		notes = append(notes, l)
	}
}

// httpPeer communicates over HTTP.
type httpPeer struct {
	url     string
	client  *http.Client
	version string
	session string
	mu      sync.Mutex
	next    int
}

func startHTTP(t testing.TB, s *mcpserver.Server, version string) *httpPeer {
	t.Helper()
	return dial(t, startServer(t, s), version)
}

// startServer serves HTTP until the test ends, and returns the URL.
func startServer(t testing.TB, s *mcpserver.Server) string {
	t.Helper()
	srv := httptest.NewServer(s.Handler())
	t.Cleanup(func() { s.Close(); srv.Close() })
	return srv.URL
}

// dial connects another client to a running server.
func dial(t testing.TB, url, version string) *httpPeer {
	t.Helper()
	p := &httpPeer{url: url, client: &http.Client{}, version: version}
	t.Cleanup(p.client.CloseIdleConnections)
	if version < "2026" {
		res := p.post(t, request(0, "initialize", `{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`, version), nil)
		body := drain(t, res)
		if p.session = res.Header.Get("Mcp-Session-Id"); p.session == "" {
			t.Fatalf("initialize: %s: %s", res.Status, body)
		}
		drain(t, p.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil))
	}
	return p
}

// post sends a message with the headers that the revision requires, overridden by those in extra
// ("" removes one).
func (p *httpPeer) post(t testing.TB, body string, extra map[string]string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url, strings.NewReader(body))
	if err != nil {
		t.Fatalf("http.NewRequestWithContext: %v", err)
	}
	p.header(t, req.Header, body)
	for k, v := range extra {
		if req.Header.Set(k, v); v == "" {
			req.Header.Del(k)
		}
	}
	if h := req.Header.Get("Host"); h != "" {
		req.Host = h
	}
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	return res
}

func (p *httpPeer) header(t testing.TB, h http.Header, body string) {
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json, text/event-stream")
	h.Set("MCP-Protocol-Version", p.version)
	if p.session != "" {
		h.Set("Mcp-Session-Id", p.session)
	}
	if p.version >= "2026" && json.Valid([]byte(body)) {
		var m struct {
			Method string
			Params struct{ Name, URI string }
		}
		json.Unmarshal([]byte(body), &m)
		h.Set("Mcp-Method", m.Method)
		if m.Method == "tools/call" {
			h.Set("Mcp-Name", m.Params.Name)
		}
		if m.Method == "resources/read" || m.Method == "prompts/get" {
			h.Set("Mcp-Name", m.Params.Name+m.Params.URI)
		}
	}
}

func (p *httpPeer) call(t testing.TB, method, params string) (string, []string) {
	t.Helper()
	p.mu.Lock()
	p.next++
	id := p.next
	p.mu.Unlock()
	res := p.post(t, request(id, method, params, p.version), nil)
	msgs := messages(res.Header.Get("Content-Type"), drain(t, res))
	if len(msgs) == 0 {
		t.Fatalf("%s: %s without a message", method, res.Status)
	}
	return msgs[len(msgs)-1], msgs[:len(msgs)-1]
}

// messages returns the messages in a body.
func messages(contentType, body string) []string {
	if !strings.HasPrefix(contentType, "text/event-stream") {
		return []string{strings.TrimSuffix(body, "\n")}
	}
	var out []string
	for l := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(l, "data: "); ok {
			out = append(out, strings.TrimSuffix(data, "\n"))
		}
	}
	return out
}

func drain(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("io.ReadAll: %v", err)
	}
	return string(b)
}

// request returns an encoded request. For revisions without sessions, it adds the required members
// of _meta to params.
func request(id int, method, params, version string) string {
	if params == "" {
		params = "{}"
	}
	if version >= "2026" {
		meta := `"io.modelcontextprotocol/protocolVersion":"` + version +
			`","io.modelcontextprotocol/clientCapabilities":{},` +
			`"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}`
		if strings.Contains(params, `"_meta":{`) {
			params = strings.Replace(params, `"_meta":{`, `"_meta":{`+meta+`,`, 1)
		} else if params == "{}" {
			params = `{"_meta":{` + meta + `}}`
		} else {
			params = `{"_meta":{` + meta + `},` + params[1:]
		}
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

// fieldOf returns the bytes of a member of an object, or nil if it is missing.
func fieldOf(t testing.TB, object string, path ...string) json.RawMessage {
	t.Helper()
	raw := json.RawMessage(object)
	for _, key := range path {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatalf("object = %s, err = %v, want nil", object, err)
		}
		raw = m[key]
	}
	return raw
}

// compact returns JSON without white space between its tokens.
func compact(t testing.TB, raw []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatalf("raw = %s, err = %v, want nil", raw, err)
	}
	return b.String()
}

// eventually waits until ok returns true, or fails the test.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until: %s", what)
		}
		time.Sleep(2 * time.Millisecond) // poll, with a deadline
	}
}

// peers runs a test on every transport in every era.
func peers(t *testing.T, cfg mcpserver.Config, f func(t *testing.T, p peer, version string)) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run("stdio/"+version, func(t *testing.T) { f(t, startStdio(t, mcpserver.New(cfg), version), version) })
		t.Run("http/"+version, func(t *testing.T) { f(t, startHTTP(t, mcpserver.New(cfg), version), version) })
	}
}
