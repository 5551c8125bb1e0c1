package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

func TestHostsAndOrigins(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Hosts, cfg.Origins = []string{"biplane.example.com"}, []string{"https://app.example.com"}
	p := startHTTP(t, mcpserver.New(cfg), "2026-07-28")
	own := strings.TrimPrefix(p.url, "http://")
	_, port, _ := net.SplitHostPort(own)
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{own, "", 200},
		{"localhost:" + port, "", 200},
		{"LOCALHOST", "", 200},
		{"[::1]:" + port, "", 200},
		{"127.8.8.8", "", 200},
		{"biplane.example.com", "", 200},
		{"biplane.example.com:443", "https://biplane.example.com:443", 200},
		{own, "http://" + own, 200},
		{own, "https://app.example.com", 200},
		{"evil.example.com", "", 403},
		{"evil.example.com:" + port, "http://evil.example.com:" + port, 403},
		{"127.0.0.1.evil.example.com", "", 403},
		{"localhost.evil.example.com", "", 403},
		{own, "http://evil.example.com", 403},
		{own, "http://localhost:1", 403},
		{own, "null", 403},
		{own, "https://app.example.com.evil.example.com", 403},
	} {
		extra := map[string]string{"Host": c.host}
		if c.origin != "" {
			extra["Origin"] = c.origin
		}
		res := p.post(t, request(1, "tools/list", "", p.version), extra)
		if drain(t, res); res.StatusCode != c.want {
			t.Errorf("Host %s, Origin %s: %d", c.host, c.origin, res.StatusCode)
		}
	}
	// On a listener that others can reach, only pages named in the configuration are trusted.
	open := mcpserver.New(config(newDoor(), mcpserver.Code))
	defer open.Close()
	for origin, want := range map[string]int{"": 200, "http://biplane.lan": 403} {
		r := httptest.NewRequest("POST", "http://biplane.lan/mcp",
			strings.NewReader(request(1, "tools/list", "", p.version)))
		p.header(t, r.Header, `{"method":"tools/list"}`)
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		if open.Handler().ServeHTTP(w, r); w.Code != want {
			t.Errorf("Origin %q on an open listener: %d", origin, w.Code)
		}
	}
}

func TestHeaders(t *testing.T) {
	d := newDoor()
	d.handle("up.echo", func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(false, "ok"), nil })
	d.handle("up.wörk", func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text(false, "ok"), nil })
	p := startHTTP(t, mcpserver.New(config(d, mcpserver.Code)), "2026-07-28")
	list := request(1, "tools/list", "", p.version)
	call := func(args string) string {
		return request(1, "tools/call", `{"name":"up_echo","arguments":`+args+`}`, p.version)
	}
	for _, c := range []struct {
		body   string
		header map[string]string
		status int
		code   string // of the JSON-RPC error
	}{
		{list, nil, 200, ""},
		{list, map[string]string{"Mcp-Method": ""}, 400, "-32020"},
		{list, map[string]string{"Mcp-Method": "tools/call"}, 400, "-32020"},
		{list, map[string]string{"MCP-Protocol-Version": ""}, 400, "-32020"},
		{list, map[string]string{"MCP-Protocol-Version": "2025-11-25"}, 400, "-32020"},
		{list, map[string]string{"MCP-Protocol-Version": "2099-01-01"}, 400, "-32020"},
		{strings.Replace(list, p.version, "2099-01-01", 1), map[string]string{"MCP-Protocol-Version": "2099-01-01"},
			400, "-32022"},
		{strings.Replace(list, p.version, "1999-01-01", 1), map[string]string{"MCP-Protocol-Version": "1999-01-01"},
			400, "-32022"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, map[string]string{"MCP-Protocol-Version": "1999-01-01"},
			400, "-32022"},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`, nil, 400, "-32602"},
		{call(`{}`), nil, 200, ""},
		{call(`{}`), map[string]string{"Mcp-Name": ""}, 400, "-32020"},
		{call(`{}`), map[string]string{"Mcp-Name": "other"}, 400, "-32020"},
		{call(`{}`), map[string]string{"Mcp-Name": "=?base64?dXBfZWNobw==?="}, 200, ""},
		{call(`{}`), map[string]string{"Mcp-Name": "=?base64?!!!?="}, 400, "-32020"},
		{request(1, "tools/call", `{"name":"up.wörk"}`, p.version),
			map[string]string{"Mcp-Name": "=?base64?dXAud8O2cms=?="}, 200, ""},
		{call(`{"region":"eu"}`), map[string]string{"Mcp-Param-Region": "eu"}, 200, ""},
		{call(`{"region":"eu"}`), map[string]string{"Mcp-Param-Region": "=?base64?ZXU=?="}, 200, ""},
		{call(`{"region":"eu"}`), nil, 400, "-32020"},
		{call(`{"region":"eu"}`), map[string]string{"Mcp-Param-Region": "us"}, 400, "-32020"},
		{call(`{"region":"eu"}`), map[string]string{"Mcp-Param-Region": "=?base64?ZX?="}, 400, "-32020"},
		{call(`{}`), map[string]string{"Mcp-Param-Region": "eu"}, 400, "-32020"},
		{call(`{"region":null}`), nil, 200, ""},
	} {
		res := p.post(t, c.body, c.header)
		body := drain(t, res)
		code := ""
		if res.StatusCode != 200 {
			code = string(fieldOf(t, body, "error", "code"))
			if got := string(fieldOf(t, body, "id")); got != "1" {
				t.Errorf("id %s in %s", got, body)
			}
		}
		if res.StatusCode != c.status || code != c.code {
			t.Errorf("%s with %v: %d %s", c.body, c.header, res.StatusCode, body)
		}
	}
	res := p.post(t, strings.Replace(list, p.version, "2099-01-01", 1),
		map[string]string{"MCP-Protocol-Version": "2099-01-01"})
	if data := string(fieldOf(t, drain(t, res), "error", "data")); !strings.Contains(data, `"2025-11-25"`) ||
		!strings.Contains(data, `"requested":"2099-01-01"`) {
		t.Errorf("data: %s", data)
	}
	for _, method := range []string{"GET", "DELETE", "PUT", "OPTIONS"} {
		req, _ := http.NewRequest(method, p.url, nil)
		req.Header.Set("MCP-Protocol-Version", p.version)
		res, err := p.client.Do(req)
		if err != nil {
			t.Fatalf("Do: %v", err)
		}
		if drain(t, res); res.StatusCode != 405 || res.Header.Get("Allow") == "" {
			t.Errorf("method = %s, res.StatusCode = %d, want res.StatusCode == 405 && "+
				"res.Header.Get(\"Allow\") != \"\"", method, res.StatusCode)
		}
	}
}

func TestHostileBodies(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Limits.Body = 1 << 20
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		p := startHTTP(t, mcpserver.New(cfg), version)
		deep := strings.Repeat("[", 200_000)
		for _, c := range []struct {
			name, body string
			status     int
		}{
			{"large", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("a", 1<<20) + `"}}`,
				413},
			{"deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":` + deep + `}}`, 400},
			{"deep and valid", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":` + deep +
				strings.Repeat("]", 200_000) + `}}`, 400},
			{"empty", "", 400},
			{"not JSON", "hello", 400},
			{"a number", "17", 400},
			{"no version", `{"id":1,"method":"ping"}`, 400},
			{"null id", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, 400},
			{"id lost in a float", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, 400},
			{"broken id", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, 400},
			{"empty batch", `[]`, 400},
			{"batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 400},
		} {
			res := p.post(t, c.body, nil)
			if body := drain(t, res); res.StatusCode != c.status {
				t.Errorf("version = %s, %s, res.StatusCode = %d, body = %.200s, want res.StatusCode == "+
					"c.status", version, c.name, res.StatusCode, body)
			}
		}
		// A body of unknown length is limited, too.
		req, _ := http.NewRequest("POST", p.url, io.LimitReader(neverEnding('a'), 8<<20))
		p.header(t, req.Header, "")
		if res, err := p.client.Do(req); err == nil { // otherwise the server closed the connection first
			if drain(t, res); res.StatusCode != 413 {
				t.Errorf("chunked: %d", res.StatusCode)
			}
		}
	}
}

func TestSlowBodyIsGivenUp(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Limits.BodyTime = 50 * time.Millisecond
	p := startHTTP(t, mcpserver.New(cfg), "2026-07-28")
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
		"100\r\n\r\n{")
	if status, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(status, "408") {
		t.Errorf("slow body: %q, %v", status, err)
	}
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

func TestSessions(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Principal = func(r *http.Request) (tool.Principal, error) {
		id := r.Header.Get("X-User")
		if id == "nobody" {
			return tool.Principal{}, tool.Errorf(tool.Denied, "sign in first")
		}
		return tool.Principal{ID: "test:" + id}, nil
	}
	cfg.Limits.Sessions = 3
	p := startHTTP(t, mcpserver.New(cfg), "2025-11-25")
	list := request(1, "tools/list", "", p.version)
	status := func(body string, extra map[string]string) int {
		res := p.post(t, body, extra)
		drain(t, res)
		return res.StatusCode
	}
	if got := status(list, nil); got != 200 {
		t.Errorf("own session: %d", got)
	}
	if got := status(list, map[string]string{"X-User": "eve"}); got != 404 {
		t.Errorf("someone else's session: %d", got)
	}
	if got := status(list, map[string]string{"X-User": "nobody"}); got != 401 {
		t.Errorf("unknown caller: %d", got)
	}
	if got := status(list, map[string]string{"Mcp-Session-Id": "nonesuch"}); got != 404 {
		t.Errorf("unknown session: %d", got)
	}
	if got := status(list, map[string]string{"Mcp-Session-Id": ""}); got != 400 {
		t.Errorf("no session: %d", got)
	}
	initialize := request(1, "initialize",
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`, p.version)
	fresh := map[string]string{"Mcp-Session-Id": ""}
	broken := request(1, "initialize", `{"protocolVersion":7}`, p.version)
	for range 5 {
		status(broken, fresh) // must not occupy a slot
	}
	for i, want := range []int{200, 200, 503, 503} {
		if got := status(initialize, fresh); got != want {
			t.Errorf("session %d: %d", i+2, got)
		}
	}
	req, _ := http.NewRequest("DELETE", p.url, nil)
	req.Header.Set("Mcp-Session-Id", p.session)
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	if drain(t, res); res.StatusCode != 204 {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	if got := status(list, nil); got != 404 {
		t.Errorf("after DELETE: %d", got)
	}
	if got := status(initialize, fresh); got != 200 {
		t.Errorf("the place of a closed session: %d", got)
	}
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mcpserver.New(config(newDoor(), mcpserver.Code))
		defer s.Close()
		p := &httpPeer{version: "2025-11-25"}
		send := func(ctx context.Context, method, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, method, "http://biplane.lan/mcp", strings.NewReader(body))
			p.header(t, r.Header, body)
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			return w
		}
		p.session = send(t.Context(), "POST", request(0, "initialize",
			`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`,
			p.version)).Header().Get("Mcp-Session-Id")
		list := request(1, "tools/list", "", p.version)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan int)
		go func() { ended <- send(ctx, "GET", "").Code }()
		time.Sleep(24 * time.Hour)
		if got := send(t.Context(), "POST", list).Code; got != 200 {
			t.Errorf("a session with an open stream, after a day: %d", got)
		}
		cancel()
		if got := <-ended; got != 200 {
			t.Errorf("stream: %d", got)
		}
		time.Sleep(29 * time.Minute)
		if got := send(t.Context(), "POST", list).Code; got != 200 {
			t.Errorf("after 29 minutes: %d", got)
		}
		time.Sleep(31 * time.Minute)
		if got := send(t.Context(), "POST", list).Code; got != 404 {
			t.Errorf("after 31 minutes: %d", got)
		}
	})
}

func TestFloods(t *testing.T) {
	d := newDoor()
	hold := make(chan struct{})
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return tool.Text(false, "done"), nil
	})
	cfg := config(d, mcpserver.Code)
	cfg.Limits.Requests, cfg.Limits.Calls = 4, 2
	p := startHTTP(t, mcpserver.New(cfg), "2026-07-28")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() { p.call(t, "tools/call", `{"name":"up_echo"}`) })
	}
	eventually(t, "two calls are under way", func() bool { d.mu.Lock(); defer d.mu.Unlock(); return len(d.calls) == 2 })
	res, _ := p.call(t, "tools/call", `{"name":"up_echo"}`)
	if !strings.Contains(res, "2 calls are under way") || !strings.Contains(res, `"kind":"limit"`) {
		t.Errorf("third call: %s", res)
	}
	// Slow bodies occupy the other slots. Then no request is accepted, and refused ones don't wait
	// for their bodies.
	var refused atomic.Int32
	for range 8 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatalf("net.Dial: %v", err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		go func() {
			if status, _ := bufio.NewReader(conn).ReadString('\n'); strings.Contains(status, "503") {
				refused.Add(1)
			}
		}()
	}
	eventually(t, "six of eight slow bodies are refused", func() bool { return refused.Load() >= 6 })
	eventually(t, "a request is refused", func() bool {
		r := p.post(t, request(1, "tools/list", "", p.version), nil)
		drain(t, r)
		return r.StatusCode == 503 && r.Header.Get("Retry-After") != ""
	})
	close(hold)
	wg.Wait()
}

func TestBodiesAreBoundedTogether(t *testing.T) {
	cfg := config(newDoor(), mcpserver.Code)
	cfg.Limits.Memory = 1 << 10
	p := startHTTP(t, mcpserver.New(cfg), "2026-07-28")
	for range 3 { // the memory is released each time
		res := p.post(t, request(1, "tools/list", `{"x":"`+strings.Repeat("x", 1<<10)+`"}`, p.version), nil)
		if drain(t, res); res.StatusCode != 503 {
			t.Errorf("over the bound: %d", res.StatusCode)
		}
		res = p.post(t, request(1, "tools/list", `{"x":"`+strings.Repeat("x", 1<<8)+`"}`, p.version), nil)
		if drain(t, res); res.StatusCode != 200 {
			t.Errorf("within the bound: %d", res.StatusCode)
		}
	}
}

// TestDeleteCancels checks that the end of a session cancels its calls. A lost connection doesn't,
// since the client may reconnect (2025-11-25, basic/transports).
func TestDeleteCancels(t *testing.T) {
	d := newDoor()
	started, over := make(chan struct{}), make(chan struct{})
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(started)
		<-ctx.Done()
		close(over)
		return nil, ctx.Err()
	})
	p := startHTTP(t, mcpserver.New(config(d, mcpserver.Code)), "2025-11-25")
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "POST", p.url,
		strings.NewReader(request(99, "tools/call", `{"name":"up_echo"}`, p.version)))
	p.header(t, req.Header, "")
	go func() { <-started; cancel() }()
	if res, err := p.client.Do(req); err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if res, _ := p.call(t, "ping", ""); !strings.Contains(res, `"result":{}`) {
		t.Errorf("ping: %s", res)
	}
	select {
	case <-over:
		t.Error("a lost connection canceled the call")
	default:
	}
	req, _ = http.NewRequest("DELETE", p.url, nil)
	req.Header.Set("Mcp-Session-Id", p.session)
	res, err := p.client.Do(req)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	if drain(t, res); res.StatusCode != 204 {
		t.Errorf("DELETE: %d", res.StatusCode)
	}
	<-over
}

func TestDisconnectCancels(t *testing.T) {
	d := newDoor()
	started, over := make(chan struct{}), make(chan error, 1)
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		close(started)
		<-ctx.Done()
		over <- ctx.Err()
		return nil, ctx.Err()
	})
	p := startHTTP(t, mcpserver.New(config(d, mcpserver.Code)), "2026-07-28")
	ctx, cancel := context.WithCancel(t.Context())
	body := request(1, "tools/call", `{"name":"up_echo"}`, p.version)
	req, _ := http.NewRequestWithContext(ctx, "POST", p.url, strings.NewReader(body))
	p.header(t, req.Header, body)
	go func() { <-started; cancel() }()
	if res, err := p.client.Do(req); err == nil {
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
	if err := <-over; err == nil {
		t.Error("the call was not canceled")
	}
}

func TestListChanged(t *testing.T) {
	for _, mode := range []mcpserver.Mode{mcpserver.Direct, mcpserver.Code} {
		cfg := config(newDoor(), mode)
		cfg.Instructions = "instructions-of-the-test"
		cfg.Limits.WriteTime = 300 * time.Millisecond
		s := mcpserver.New(cfg)
		legacy := startHTTP(t, s, "2025-11-25")
		modern := dial(t, legacy.url, "2026-07-28")
		caps, _ := modern.call(t, "server/discover", "")
		if !strings.Contains(string(caps), "instructions-of-the-test") {
			t.Errorf("mode %s: %s, want the endpoint's instructions", mode, caps)
		}
		if got := string(fieldOf(t, caps, "result", "capabilities", "tools")); (got == `{"listChanged":true}`) != (mode == mcpserver.Direct) {
			t.Errorf("%s: capability %s", mode, got)
		}
		if mode == mcpserver.Code {
			s.NotifyTools() // no one to notify
			s.NotifyOffers()
			continue
		}
		stream, _ := http.NewRequestWithContext(t.Context(), "GET", legacy.url, nil)
		legacy.header(t, stream.Header, "")
		res, err := legacy.client.Do(stream)
		if err != nil {
			t.Fatalf("Do: %v", err)
		}
		defer res.Body.Close()
		listen := modern.post(t, request(9, "subscriptions/listen", `{"notifications":{"toolsListChanged":true,`+
			`"resourcesListChanged":true,"promptsListChanged":true}}`, modern.version), nil)
		defer listen.Body.Close()
		heard := bufio.NewReader(listen.Body)
		await(t, heard, "notifications/subscriptions/acknowledged")
		<-time.After(2 * cfg.Limits.WriteTime) // a stream may be silent for longer than one write may take
		s.NotifyTools()
		await(t, heard, "notifications/tools/list_changed")
		early := bufio.NewReader(res.Body)
		await(t, early, "notifications/tools/list_changed")
		for _, kind := range []string{"resources", "prompts"} { // one after the other: their order is not defined
			s.NotifyOffers()
			await(t, heard, "notifications/"+kind+"/list_changed")
			await(t, early, "notifications/"+kind+"/list_changed")
		}
	}
}

// await reads from a stream until a line contains text.
func await(t *testing.T, r *bufio.Reader, text string) {
	t.Helper()
	for {
		l, err := r.ReadString('\n')
		if strings.Contains(l, text) {
			return
		}
		if err != nil {
			t.Fatalf("no %s: %v", text, err)
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	d := newDoor()
	started := make(chan struct{}, 2)
	d.handle("up.echo", func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	s := mcpserver.New(config(d, mcpserver.Direct))
	srv := httptest.NewServer(s.Handler())
	defer srv.Close()
	legacy, modern := dial(t, srv.URL, "2025-11-25"), dial(t, srv.URL, "2026-07-28")
	stdio := startStdio(t, s, "2025-11-25")
	listen := modern.post(t, request(9, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`,
		modern.version), nil)
	var wg sync.WaitGroup
	for _, p := range []*httpPeer{legacy, modern} {
		wg.Go(func() {
			res := p.post(t, request(1, "tools/call", `{"name":"up_echo"}`, p.version), nil)
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
		})
	}
	<-started
	<-started
	s.Close()
	wg.Wait()
	io.Copy(io.Discard, listen.Body)
	listen.Body.Close()
	if err := <-stdio.done; err != nil {
		t.Errorf("stdio: %v", err)
	}
	res := modern.post(t, request(1, "tools/list", "", modern.version), nil)
	if drain(t, res); res.StatusCode != 503 {
		t.Errorf("after Close: %d", res.StatusCode)
	}
	eventually(t, "no goroutine is left", func() bool {
		buf := make([]byte, 1<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "go-sdk/") && !strings.Contains(stacks, "mcpserver.(*")
	})
	if err := s.ServeStdio(t.Context(), strings.NewReader(""), io.Discard); err == nil {
		t.Error("stdio after Close")
	}
}

// TestAnswerIsOneWrite checks that the answer to a call arrives as a complete response: its length
// is known, since nothing was sent before the handler returned. What comes before an answer is sent
// at once.
func TestAnswerIsOneWrite(t *testing.T) {
	d := newDoor()
	told := make(chan struct{})
	d.handle("up.echo", func(ctx context.Context, c *tool.Call) (*tool.Result, error) {
		if strings.Contains(string(c.Arguments), "slow") {
			c.Observer.OnProgress(ctx, tool.Progress{Done: 1, Message: "half"})
			<-told
		}
		return tool.Text(false, "ok"), nil
	})
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		p := startHTTP(t, mcpserver.New(config(d, mcpserver.Direct)), version)
		res := p.post(t, request(7, "tools/call", `{"name":"up_echo","arguments":{"text":"fast"}}`, version), nil)
		if n := res.ContentLength; n <= 0 {
			t.Errorf("%s: the answer has the length %d, want its exact length", version, n)
		}
		if body := drain(t, res); !strings.Contains(body, `"ok"`) {
			t.Errorf("%s: got %s, want the result", version, body)
		}
		res = p.post(t, request(8, "tools/call",
			`{"name":"up_echo","arguments":{"text":"slow"},"_meta":{"progressToken":1}}`, version), nil)
		r := bufio.NewReader(res.Body)
		await(t, r, "half") // the call ends after it was read
		told <- struct{}{}
		await(t, r, `"ok"`)
		_ = res.Body.Close()
	}
}
