package daemon_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/biplane-dev/biplane/api"
)

// newOwnRig returns a daemon with process sandboxes, more configuration and policies, and a client.
func newOwnRig(t *testing.T, policies, more string) (*tierRig, api.SandboxClient) {
	t.Helper()
	r := newProcessRig(t, inProcesses)
	r.stop()
	r.more = more
	r.start(inProcesses+policies, nil)
	return r, r.d.Client().OwnSandboxes()
}

// TestOwnSandboxNetwork checks that policy decides on the connections of a sandbox of one's own,
// that each is on the record, and that a sandbox without a network has none.
func TestOwnSandboxNetwork(t *testing.T) {
	t.Parallel()
	url, hits := web(t)
	r, c := newOwnRig(t, `
@id("web") permit (principal, action == Action::"connect", resource == Host::"127.0.0.1")
when { context.method == "GET" && context.path == "/json" };`, "network: { private: [127.0.0.0/8] }\n")
	for _, q := range []api.OwnSandboxRequest{{Name: "open", Network: true}, {Name: "closed"}} {
		s, err := c.CreateSandbox(t.Context(), q)
		if err != nil || s.Network != q.Network {
			t.Fatalf("CreateSandbox: %+v, %v", s, err)
		}
	}
	const curl = "curl -sS --noproxy '' -x http://127.0.0.1:3128 "
	for _, x := range []struct{ name, command, want, note string }{
		{"open", curl + url + "/json", "41", ""},
		{"open", "env | grep -c _proxy=", "3", ""},
		{"open", curl + url + "/other", "is denied by policy none", "smallest policy that would: permit"},
		{"open", curl + "-d x " + url + "/json", "is denied by policy none", "biplane.send is denied"},
		{"open", curl + "http://other.example/", `Host::"other.example"`, "other.example"},
		{"closed", curl + url + "/json 2>&1", "Failed to connect", ""},
	} {
		v, err := c.UseSandbox(t.Context(), x.name, "run", api.SandboxOperation{Command: x.command})
		if err != nil {
			t.Fatalf("%s: %v", x.command, err)
		}
		if notes := strings.Join(v.Notes, "; "); !strings.Contains(v.Stdout, x.want) ||
			!strings.Contains(notes, x.note) || x.note == "" && notes != "" {
			t.Errorf("%s: %q, %q, notes %q; want %q, and the note %q", x.command, v.Stdout, v.Stderr, notes, x.want,
				x.note)
		}
	}
	if n := hits.Load(); n != 1 {
		t.Errorf("the server received %d requests, want 1", n)
	}
	records, err := r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "call"})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	seen := map[string]int{}
	for _, rec := range records {
		if strings.HasPrefix(rec.Call, "sb_") {
			seen[rec.Tool+" "+rec.Effect]++
		}
	}
	if seen["biplane.fetch allow"] != 1 || seen["biplane.fetch deny"] != 2 || seen["biplane.send deny"] != 1 {
		t.Errorf("the record has %v, want each connection", seen)
	}
}

// TestOwnSandboxBudget checks that a budget of a destination ends a connection, says which budget
// it is, and is on the record.
func TestOwnSandboxBudget(t *testing.T) {
	t.Parallel()
	url, _ := web(t)
	r, c := newOwnRig(t, `
permit (principal, action == Action::"connect", resource);`, `network: { private: [127.0.0.0/8] }
limits: [{ what: egress, max: 20000, window: 1h, per: host, hosts: "127.*" }]
`)
	if _, err := c.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "a", Network: true}); err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	run := func(command string) *api.SandboxAnswer {
		t.Helper()
		v, err := c.UseSandbox(t.Context(), "a", "run", api.SandboxOperation{Command: command})
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return v
	}
	const send = "head -c %d /dev/zero | curl -sS --noproxy '' -x http://127.0.0.1:3128 --data-binary @- %s/x 2>&1"
	if v := run(fmt.Sprintf(send, 1000, url)); !strings.HasPrefix(v.Stdout, "POST ") {
		t.Errorf("within the budget: %q, notes %q", v.Stdout, v.Notes)
	}
	const want = "over the limit of 20000 bytes sent in 1 h with 127.* for each host, used up for 127.0.0.1"
	for range 2 { // during the request, and before the next one
		if v := run(fmt.Sprintf(send, 300_000, url)); !strings.Contains(strings.Join(v.Notes, "; "), want) {
			t.Errorf("over the budget: %q, notes %q, want %q", v.Stdout, v.Notes, want)
		}
	}
	records, err := r.d.Client().Audit().ListRecords(t.Context(), api.AuditQuery{Kind: "call", Tool: "biplane.send"})
	if err != nil {
		t.Fatalf("AuditRecords: %v", err)
	}
	failed := 0
	for _, rec := range records {
		if rec.ErrorKind == "limit" {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("the record has %d calls over a limit, want 2", failed)
	}
}

// TestOwnSandboxHeaderBudget checks that headers count as bytes that are sent and received.
func TestOwnSandboxHeaderBudget(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 8000)
	hits := atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		hits.Add(1)
		if q.URL.Path == "/in" {
			w.Header().Set("X-Long", long)
		}
	}))
	defer s.Close()
	const curl = "for i in 1 2 3 4 5 6 7 8; do curl -sS --noproxy '' -x http://127.0.0.1:3128 -o out "
	for _, x := range []struct{ what, rest, want string }{
		{"ingress", s.URL + "/in", "bytes received"},
		{"egress", `-H "X-Long: ` + long + `" ` + s.URL + "/out", "bytes sent"},
	} {
		_, c := newOwnRig(t, `
permit (principal, action == Action::"connect", resource) when { context.method == "GET" };`,
			"network: { private: [127.0.0.0/8] }\nlimits: [{ what: "+x.what+", max: 20000, window: 1h, per: host }]\n")
		if _, err := c.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "a", Network: true}); err != nil {
			t.Fatalf("CreateSandbox: %v", err)
		}
		hits.Store(0)
		v, err := c.UseSandbox(t.Context(), "a", "run", api.SandboxOperation{Command: curl + x.rest + "; done"})
		if err != nil {
			t.Fatalf("run: %v", err)
		}
		notes := strings.Join(v.Notes, "; ")
		if n := hits.Load(); n > 3 || !strings.Contains(notes, "over the limit of 20000 "+x.want) {
			t.Errorf("%s: %d requests arrived, notes %q", x.want, n, v.Notes)
		}
	}
}

// TestOwnSandboxLimits checks that rules on calls and on executions hold for sandboxes of one's
// own.
func TestOwnSandboxLimits(t *testing.T) {
	t.Parallel()
	_, c := newOwnRig(t, "", `limits:
  - { what: calls, max: 3, window: 1h, tools: "biplane.sandbox_stat" }
  - { what: executions, max: 2, window: 1h }
`)
	if _, err := c.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "a"}); err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	for op, most := range map[string]int{"stat": 3, "run": 2} {
		o := api.SandboxOperation{Path: "."}
		if op == "run" {
			o = api.SandboxOperation{Command: "true"}
		}
		for i := range most + 1 {
			_, err := c.UseSandbox(t.Context(), "a", op, o)
			if over := err != nil && strings.Contains(err.Error(), "over the limit of"); over != (i == most) {
				t.Errorf("%s number %d: %v", op, i+1, err)
			}
		}
	}
}

// TestOwnSandboxPreview opens a server in a sandbox by a link, and attacks Biplane from it.
func TestOwnSandboxPreview(t *testing.T) {
	t.Parallel()
	r, c := newOwnRig(t, "", "sandboxes: { previews: 1h }\n")
	s, err := c.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "a"})
	if err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	const server = `import http.server, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Set-Cookie", "evil=1; Path=/")
        self.end_headers()
        self.wfile.write((self.path + " " + str(self.headers.get("Cookie"))).encode())
s = http.server.HTTPServer(("127.0.0.1", 8000), H)
print("ready", flush=True)
s.serve_forever()`
	v, err := c.UseSandbox(t.Context(), "a", "start", api.SandboxOperation{Argv: []string{"python3", "-c", server}})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	logs, err := c.UseSandbox(t.Context(), "a", "logs", api.SandboxOperation{Process: v.Process.ID, WaitSeconds: 60})
	if err != nil || logs.Text != "ready\n" {
		t.Fatalf("the server did not start: %+v, %v", logs, err)
	}
	v, err = c.UseSandbox(t.Context(), "a", "preview", api.SandboxOperation{Port: 8000})
	if err != nil || !strings.HasPrefix(v.URL, r.d.URL()+"/previews/"+s.ID+"/8000/") {
		t.Fatalf("preview: %+v, %v", v, err)
	}
	q, err := http.NewRequestWithContext(t.Context(), "GET", v.URL+"x?y=1", nil)
	if err != nil {
		t.Fatalf("NewRequest: %v", err)
	}
	q.Header.Set("Cookie", "biplane=secret")
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if string(body) != "/x?y=1 None" || resp.Header.Get("Set-Cookie") != "" ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "sandbox ") {
		t.Errorf("the page is %q, %v", body, resp.Header)
	}
	attackFromPage(t, r.d.URL())
	if _, err := c.UseSandbox(t.Context(), "a", "preview", api.SandboxOperation{Port: 70000}); err == nil {
		t.Error("a link to port 70000")
	}
	shown, err := c.ShowSandbox(t.Context(), "a")
	if err != nil || strings.Join(shown.Labels, " ") != "untrusted" {
		t.Errorf("the sandbox has the labels %v, %v; want untrusted", shown.Labels, err)
	}
	if err := c.EndSandbox(t.Context(), "a"); err != nil {
		t.Fatalf("EndSandbox: %v", err)
	}
	resp, err = http.Get(v.URL)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusBadGateway {
		t.Errorf("after the end of the sandbox: %s", resp.Status)
	}
}

// attackFromPage sends what a page of an opaque origin could send to Biplane.
func attackFromPage(t *testing.T, base string) {
	t.Helper()
	for _, a := range []struct{ method, path, kind string }{
		{"POST", "/api/v1/executions", "application/json"}, {"POST", "/api/v1/executions", "text/plain"},
		{"GET", "/api/v1/status", ""}, {"POST", "/mcp", "application/json"}, {"POST", "/approvals/x", "text/plain"},
		{"OPTIONS", "/api/v1/executions", ""}, {"DELETE", "/api/v1/me/sandboxes/a", ""},
	} {
		q, err := http.NewRequestWithContext(t.Context(), a.method, base+a.path, strings.NewReader(`{"code":"1"}`))
		if err != nil {
			t.Fatalf("NewRequest: %v", err)
		}
		q.Header.Set("Origin", "null")
		q.Header.Set("Sec-Fetch-Site", "cross-site")
		if a.kind != "" {
			q.Header.Set("Content-Type", a.kind)
		}
		resp, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatalf("%s %s: %v", a.method, a.path, err)
		}
		if resp.Body.Close(); resp.StatusCode < 400 || resp.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s %s from a page of a preview: %s, %v", a.method, a.path, resp.Status, resp.Header)
		}
	}
}

// TestOwnSandboxPreviewOff checks that there are no previews unless they are configured.
func TestOwnSandboxPreviewOff(t *testing.T) {
	t.Parallel()
	r, c := newOwnRig(t, "", "")
	if _, err := c.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "a"}); err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	_, err := c.UseSandbox(t.Context(), "a", "preview", api.SandboxOperation{Port: 8000})
	if err == nil || !strings.Contains(err.Error(), "previews are off") {
		t.Errorf("preview: %v, want an error that says that they are off", err)
	}
	u, err := url.Parse(r.d.URL())
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /previews/sb_a/8000/x/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", u.Host)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("a path of a preview: %+v, %v", resp, err)
	}
}
