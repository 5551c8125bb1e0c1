package daemon_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"

	"github.com/biplane-dev/biplane/internal/control/audit"
)

// clientFrom returns an HTTP client that connects from an address of this machine.
func clientFrom(address string) *http.Client {
	d := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, DisableKeepAlives: true}}
}

// TestTrustedProxy refuses requests of clients behind a trusted proxy, and of others, that claim
// another address. The record has the address from which each of them connected.
func TestTrustedProxy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, stop := run(t, dir, "auth: { keys: true }\ntrusted_proxies: [127.0.0.2]\n")
	defer stop()
	to, err := url.Parse(d.URL())
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	// It appends to the header, as nginx does.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: clientFrom("127.0.0.2").Transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		}})
	defer proxy.Close()
	for _, c := range []struct{ from, base, claim string }{
		{"127.0.0.3", proxy.URL, ""},
		{"127.0.0.4", proxy.URL, "192.0.2.1"},
		{"127.0.0.5", proxy.URL, "127.0.0.2, 127.0.0.2"},
		{"127.0.0.6", d.URL(), "192.0.2.1"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.base+"/api/v1/status", nil)
		if err != nil {
			t.Fatalf("NewRequest: %v", err)
		}
		req.Header.Set("Authorization", "Bearer none")
		if c.claim != "" {
			req.Header.Set("X-Forwarded-For", c.claim)
		}
		resp, err := clientFrom(c.from).Do(req)
		if err != nil {
			t.Fatalf("from %s: %v", c.from, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("from %s: %s, want status 401", c.from, resp.Status)
		}
	}
	stop()
	var got []string
	for _, r := range recorded(t, dir, audit.KindSignIn) {
		got = append(got, r.Detail["remote"])
	}
	if want := []string{"127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"}; !slices.Equal(got, want) {
		t.Errorf("the refusals were recorded from %q, want %q", got, want)
	}
}
