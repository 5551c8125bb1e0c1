//go:build unix

package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
	"github.com/biplane-dev/biplane/internal/upstream/upstreamtest"
)

// A rawWeb is the scripted server over Streamable HTTP, with sessions unless its mode is modern. A
// call of a tool in special is handled by its function.
type rawWeb struct {
	mode    string
	asJSON  bool
	special map[string]func(w http.ResponseWriter, r *http.Request, m rawMessage)
	get     http.HandlerFunc // nil: 405
	gate    http.HandlerFunc // runs before everything else; if it writes a header, nothing follows; nil: none

	mu       sync.Mutex
	sessions int
	session  string
	deleted  int
	requests []*http.Request
}

func (p *rawWeb) serve(t testing.TB) string {
	t.Helper()
	w := httptest.NewServer(p)
	t.Cleanup(func() { w.CloseClientConnections(); w.Close() })
	return w.URL
}

// forget ends the session.
func (p *rawWeb) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session = ""
}

func (p *rawWeb) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests = append(p.requests, r.Clone(r.Context()))
	session := p.session
	p.mu.Unlock()
	if p.gate != nil {
		g := &gated{ResponseWriter: w}
		if p.gate(g, r); g.wrote {
			return
		}
	}
	switch r.Method {
	case http.MethodGet:
		if p.get == nil {
			http.Error(w, "no stream here", http.StatusMethodNotAllowed)
			return
		}
		p.get(w, r)
		return
	case http.MethodDelete:
		p.mu.Lock()
		p.deleted++
		p.mu.Unlock()
		return
	}
	var m rawMessage
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if p.mode != "modern" && m.Method != "initialize" && r.Header.Get("Mcp-Session-Id") != session {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`)
		return
	}
	if m.Method == "initialize" && p.mode != "modern" {
		p.mu.Lock()
		p.sessions++
		p.session = fmt.Sprintf("session-%d", p.sessions)
		w.Header().Set("Mcp-Session-Id", p.session)
		p.mu.Unlock()
	}
	if f := p.special[m.Params.Name]; f != nil {
		f(w, r, m)
		return
	}
	if len(m.ID) == 0 {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	var out bytes.Buffer
	raw := &rawPeer{mode: p.mode, out: &out}
	raw.handle(m)
	p.answer(w, out.Bytes())
}

// answer sends messages, one per line, as an event stream or as one body.
func (p *rawWeb) answer(w http.ResponseWriter, lines []byte) {
	if p.asJSON {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = w.Write(lines)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for line := range bytes.Lines(lines) {
		fmt.Fprintf(w, "event: message\ndata: %s\n\n", bytes.TrimSuffix(line, []byte("\n")))
	}
}

type gated struct {
	http.ResponseWriter
	wrote bool
}

func (g *gated) WriteHeader(code int) { g.wrote = true; g.ResponseWriter.WriteHeader(code) }

func stream(w http.ResponseWriter) func(format string, a ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	return func(format string, a ...any) {
		fmt.Fprintf(w, format, a...)
		w.(http.Flusher).Flush()
	}
}

func startWebRaw(t testing.TB, p *rawWeb) *upstreamtest.Running {
	t.Helper()
	return start(t, mcp.Hasten(mcp.Config{URL: p.serve(t) + "/s/k7Qz9XfW2pLm41/mcp", Type: "http", MaxMessage: 1 << 20,
		Timeout:  20 * time.Second,
		Timeouts: map[string]time.Duration{"loris": 300 * time.Millisecond},
		Headers:  map[string]string{"Authorization": "Bearer secret-token-1"}}))
}

// TestHostileWeb checks that an invalid HTTP response affects only its call.
func TestHostileWeb(t *testing.T) {
	status := func(code int, typ, body string) func(http.ResponseWriter, *http.Request, rawMessage) {
		return func(w http.ResponseWriter, _ *http.Request, _ rawMessage) {
			w.Header().Set("Content-Type", typ)
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	p := &rawWeb{special: map[string]func(http.ResponseWriter, *http.Request, rawMessage){
		"no answer":   status(200, "text/event-stream", ""),
		"accepted":    status(202, "", ""),
		"html":        status(200, "text/html", "<html>welcome</html>"),
		"not json":    status(200, "application/json", "welcome"),
		"other id":    status(200, "application/json", `{"jsonrpc":"2.0","id":"x","result":{}}`),
		"teapot":      status(418, "text/plain", "I am a \x1b[31mteapot\x1b[0m"),
		"unavailable": status(503, "text/html", "<html>"),
		"error": status(400, "application/json",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no good"}}`),
		"token": status(500, "text/plain", "bad token secret-token-1"),
		"path":  status(410, "text/plain", "Cannot POST /s/k7Qz9XfW2pLm41/mcp"),
		"huge": status(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"x":"`+
			strings.Repeat("h", 2<<20)+`"}}`),
		"huge event":   status(200, "text/event-stream", "data: "+strings.Repeat("h", 2<<20)+"\n\n"),
		"huge comment": status(200, "text/event-stream", ":"+strings.Repeat("h", 2<<20)),
		"garbage": func(w http.ResponseWriter, _ *http.Request, m rawMessage) {
			send := stream(w)
			send("\xef\xbb\xbf: hello\r\ndata\n\nevent: other\ndata: {}\n\nid: \x00\nretry: soon\ndata: " +
				"{\"half\":\n\ndata: [1]\r\rdata:\n\n")
			send("data: {\"jsonrpc\":\"2.0\",\ndata:  \"id\":%s,\ndata: \"result\":%s}\n\n", m.ID, fine)
		},
		"cut off": func(w http.ResponseWriter, _ *http.Request, m rawMessage) {
			stream(w)("data: {\"jsonrpc\":\"2.0\",\"id\":%s", m.ID)
			panic(http.ErrAbortHandler)
		},
		"cut off json": func(w http.ResponseWriter, _ *http.Request, m rawMessage) {
			w.Header().Set("Content-Length", "1000")
			status(200, "application/json", `{"jsonrpc"`)(w, nil, m)
		},
		"hang up": func(http.ResponseWriter, *http.Request, rawMessage) { panic(http.ErrAbortHandler) },
		"loris": func(w http.ResponseWriter, r *http.Request, _ rawMessage) {
			for send := stream(w); r.Context().Err() == nil; { // a byte now and then, never a line
				send("x")
				select {
				case <-r.Context().Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		},
		"elsewhere": func(w http.ResponseWriter, r *http.Request, _ rawMessage) {
			http.Redirect(w, r, "http://127.0.0.2:1/steal", http.StatusTemporaryRedirect)
		},
		"downgrade": func(w http.ResponseWriter, r *http.Request, _ rawMessage) {
			http.Redirect(w, r, "ftp://"+r.Host+"/", http.StatusTemporaryRedirect)
		},
		"found": func(w http.ResponseWriter, r *http.Request, _ rawMessage) {
			http.Redirect(w, r, "/x", http.StatusFound)
		},
		"loop": func(w http.ResponseWriter, r *http.Request, _ rawMessage) {
			http.Redirect(w, r, "/x", http.StatusTemporaryRedirect)
		},
	}}
	r := startWebRaw(t, p)
	r.Ready(t)
	for _, c := range []struct {
		tool string
		kind tool.Kind
		msg  string
	}{
		{"garbage", "", ""},
		{"no answer", tool.Unavailable, "closed the connection without an answer"},
		{"accepted", tool.Unavailable, `answered 202 with content type "" and no answer in it`},
		{"html", tool.Unavailable, `content type "text/html"`},
		{"not json", tool.Unavailable, "invalid JSON-RPC: not valid JSON"},
		{"other id", tool.Unavailable, "no answer in it"},
		{"teapot", tool.Unavailable, "answered 418 I'm a teapot: I am a teapot"},
		{"unavailable", tool.Unavailable, "answered 503 Service Unavailable; retry after 7"},
		{"error", tool.Invalid, "no good (JSON-RPC error -32602)"},
		{"token", tool.Unavailable, "bad token [redacted]"},
		{"path", tool.Unavailable, "Cannot POST /s/[redacted]/mcp"},
		{"huge", tool.Limit, "answered with more than 1 MiB: ask for less"},
		{"huge event", tool.Limit, "answered with more than 1 MiB"},
		{"huge comment", tool.Limit, "answered with more than 1 MiB"},
		{"cut off", tool.Unavailable, "closed the connection in the middle of its answer"},
		{"cut off json", tool.Unavailable, "closed the connection in the middle of its answer"},
		{"hang up", tool.Unavailable, "closed the connection without an answer"},
		{"loris", tool.Timeout, "no answer within 300ms"},
		{"elsewhere", tool.Unavailable,
			"redirects to http://127.0.0.2:1, another server than configured: not followed"},
		{"downgrade", tool.Unavailable, "another server than configured"},
		{"found", tool.Unavailable, "changes POST to GET"},
		{"loop", tool.Unavailable, "redirected too often"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			res, err := r.Do(t.Context(), c.tool, `{}`)
			switch {
			case c.kind == "" && (err != nil || !strings.Contains(string(res.Raw), "fine")):
				t.Errorf("got %v %v", res, err)
			case c.kind != "" && (kindOf(err) != c.kind || !strings.Contains(err.Error(), c.msg)):
				t.Errorf("got %v (%s), want %s with %q", err, kindOf(err), c.kind, c.msg)
			}
			working(t, r)
		})
	}
}

// TestSession checks that a session is kept, closed, and replaced when the server forgets it.
func TestSession(t *testing.T) {
	p := &rawWeb{asJSON: true}
	r := startWebRaw(t, p)
	r.Ready(t)
	for range 4 { // more often than a server may fail
		working(t, r)
		p.forget()
	}
	working(t, r)
	if s := r.Ready(t); s.Protocol != "2025-11-25" {
		t.Errorf("protocol %q", s.Protocol)
	}
	r.Close(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sessions != 5 {
		t.Errorf("%d sessions, want 5", p.sessions)
	}
	if p.deleted == 0 {
		t.Error("the last session was not ended")
	}
	for _, q := range p.requests {
		if q.Header.Get("Authorization") != "Bearer secret-token-1" {
			t.Errorf("%s without the configured header", q.Method)
		}
	}
	last := p.requests[len(p.requests)-1]
	if last.Header.Get("Mcp-Protocol-Version") != "2025-11-25" {
		t.Errorf("headers %v", last.Header)
	}
}

// TestNotRepeated checks that a call in progress is not repeated when another call finds the
// session gone.
func TestNotRepeated(t *testing.T) {
	made := make(chan struct{}, 10)
	p := &rawWeb{asJSON: true, special: map[string]func(http.ResponseWriter, *http.Request, rawMessage){
		"hold": func(_ http.ResponseWriter, r *http.Request, _ rawMessage) {
			made <- struct{}{}
			<-r.Context().Done()
		},
	}}
	r := startWebRaw(t, p)
	r.Ready(t)
	failed := make(chan error, 1)
	go func() {
		_, err := r.Do(context.Background(), "hold", `{}`)
		failed <- err
	}()
	<-made
	p.forget()
	working(t, r) // in a new session
	select {
	case err := <-failed:
		if kindOf(err) != tool.Unavailable ||
			!strings.Contains(err.Error(), "whether peer.hold took effect is unknown") {
			t.Errorf("got %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the call did not end")
	}
	if len(made) != 0 {
		t.Error("it was made again")
	}
}

// TestResume checks that a broken stream is resumed after its last event, with the server's own
// delay.
func TestResume(t *testing.T) {
	waiting := make(chan rawMessage, 1)
	p := &rawWeb{
		special: map[string]func(http.ResponseWriter, *http.Request, rawMessage){
			"breaks": func(w http.ResponseWriter, _ *http.Request, m rawMessage) {
				waiting <- m
				stream(w)("id: e-1\nretry: 10\ndata:\n\n")
			},
		},
		get: func(w http.ResponseWriter, r *http.Request) {
			switch r.Header.Get("Last-Event-ID") {
			case "":
				http.Error(w, "", http.StatusMethodNotAllowed)
			case "e-1": // breaks again, one event later
				stream(w)("id: e-2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
			case "e-2":
				m := <-waiting
				stream(w)("id: e-3\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", m.ID, fine)
			}
		},
	}
	r := startWebRaw(t, p)
	r.Ready(t)
	res, err := r.Do(t.Context(), "breaks", `{}`)
	if err != nil || string(res.Raw) != fine {
		t.Fatalf("res = %v, err = %v, want err == nil && string(res.Raw) == fine", res, err)
	}
	working(t, r)
}

// TestSignIn checks that a server that requires credentials is reported as such.
func TestSignIn(t *testing.T) {
	gate := func(code int, challenge string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, "who are you?", code)
		}
	}
	for _, c := range []struct {
		name  string
		gate  http.HandlerFunc
		state tool.State
		want  string
	}{
		{"401", gate(401, `Bearer error="invalid_token"`), tool.NeedsSignIn,
			`answered 401 Unauthorized: who are you? (Bearer error="invalid_token")`},
		{"403 scope", gate(403, `Bearer error="insufficient_scope", scope="write"`), tool.NeedsSignIn,
			"insufficient_scope"},
		{"403", gate(403, ""), tool.Down, "answered 403 Forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, typ := range []string{"http", "sse", ""} {
				p := &rawWeb{gate: c.gate}
				r := start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: typ}))
				s := r.Wait(t, string(c.state), func(s upstream.Snapshot) bool { return s.Health.State == c.state })
				if !strings.Contains(s.Health.Reason, c.want) {
					t.Errorf("reason %q, want %q", s.Health.Reason, c.want)
				}
				if c.state == tool.NeedsSignIn { // calls don't wait for a sign-in
					if _, err := r.Do(t.Context(), "echo", `{}`); kindOf(err) != tool.Unavailable ||
						!strings.Contains(err.Error(), "run biplane connect peer") {
						t.Errorf("got %v", err)
					}
				}
				r.Close(t)
			}
		})
	}
	t.Run("later", func(t *testing.T) {
		var expired sync.Map
		p := &rawWeb{gate: func(w http.ResponseWriter, r *http.Request) {
			if _, ok := expired.Load(1); ok {
				http.Error(w, "expired", http.StatusUnauthorized)
			}
		}}
		r := startWebRaw(t, p)
		r.Ready(t)
		expired.Store(1, true)
		if _, err := r.Do(t.Context(), "echo", `{}`); kindOf(err) != tool.Unavailable ||
			!strings.Contains(err.Error(), "needs sign-in") {
			t.Errorf("got %v", err)
		}
		s := r.Wait(t, "needs sign-in", func(s upstream.Snapshot) bool { return s.Health.State == tool.NeedsSignIn })
		if !s.Health.Stale || len(s.Tools) != 1 {
			t.Errorf("%+v, %d tools", s.Health, len(s.Tools))
		}
	})
}

// TestBreaker checks that no calls are made for a while after consecutive failures.
func TestBreaker(t *testing.T) {
	var broken atomic.Bool
	var made atomic.Int64
	broken.Store(true)
	p := &rawWeb{special: map[string]func(http.ResponseWriter, *http.Request, rawMessage){
		"echo": func(w http.ResponseWriter, _ *http.Request, m rawMessage) {
			if made.Add(1); broken.Load() {
				http.Error(w, "out of order", http.StatusBadGateway)
				return
			}
			(&rawWeb{asJSON: true}).answer(w, []byte(rawAnswer(m)))
		},
	}}
	r := startWebRaw(t, p)
	r.Ready(t)
	var last time.Time
	for range 5 {
		last = time.Now()
		if _, err := r.Do(t.Context(), "echo", `{}`); kindOf(err) != tool.Unavailable ||
			!strings.Contains(err.Error(), "answered 502 Bad Gateway: out of order") {
			t.Fatalf("got %v", err)
		}
	}
	s := r.Wait(t, "degraded", func(s upstream.Snapshot) bool { return s.Health.State == tool.Degraded })
	if !strings.Contains(s.Health.Reason, "502") || len(s.Tools) != 1 || s.Health.Stale {
		t.Errorf("s.Health = %+v, want strings.Contains(s.Health.Reason, \"502\") && len(s.Tools) == 1 "+
			"&& !s.Health.Stale", s.Health)
	}
	// If all this took longer than the pause, one call is made as a probe, and the next pause is
	// longer.
	for refused := false; !refused; {
		before := made.Load()
		_, err := r.Do(t.Context(), "echo", `{}`)
		if refused = strings.Contains(fmt.Sprint(err), "are paused"); refused && made.Load() != before {
			t.Error("it was called all the same")
		}
		if kindOf(err) != tool.Unavailable || !refused && time.Since(last) < mcp.Hastened() {
			t.Fatalf("got %v", err)
		}
		last = time.Now()
	}
	broken.Store(false)
	deadline := time.Now().Add(2 * time.Minute)
	for _, err := r.Do(t.Context(), "echo", `{"content":[]}`); err != nil; _,
		err = r.Do(t.Context(), "echo", `{"content":[]}`) {
		if time.Now().After(deadline) {
			t.Fatalf("it is still refused: %v", err)
		}
	}
	r.Ready(t)
}

// TestForeignEndpoint checks that the old transport doesn't post to another server.
func TestForeignEndpoint(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.2:1/messages": "named an endpoint on another server, http://127.0.0.2:1: rejected",
		"//evil.example/messages":     "named an endpoint on another server",
		"https://127.0.0.1/messages":  "named an endpoint on another server",
		"%zz":                         "invalid endpoint address",
	} {
		p := &rawWeb{get: func(w http.ResponseWriter, r *http.Request) {
			stream(w)("event: endpoint\ndata: %s\n\n", endpoint)
			<-r.Context().Done()
		}}
		r := start(t, mcp.Hasten(mcp.Config{URL: p.serve(t), Type: "sse"}))
		s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
		if !strings.Contains(s.Health.Reason, want) {
			t.Errorf("reason %q, want %q", s.Health.Reason, want)
		}
		r.Close(t)
	}
}

// TestNoEndpoint checks that a stream that never names an endpoint is abandoned.
func TestNoEndpoint(t *testing.T) {
	p := &rawWeb{get: func(w http.ResponseWriter, r *http.Request) {
		for send := stream(w); r.Context().Err() == nil; time.Sleep(10 * time.Millisecond) { // a slow server
			send(": wait\n")
		}
	}}
	r := start(t, mcp.Config{URL: p.serve(t), Type: "sse", ConnectTimeout: 200 * time.Millisecond})
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if s.Health.Reason != "was not ready within 200ms" {
		t.Errorf("reason %q", s.Health.Reason)
	}
}

// TestNeither checks the error for a server that is no MCP server.
func TestNeither(t *testing.T) {
	w := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(w.Close)
	r := start(t, mcp.Hasten(mcp.Config{URL: w.URL}))
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if want := "speaks neither Streamable HTTP (answered 404 Not Found: 404 page not found) nor HTTP+SSE (answered " +
		"404 Not Found: 404 page not found)"; s.Health.Reason != want {
		t.Errorf("reason %q", s.Health.Reason)
	}
}

// TestUnreachable checks that an upstream keeps trying to reach a server that is down.
func TestUnreachable(t *testing.T) {
	w := httptest.NewServer(&rawWeb{asJSON: true})
	url := w.URL
	w.Close()
	r := start(t, mcp.Hasten(mcp.Config{URL: url}))
	s := r.Wait(t, "down", func(s upstream.Snapshot) bool { return s.Health.State == tool.Down })
	if !strings.Contains(s.Health.Reason, "can't be reached") {
		t.Errorf("reason %q", s.Health.Reason)
	}
}

// TestMirroredHeaders checks the headers that revision 2026-07-28 requires.
func TestMirroredHeaders(t *testing.T) {
	p := &rawWeb{mode: "modern", asJSON: true}
	r := startWebRaw(t, p)
	r.Ready(t)
	working(t, r)
	if _, err := r.Do(t.Context(), "smörgås", `{}`); kindOf(err) != tool.NotFound {
		t.Errorf("err = %v, want kindOf(err) == tool.NotFound", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []string
	for _, q := range p.requests {
		if q.Method != http.MethodPost || q.Header.Get("Mcp-Protocol-Version") != "2026-07-28" ||
			q.Header.Get("Mcp-Session-Id") != "" {
			t.Errorf("q.Method = %s, q.Header = %v", q.Method, q.Header)
		}
		got = append(got, q.Header.Get("Mcp-Method")+" "+q.Header.Get("Mcp-Name"))
	}
	if want := []string{"server/discover ", "tools/list ", "tools/call echo",
		"tools/call =?base64?c23DtnJnw6Vz?="}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("headers %q, want %q", got, want)
	}
}
