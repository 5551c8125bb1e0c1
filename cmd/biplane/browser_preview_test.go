package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/biplane-dev/biplane/api"
)

// previewServer is a program that serves a page with a script. The script loads data, talks over a
// WebSocket, and attacks: it looks for what belongs to Biplane's origin, and contacts the host of
// its first argument.
const previewServer = `import base64, hashlib, http.server, sys
PAGE = """<!doctype html><title>page</title><p id=inline>none</p><script src=app.js></script>
<script>document.querySelector("#inline").textContent = "inline"</script>"""
APP = """
const out = {};
const attempt = async (name, f) => { try { out[name] = String(await f()) } catch (e) { out[name] = "failed" } };
addEventListener("load", async () => {
  await attempt("origin", () => self.origin);
  await attempt("data", async () => (await fetch("data.json?x=1")).text());
  await attempt("socket", () => new Promise((done, fail) => {
    const s = new WebSocket(new URL("socket", location.href).href.replace("http", "ws"));
    s.onmessage = e => done(e.data);
    s.onerror = fail;
  }));
  await attempt("cookies", () => document.cookie);
  await attempt("storage", () => localStorage.length);
  await attempt("api", async () => (await fetch("/api/v1/status", { credentials: "include" })).text());
  await attempt("console", async () => (await fetch("/", { credentials: "include" })).text());
  await attempt("post", async () => (await fetch("/api/v1/executions", { method: "POST", credentials: "include",
    body: '{"code":"1"}' })).text());
  await attempt("window", () => open("/").document.title);
  await attempt("other", () => fetch("OTHER", { mode: "no-cors" }));
  await attempt("image", () => new Promise((done, fail) => {
    const i = new Image();
    i.onload = done;
    i.onerror = fail;
    i.src = "OTHER";
  }));
  const p = document.createElement("pre");
  p.id = "result";
  p.textContent = Object.entries(out).map(e => e.join("=")).join("\\n");
  document.body.append(p);
});
""".replace("OTHER", sys.argv[1])
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Upgrade") == "websocket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.wfile.write(("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                "Sec-WebSocket-Accept: " + base64.b64encode(hashlib.sha1(key.encode()).digest()).decode() +
                "\r\n\r\n").encode())
            text = ("frame " + str(self.headers.get("Cookie"))).encode()
            self.wfile.write(bytes([0x81, len(text)]) + text)
            self.close_connection = True
            return
        kind, text = "text/html", PAGE
        if self.path == "/app.js":
            kind, text = "text/javascript", APP
        elif self.path != "/":
            kind, text = "application/json", self.path + " " + str(self.headers.get("Cookie"))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(text.encode())
s = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), H)
print("ready", flush=True)
s.serve_forever()`

// TestBrowserPreview opens a server in a sandbox in a real browser whose user is signed in to the
// console. The page works, and reaches nothing of Biplane and no other host.
func TestBrowserPreview(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	browserPath(t)
	if !canRunProcesses() {
		t.Skip("process sandboxes can't run here")
	}
	t.Parallel()
	var hits atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer other.Close()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "policies", "p.cedar"),
		`@tier("process") permit (principal, action == Action::"execute", resource);
permit (principal, action == Action::"call", resource); permit (principal, action, resource is File);`, 0o600)
	r := serveProcess(t, dir, "sandbox: { host_packages: true }\npolicy: ./policies\nauth: { keys: true }\n"+
		"sandboxes: { previews: 1h }\n", "127.0.0.1:0")
	c := r.client.OwnSandboxes()
	if _, err := c.CreateSandbox(t.Context(), api.OwnSandboxRequest{Name: "a"}); err != nil {
		t.Fatalf("CreateSandbox: %v", err)
	}
	v, err := c.UseSandbox(t.Context(), "a", "start", api.SandboxOperation{
		Argv: []string{"python3", "-c", previewServer, other.URL}})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	logs, err := c.UseSandbox(t.Context(), "a", "logs", api.SandboxOperation{Process: v.Process.ID, WaitSeconds: 60})
	if err != nil || logs.Text != "ready\n" {
		t.Fatalf("the server did not start: %+v, %v", logs, err)
	}
	if v, err = c.UseSandbox(t.Context(), "a", "preview", api.SandboxOperation{Port: 8000}); err != nil {
		t.Fatalf("preview: %v", err)
	}
	b := newChrome(t, r.base)
	boss := r.createKey(t, "boss", "admin", "user")
	b.signIn(t, boss)
	var inline, result string
	b.do(t, b.ctx, chromedp.Navigate(v.URL), chromedp.WaitVisible("#result"), chromedp.Text("#inline", &inline),
		chromedp.Text("#result", &result))
	want := []string{"origin=null", "data=/data.json?x=1 None", "socket=frame None", "cookies=failed", "storage=failed",
		"api=failed", "console=failed", "post=failed", "window=failed", "other=failed", "image=failed"}
	got := strings.Split(strings.TrimSpace(result), "\n")
	if fmt.Sprint(got) != fmt.Sprint(want) || inline != "inline" {
		t.Errorf("the page reports %q, its script %q; want %q", got, inline, want)
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("another host received %d requests", n)
	}
	page, err := r.client.Executions(t.Context(), api.ExecutionFilter{})
	if err != nil || len(page.Executions) != 0 {
		t.Errorf("the page has run %d programs, %v", len(page.Executions), err)
	}
	b.do(t, b.ctx, chromedp.Navigate(r.base+"/"), chromedp.WaitVisible("header .who")) // still signed in
	b.useSandbox(t, r.withKey(boss))
}
