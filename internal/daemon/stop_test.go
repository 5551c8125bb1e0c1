package daemon_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// held waits until n calls of meet wait for others.
func (p *peer) held(t *testing.T, n int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(30 * time.Second); ; {
		p.mu.Lock()
		waiting := len(p.waiting)
		p.mu.Unlock()
		if waiting == n {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%d calls wait, want %d", waiting, n)
		}
	}
}

// release ends the calls of meet.
func (p *peer) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		close(w)
	}
	p.waiting = nil
}

const meeting = `{"name":"peer.meet","arguments":{"n":99}}`

// modernCall calls a tool over HTTP, in the era without sessions, and gives the status and the body.
func modernCall(t *testing.T, url, tool string, id int) (int, string) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}}`
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"name":%q,"arguments":{"n":99}}}`, id, meta, tool)
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		req.Header.Set(k, v)
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(text)
}

// TestStopLetsCallsEnd stops the daemon while a call over HTTP and a program are under way: both are answered, and new
// ones are refused.
func TestStopLetsCallsEnd(t *testing.T) {
	p := newPeer(t)
	d, stop := run(t, t.TempDir(), "mcpServers: { peer: { url: '"+p.URL+"' } }")
	d.Upstreams(t.Context())
	url := "http://" + d.Addr()
	type answer struct {
		status int
		text   string
	}
	call, program := make(chan answer, 1), make(chan string, 1)
	go func() {
		status, text := modernCall(t, url+"/mcp", "peer.meet", 1)
		call <- answer{status, text}
	}()
	c := &api.Client{Base: url, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	go func() {
		x, err := c.Run(context.Background(), api.RunRequest{Code: `(await callTool("peer.meet", { n: 99 })).n`})
		if err != nil {
			program <- err.Error()
			return
		}
		program <- string(x.Value)
	}()
	p.held(t, 2)
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	for deadline := time.Now().Add(4 * time.Second); ; { // longer, and those under way are ended; until the end has begun, echo answers at once
		if status, text := modernCall(t, url+"/mcp", "peer.echo", 2); status == 503 && strings.Contains(text, "biplane is stopping") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("new calls are not refused")
		}
	}
	if _, err := c.Run(t.Context(), api.RunRequest{Code: "1"}); err == nil || !strings.Contains(err.Error(), "biplane is stopping") {
		t.Errorf("a new program: %v", err)
	}
	p.release()
	if a := <-call; a.status != 200 || !strings.Contains(a.text, `99`) || strings.Contains(a.text, "stopping") {
		t.Errorf("%d %s", a.status, a.text)
	}
	if text := <-program; text != "99" {
		t.Errorf("the program gave %s", text)
	}
	<-stopped
}

// An agentPipe is an agent at the other end of ServeMCP.
type agentPipe struct {
	in     *io.PipeWriter
	lines  *bufio.Scanner
	cancel context.CancelFunc
	done   chan error
}

func newAgent(t *testing.T, cfg daemon.Config) *agentPipe {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	a := &agentPipe{in: inW, lines: bufio.NewScanner(outR), cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := daemon.ServeMCP(ctx, cfg, inR, outW)
		outW.Close()
		a.done <- err
	}()
	t.Cleanup(func() { cancel(); inW.Close(); outR.Close() })
	a.send(t, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	if text := a.read(t); !strings.Contains(text, "serverInfo") {
		t.Fatal(text)
	}
	a.send(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

func (a *agentPipe) send(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(a.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

func (a *agentPipe) read(t *testing.T) string {
	t.Helper()
	if !a.lines.Scan() {
		t.Fatalf("no answer: %v", a.lines.Err())
	}
	return a.lines.Text()
}

// TestStopAnswersOverStdio ends `biplane mcp` while a call is under way, in the process that owns the data folder and in
// one that passes messages to it: the call is answered, in time or with the reason.
func TestStopAnswersOverStdio(t *testing.T) {
	for _, relayed := range []bool{false, true} {
		for _, inTime := range []bool{true, false} {
			t.Run(fmt.Sprintf("relayed=%v/in time=%v", relayed, inTime), func(t *testing.T) {
				p, dir := newPeer(t), t.TempDir()
				text := "policy: open\nmcpServers: { peer: { url: '" + p.URL + "' } }"
				s, err := config.Parse(filepath.Join(dir, "biplane.yaml"), []byte(text), env)
				if err != nil {
					t.Fatal(err)
				}
				if relayed {
					run(t, dir, text)
				}
				a := newAgent(t, daemon.Config{Settings: s, DataDir: dir, Version: "test"})
				a.send(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+meeting+`}`)
				p.held(t, 1)
				a.cancel()
				if inTime {
					// That nothing more is taken says that the end has begun.
					for i := 2; ; i++ {
						a.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"peer.echo","arguments":{"n":1}}}`, i))
						if strings.Contains(a.read(t), "biplane is stopping") {
							break
						}
					}
					p.release()
				}
				want := `"id":1,"result"`
				if !inTime {
					want = "biplane is stopping: the "
				}
				if text := a.read(t); !strings.Contains(text, want) || strings.Contains(text, "stopping") == inTime {
					t.Errorf("%s", text)
				}
				if err := <-a.done; err != nil {
					t.Error(err)
				}
				p.release() // what the owner of the folder still waits for
			})
		}
	}
}

// TestProgramsWaitForTheirUpstreams has an upstream that never answers: only programs that may use it wait for it.
func TestProgramsWaitForTheirUpstreams(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := newPeer(t)
	d, _ := run(t, t.TempDir(), fmt.Sprintf("start_wait: 60s\nmcpServers: { si-lent: { url: 'http://%s/mcp' }, peer: { url: '%s' } }", l.Addr(), p.URL))
	// These answer long before start_wait is over, or the test takes too long.
	for code, want := range map[string]string{"1+1": "2", `(await peer.echo({ n: 7 })).n`: "7"} {
		if x := execute(t, d.Client(), code); string(x.Value) != want {
			t.Errorf("%s gave %s %+v", code, x.Value, x.Error)
		}
	}
	for _, r := range []api.RunRequest{
		{Code: "si_lent.x({})"}, {Code: `"si-lent"`}, {Code: `callTool("a" + "b", {})`}, {Code: "1", Session: "s"}, {Code: "Object.keys(globalThis)"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if x, err := d.Client().Run(ctx, r); err == nil {
			t.Errorf("%+v did not wait, and gave %s", r, x.Value)
		}
		cancel()
	}
}
