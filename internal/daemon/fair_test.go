package daemon_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// slowBody opens a connection with a request whose body never ends, and waits until the server
// starts to read it.
func slowBody(t *testing.T, d *daemon.Daemon, header ...string) net.Conn {
	t.Helper()
	conn := dial(t, d)
	request := strings.Join(header, "\r\n") + "\r\nHost: " + d.Addr() +
		"\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatalf("io.WriteString: %v", err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("header[0] = %s, line = %q, err = %v, want err == nil && strings.Contains(line, \"100 "+
			"Continue\")", header[0], line, err)
	}
	if _, err := io.WriteString(conn, "{"); err != nil {
		t.Fatalf("io.WriteString: %v", err)
	}
	return conn
}

func dial(t *testing.T, d *daemon.Daemon) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.Addr())
	if err != nil {
		t.Fatalf("DialContext: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// works fails the test unless all users except eve are served, and eve can be stopped.
func works(t *testing.T, d *daemon.Daemon, ann, boss string) {
	t.Helper()
	if x, err := clientOf(d, ann).Run(t.Context(), api.RunRequest{Code: "return 6 * 7"}); err != nil ||
		string(x.Value) != "42" {
		t.Errorf("a program of ann: %+v, %v", x, err)
	}
	a, err := agent(t, d, ann)
	if err != nil {
		t.Errorf("ann connects: %v", err)
	} else if text, err := call(t, a, "execute",
		map[string]any{"code": "return await tools.peer.echo({ n: 5 })"}); err != nil || !strings.Contains(text, "5") {
		t.Errorf("ann's agent: %s, %v", text, err)
	}
	b := newBrowser(t, d)
	if status, path, page := b.do(t, http.MethodPost, "/sign-in", url.Values{"key": {boss}, "next": {"/approvals"}},
		nil); status != http.StatusOK || !strings.HasPrefix(path, "/approvals") {
		t.Errorf("the page of approvals: %d at %s: %s", status, path, page)
	}
	if resp, err := http.Get(d.URL() + "/healthz"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("health: %+v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	if _, err := clientOf(d, boss).Approvals().Decide(t.Context(), "apr_none",
		api.Decision{Approve: true}); err == nil ||
		!strings.Contains(err.Error(), "apr_none") {
		t.Errorf("a decision: %v", err)
	}
	if _, err := d.Client().Executions(t.Context(), api.ExecutionFilter{}); err != nil {
		t.Errorf("the command line lists executions: %v", err)
	}
	if _, err := d.Client().Keys().Revoke(t.Context(), "eve"); err != nil {
		t.Errorf("eve's key can't be revoked: %v", err)
	}
}

func fair(t *testing.T) (d *daemon.Daemon, p *peer, eve, ann, boss string) {
	t.Helper()
	p = newPeer(t)
	t.Cleanup(func() { // once the daemon has stopped
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, w := range p.waiting {
			close(w)
		}
	})
	d, stop := run(t, t.TempDir(), "auth: { keys: true }\nmcpServers: { peer: { url: '"+p.URL+"' } }")
	t.Cleanup(stop)
	both := []string{"mcp", "api"}
	eve, ann = makeKey(t, d, api.KeyRequest{Name: "eve", Scopes: both}),
		makeKey(t, d, api.KeyRequest{Name: "ann", Scopes: both})
	return d, p, eve, ann, makeKey(t, d, api.KeyRequest{Name: "boss", Scopes: both, Roles: []string{"admin"}})
}

func TestSlowBodiesOfAStranger(t *testing.T) {
	t.Parallel()
	d, _, _, ann, boss := fair(t)
	for range 300 {
		slowBody(t, d, "POST /sign-in HTTP/1.1", "Content-Type: application/x-www-form-urlencoded", "Origin: "+d.URL(),
			"Sec-Fetch-Site: same-origin")
	}
	for range 300 { // headers that never end, and silent connections
		if _, err := io.WriteString(dial(t, d), "POST /sign-in HTTP/1.1\r\nHost: "); err != nil {
			t.Fatalf("io.WriteString: %v", err)
		}
		dial(t, d)
	}
	works(t, d, ann, boss)
}

func TestSlowBodiesOfAPrincipal(t *testing.T) {
	t.Parallel()
	d, _, eve, ann, boss := fair(t)
	for _, path := range []string{"/api/v1/executions", "/mcp"} {
		for range 280 {
			slowBody(t, d, "POST "+path+" HTTP/1.1", "Content-Type: application/json",
				"Accept: application/json, text/event-stream", "Authorization: Bearer "+eve)
		}
	}
	works(t, d, ann, boss)
}

// TestManyProgramsOfAPrincipal checks that waiting programs of one principal leave slots for those
// of others, and that the error names whose limit was reached.
func TestManyProgramsOfAPrincipal(t *testing.T) {
	t.Parallel()
	d, _, eve, ann, boss := fair(t)
	const most, more = 256, 20
	refused := make(chan string, most+more)
	for range most + more {
		go func() {
			_, err := clientOf(d, eve).Run(t.Context(),
				api.RunRequest{Code: "return await tools.peer.meet({ n: 100000 })"})
			refused <- fmt.Sprint(err)
		}()
	}
	for range more {
		if why := <-refused; !strings.Contains(why, "which is your share of the gateway's 256") {
			t.Fatalf(`why = %v, want strings.Contains(why, "which is your share of the gateway's 256")`, why)
		}
	}
	works(t, d, ann, boss)
}
