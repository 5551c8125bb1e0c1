package preview_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/serve/preview"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A rig has a preview of a server in place of a sandbox.
type rig struct {
	*httptest.Server
	t       *testing.T
	clock   *wallclock.Clock
	links   *preview.Server
	inside  *httptest.Server
	last    atomic.Pointer[http.Request] // that the server inside received
	dialed  atomic.Pointer[string]
	revoked atomic.Bool
}

// MAC implements preview.Signer.
func (*rig) MAC(purpose string, data []byte) (sum [sha256.Size]byte) {
	h := hmac.New(sha256.New, []byte("key "+purpose))
	h.Write(data)
	copy(sum[:], h.Sum(nil))
	return sum
}

// MayPreview implements preview.Permission.
func (r *rig) MayPreview(context.Context, *preview.Maker) bool { return !r.revoked.Load() }

// DialPort implements preview.Dialer.
func (r *rig) DialPort(ctx context.Context, m *preview.Maker, port int) (net.Conn, error) {
	text := fmt.Sprintf("%s %s %d", m.Call.Principal.ID, m.Sandbox, port)
	r.dialed.Store(&text)
	return (&net.Dialer{}).DialContext(ctx, "tcp", r.inside.Listener.Addr().String())
}

func newRig(t *testing.T, answer http.HandlerFunc) *rig {
	t.Helper()
	r := &rig{t: t, clock: wallclock.At(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))}
	r.inside = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.last.Store(q)
		answer(w, q)
	}))
	t.Cleanup(r.inside.Close)
	r.links = preview.NewServer(preview.Config{Dialer: r, Key: r, Permit: r, Clock: r.clock,
		CheckEach: 10 * time.Millisecond})
	r.Server = httptest.NewServer(r.links)
	t.Cleanup(r.Close)
	return r
}

// link makes a link of ann to a port.
func (r *rig) link(sandbox string, port int) string {
	r.t.Helper()
	path, _, err := r.links.MakeLink(&preview.Maker{Call: &tool.Call{Principal: tool.Principal{ID: "ann"}},
		Sandbox: sandbox}, port, time.Hour)
	if err != nil {
		r.t.Fatalf("MakeLink: %v", err)
	}
	return path
}

// send sends a request, without following redirects.
func (r *rig) send(method, path string, h http.Header) (*http.Response, string) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, r.URL+path, nil)
	if err != nil {
		r.t.Fatalf("NewRequest: %v", err)
	}
	for name, values := range h {
		q.Header[name] = values
	}
	resp, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("read: %v", err)
	}
	return resp, string(b)
}

// TestPreview checks that a link leads to its port, with the path and the query as they were.
func TestPreview(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprint(w, q.Method, " ", q.RequestURI, " ", q.Host)
	})
	link := r.link("sb_a", 8000)
	if !strings.HasPrefix(link, "/previews/sb_a/8000/") {
		t.Errorf("the link is %s", link)
	}
	_, body := r.send("POST", link+"a%2Fb//c?x=1", nil)
	if body != "POST /a%2Fb//c?x=1 localhost:8000" || *r.dialed.Load() != "ann sb_a 8000" {
		t.Errorf("the server received %q, dialed %q", body, *r.dialed.Load())
	}
	resp, _ := r.send("GET", strings.TrimSuffix(link, "/"), nil)
	if resp.StatusCode != http.StatusPermanentRedirect || resp.Header.Get("Location") != link {
		t.Errorf("without a slash: %s to %s", resp.Status, resp.Header.Get("Location"))
	}
}

// TestLinks checks that no other link is valid, and that links end.
func TestLinks(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "reached") })
	link := r.link("sb_a", 8000)
	parts := strings.Split(link, "/")
	token, err := base64.RawURLEncoding.DecodeString(parts[4])
	if err != nil {
		t.Fatalf("decode the token: %v", err)
	}
	later, forged := append([]byte(nil), token...), append([]byte(nil), token...)
	later[6]++
	forged[len(forged)-1]++
	other := strings.Split(r.link("sb_b", 8000), "/")[4]
	for _, path := range []string{
		"/previews/", "/previews/sb_a/8000/", "/previews/sb_a/8000", "/previews/sb_a/8001/" + parts[4] + "/",
		"/previews/sb_b/8000/" + parts[4] + "/", "/previews/sb_a/08000/" + other + "/",
		"/previews/sb_a/8000/" + other + "/", "/previews/sb_a/8000/" + strings.Repeat("A", 59) + "/",
		"/previews/sb_a/8000/" + base64.RawURLEncoding.EncodeToString(later) + "/",
		"/previews/sb_a/8000/" + base64.RawURLEncoding.EncodeToString(forged) + "/",
		"/previews/sb_a/8000/" + parts[4] + "=/", "/previews/..%2fsb_a/8000/" + parts[4] + "/",
	} {
		if resp, body := r.send("GET", path, nil); resp.StatusCode != http.StatusNotFound || body == "reached" {
			t.Errorf("%s: %s, %q", path, resp.Status, body)
		}
	}
	if _, body := r.send("GET", link, nil); body != "reached" {
		t.Errorf("the link: %q", body)
	}
	r.revoked.Store(true)
	if resp, _ := r.send("GET", link, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("after its maker lost the right: %s", resp.Status)
	}
	r.revoked.Store(false)
	r.clock.Advance(time.Hour)
	if resp, _ := r.send("GET", link, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("after its time: %s", resp.Status)
	}
}

// TestIsolation sends everything that should not pass, in both directions.
func TestIsolation(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		for _, name := range []string{"Set-Cookie", "Clear-Site-Data", "Strict-Transport-Security", "NEL", "Report-To",
			"WWW-Authenticate", "Service-Worker-Allowed", "Alt-Svc", "Accept-CH", "X-Accel-Redirect", "X-Accel-Expires",
			"X-Sendfile", "CDN-Cache-Control", "Surrogate-Control"} {
			h.Set(name, "evil=1")
		}
		h.Set("Access-Control-Allow-Credentials", "true")
		h.Set("Access-Control-Allow-Origin", "https://evil.example")
		h.Set("Content-Security-Policy", "default-src 'self'")
		h.Set("Referrer-Policy", "unsafe-url")
		h.Set("Content-Type", "Multipart/X-Mixed-Replace; boundary=evil")
		w.WriteHeader(http.StatusEarlyHints)
		h.Set("Trailer", "Set-Cookie")
		fmt.Fprint(w, "page")
		h.Set("Set-Cookie", "late=1")
	})
	resp, body := r.send("GET", r.link("sb_a", 8000), http.Header{"Cookie": {"biplane=secret"},
		"Authorization": {"Bearer secret"}, "Referer": {"http://x/secret"}, "X-Biplane-Key": {"secret"},
		"X-Forwarded-For": {"secret"}, "Remote-User": {"secret"}, "X-Auth-Request-Email": {"secret"},
		"Cf-Access-Jwt-Assertion": {"secret"}, "X-Ms-Client-Principal": {"secret"}, "Tailscale-User-Login": {"secret"},
		"X-Goog-Iap-Jwt-Assertion": {"secret"}, "X-Amzn-Oidc-Data": {"secret"}, "X-Authentik-Username": {"secret"},
		"Remote-Groups": {"secret"}, "Cf-Connecting-Ip": {"secret"}, "Client-Cert": {"secret"},
		"X-Csrf-Token": {"of the page"}, "Mcp-Session-Id": {"of the page"},
		"Origin": {"null"}, "Proxy-Authorization": {"secret"}, "Accept": {"text/html"}})
	if body != "page" {
		t.Errorf("the page is %q", body)
	}
	for name, values := range r.last.Load().Header {
		if strings.Contains(strings.Join(values, " "), "secret") {
			t.Errorf("the server in the sandbox received %s: %q", name, values)
		}
	}
	if h := r.last.Load().Header; h.Get("Accept") != "text/html" || h.Get("Origin") != "http://localhost:8000" ||
		h.Get("X-Csrf-Token") == "" || h.Get("Mcp-Session-Id") == "" || h.Get("User-Agent") == "" {
		t.Errorf("the server in the sandbox received %v", h)
	}
	for name, values := range resp.Header {
		if strings.Contains(strings.Join(values, " "), "evil") {
			t.Errorf("the browser received %s: %q", name, values)
		}
	}
	if len(resp.Trailer["Set-Cookie"]) > 0 && resp.Trailer.Get("Set-Cookie") != "" {
		t.Errorf("the browser received the trailers %v", resp.Trailer)
	}
	policies := strings.Join(resp.Header.Values("Content-Security-Policy"), "; ")
	if !strings.Contains(policies, "sandbox allow-scripts") || strings.Contains(policies, "allow-same-origin") ||
		!strings.Contains(policies, "default-src 'self'") || resp.Header.Get("Referrer-Policy") != "no-referrer" ||
		!strings.Contains(policies, "default-src 'self' 'unsafe-inline'") ||
		resp.Header.Get("Access-Control-Allow-Credentials") != "" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the browser received %v", resp.Header)
	}
}

// TestRedirects checks that redirects of the server stay in the preview.
func TestRedirects(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Location", q.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	})
	link := r.link("sb_a", 8000)
	for to, want := range map[string]string{
		"/x?y=1#z":                link + "x?y=1#z",
		"b":                       link + "a/b",
		"../../../api/v1/status":  link + "api/v1/status",
		"http://localhost:8000/x": link + "x",
		"http://127.0.0.1:8000":   link,
		"https://example.com/x":   "https://example.com/x",
		"javascript:alert(1)":     ".",
		"http://localhost:9000/":  "http://localhost:9000/",
		"":                        "",
	} {
		resp, _ := r.send("GET", link+"a/page?to="+url.QueryEscape(to), nil)
		if got := resp.Header.Get("Location"); got != want {
			t.Errorf("to %q: %q, want %q", to, got, want)
		}
	}
}

// TestWebSocket checks that a connection that changes its protocol passes bytes in both directions,
// and ends with Biplane, or when the maker of its link may no longer make one.
func TestWebSocket(t *testing.T) {
	for name, end := range map[string]func(*rig){
		"closed": func(r *rig) { r.links.CloseAll() }, "revoked": func(r *rig) { r.revoked.Store(true) },
	} {
		t.Run(name, func(t *testing.T) { testWebSocket(t, end) })
	}
}

// testWebSocket checks a connection that changes its protocol, which end ends.
func testWebSocket(t *testing.T, end func(*rig)) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Upgrade") != "websocket" || q.Header.Get("Cookie") != "" {
			t.Errorf("the server received %v", q.Header)
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			return
		}
		defer c.Close()
		fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Set-Cookie: evil=1\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		fmt.Fprintf(rw, "got %s", line)
		_ = rw.Flush()
		_, _ = rw.ReadString('\n') // until the preview ends
	})
	c, err := net.Dial("tcp", r.Listener.Addr().String())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET %ssocket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Cookie: biplane=secret\r\n\r\n", r.link("sb_a", 8000))
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Set-Cookie") != "" {
		t.Fatalf("the answer is %+v, %v", resp, err)
	}
	fmt.Fprint(c, "hello\n")
	if line, err := in.ReadString('\n'); line != "got hello\n" {
		t.Errorf("the answer is %q, %v", line, err)
	}
	end(r)
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second)) // fails only if it is closed
	if _, err := in.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection outlives the preview")
	}
}

// TestNetwork checks that a page may load from other hosts only if its sandbox has a network.
func TestNetwork(t *testing.T) {
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) { fmt.Fprint(w, "page") })
	for _, network := range []bool{false, true} {
		path, _, err := r.links.MakeLink(&preview.Maker{Call: &tool.Call{Principal: tool.Principal{ID: "ann"}},
			Sandbox: "sb_a", Network: network}, 8000, time.Hour)
		if err != nil {
			t.Fatalf("MakeLink: %v", err)
		}
		resp, _ := r.send("GET", path, nil)
		policies := strings.Join(resp.Header.Values("Content-Security-Policy"), "; ")
		if strings.Contains(policies, "default-src 'self'") == network ||
			!strings.Contains(policies, "sandbox allow-scripts") {
			t.Errorf("with a network: %v, the page has the policy %q", network, policies)
		}
	}
}
