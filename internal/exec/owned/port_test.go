//go:build linux

package owned_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/network"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A witness denies all connections, and notes on whose behalf they were. It also makes links.
type witness struct{ users chan string }

func (w *witness) ReachesHost(*tool.Call, string) bool { return true }

func (w *witness) PermitsConnection(*tool.Call) bool { return false }

func (w *witness) Call(_ context.Context, c *tool.Call) (*tool.Result, error) {
	w.users <- c.Principal.Agent
	return nil, tool.NotSent(tool.Errorf(tool.Denied, "nothing is permitted"))
}

func (w *witness) MakeLink(*tool.Call, *owned.Record, int, time.Duration) (string, time.Time, error) {
	return "link", time.Time{}, nil
}

// TestPreviewUser checks that a sandbox makes connections on behalf of who used it last: by a
// command, by making a link to a port, or by a link.
func TestPreviewUser(t *testing.T) {
	w := &witness{make(chan string, 10)}
	r := newRigWith(t, owned.Config{Limits: owned.Limits{Previews: time.Hour}, Previews: w, MeasureEach: time.Hour,
		Egress: owned.Egress{Network: network.NewNetwork(network.Config{Ports: []int{80}}), Hosts: w, Door: w}})
	use := func(agent, name, args string) {
		t.Helper()
		if _, err := r.CallTool(t.Context(), &tool.Call{Path: "biplane.sandbox_" + name, Arguments: []byte(args),
			Tool:      &tool.Tool{Upstream: tool.Own, Name: "sandbox_" + name},
			Principal: tool.Principal{ID: "ann", Agent: agent}}); err != nil {
			t.Fatalf("%s %s: %v", name, args, err)
		}
	}
	const curl = "curl -s --noproxy '' -x http://127.0.0.1:3128 http://a.test/"
	server := fmt.Sprintf(`import http.server, os
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        os.system("%s > reply")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 8000), H).serve_forever()`, curl)
	check := func(what, want string) {
		t.Helper()
		select {
		case got := <-w.users:
			if got != want {
				t.Errorf("%s: a connection on behalf of %q, want %q", what, got, want)
			}
		default:
			t.Errorf("%s: no connection", what)
		}
		for len(w.users) > 0 { // of the same command
			<-w.users
		}
	}
	use("one", "create", `{"name":"a","network":true}`)
	use("one", "run", fmt.Sprintf(`{"sandbox":"a","command":%q}`, curl+"; true"))
	check("a command", "one")
	use("one", "write", fmt.Sprintf(`{"sandbox":"a","path":"s.py","text":%q}`, server))
	use("one", "start", `{"sandbox":"a","command":"python3 s.py"}`)
	use("one", "run", `{"sandbox":"a","command":"until curl -s -o /dev/null -I http://127.0.0.1:8000; do :; done"}`)
	use("two", "preview", `{"sandbox":"a","port":8000}`)
	use("one", "run", fmt.Sprintf(`{"sandbox":"a","command":%q}`, curl+"; true"))
	check("a command after a link", "one")
	use("two", "preview", `{"sandbox":"a","port":8000}`)
	for _, agent := range []string{"two", "three"} { // by that link, and by one of another's
		conn, err := r.DialPort(t.Context(), tool.Principal{ID: "ann", Agent: agent}, "a", 8000)
		if err != nil {
			t.Fatalf("DialPort: %v", err)
		}
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatalf("send a request: %v", err)
		}
		if b, err := io.ReadAll(conn); err != nil || !strings.HasPrefix(string(b), "HTTP/1.0 200") {
			t.Fatalf("the page is %q, %v", b, err)
		}
		if err := conn.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		check("a visitor", agent)
	}
	if _, err := r.DialPort(t.Context(), tool.Principal{ID: "bob"}, "a", 8000); err == nil {
		t.Error("another principal has reached a port")
	}
}

// TestRepeatedNotes checks that an answer has a note once, however often a command causes it.
func TestRepeatedNotes(t *testing.T) {
	w := &witness{make(chan string, 10)}
	r := newRigWith(t, owned.Config{MeasureEach: time.Hour,
		Egress: owned.Egress{Network: network.NewNetwork(network.Config{Ports: []int{80}}), Hosts: w, Door: w}})
	r.mustCall("create", map[string]any{"name": "a", "network": true})
	out := r.mustCall("run", map[string]any{"sandbox": "a",
		"command": "for i in 1 2 3; do curl -s -o /dev/null http://a.test/; done"})
	notes, _ := out["notes"].([]any)
	if len(w.users) != 3 || len(notes) != 1 {
		t.Errorf("%d connections and notes %q, want 3 and one note", len(w.users), notes)
	}
}
