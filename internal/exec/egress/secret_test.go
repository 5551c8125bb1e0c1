package egress_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/tool"
)

const hidden = "s3cr3t/value+0123456789"

// A vault has one secret.
type vault struct{}

func (vault) ResolveNames(context.Context, string, []string) (map[string]string, error) {
	return map[string]string{"pat": hidden}, nil
}

// TestSecrets checks that a secret is inserted only where it belongs, and that no answer has it.
func TestSecrets(t *testing.T) {
	var seen http.Header
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		w.Header().Set("X-Echo", r.Header.Get("Authorization"))
		if r.URL.Path == "/repos/encoded" {
			w.Header().Set("Content-Encoding", "br")
		}
		all := r.Header.Get("Authorization")
		fmt.Fprintf(w, `{"plain": %q, "url": %q, "base64": %q}`, all, url.QueryEscape(hidden),
			base64.StdEncoding.EncodeToString([]byte("x"+all)))
	}))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c := egress.New(egress.Config{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Authorities: ca,
		Secrets: vault{}, Inserted: []egress.Secret{{Name: "TOKEN", Secret: "pat", Hosts: []string{"127.0.0.1"},
			Methods: []string{"GET"}, Path: "/repos/", Header: "Authorization"}}})
	defer c.Close()
	do := func(method, address, header, value string) (*egress.Response, error) {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatalf("url.Parse: %v", err)
		}
		seen = nil
		return c.Do(t.Context(), egress.Request{Principal: "p", Method: method, URL: u,
			Header: map[string]string{header: value}})
	}
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("git:"+egress.Placeholder("TOKEN")))
	for _, value := range []string{"Bearer " + egress.Placeholder("TOKEN"), basic} {
		r, err := do("GET", s.URL+"/repos/x", "authorization", value)
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		sent := seen.Get("Authorization")
		if raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sent, "Basic ")); err == nil {
			sent = string(raw)
		}
		if !strings.HasSuffix(sent, hidden) {
			t.Errorf("%s: the server received %q, want the secret", value, sent)
		}
		inBase64 := base64.StdEncoding.EncodeToString([]byte(hidden))[3:20]
		for _, form := range []string{hidden, url.QueryEscape(hidden), inBase64} {
			if text := string(r.Body) + fmt.Sprint(r.Headers); strings.Contains(text, form) {
				t.Errorf("%s: the answer has %q: %s", value, form, text)
			}
		}
	}
	for _, w := range []struct{ name, method, url, header, value string }{
		{"another method", "POST", s.URL + "/repos/x", "authorization", "TOKEN"},
		{"another path", "GET", s.URL + "/repos", "authorization", "TOKEN"},
		{"another header", "GET", s.URL + "/repos/x", "x-token", "TOKEN"},
		{"another host", "GET", strings.Replace(s.URL, "0.0.1:", "0.0.2:", 1) + "/repos/x", "authorization", "TOKEN"},
		{"without TLS", "GET", strings.Replace(s.URL, "https", "http", 1) + "/repos/x", "authorization", "TOKEN"},
		{"an unknown secret", "GET", s.URL + "/repos/x", "authorization", "TOKEN_2"},
	} {
		_, err := do(w.method, w.url, w.header, egress.Placeholder(w.value))
		if err == nil || tool.AsError(err).Kind != tool.Denied || seen != nil {
			t.Errorf("%s: %v, the server received %v; want it denied and nothing sent", w.name, err, seen)
		}
	}
	if _, err := do("GET", s.URL+"/repos/encoded", "authorization", egress.Placeholder("TOKEN")); err == nil ||
		tool.AsError(err).Kind != tool.Unavailable {
		t.Errorf("an answer in an encoding that can't be searched: %v, want an error", err)
	}
	if r, err := do("GET", s.URL+"/other", "x-a", "b"); err != nil || r.Status != http.StatusOK {
		t.Errorf("a request without a secret: %+v, %v", r, err)
	}
}

// TestSecretInPieces checks that a program can't get a part of an answer that echoes the secret:
// the scrubber would not recognize a part of the secret.
func TestSecretInPieces(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/always" {
			r.Header.Set("Range", "bytes=0-8")
		}
		http.ServeContent(w, r, "echo", time.Time{}, strings.NewReader("you sent "+r.Header.Get("Authorization")))
	}))
	defer s.Close()
	for _, path := range []string{"/", "/always"} {
		header := map[string]string{"Authorization": egress.Placeholder("TOKEN"), "Range": "bytes=0-15"}
		r, err := sendSecret(t, s, path, header)
		switch {
		case path == "/always":
			if err == nil || tool.AsError(err).Kind != tool.Unavailable {
				t.Errorf("a part of an answer: %+v, %v, want an error", r, err)
			}
		case err != nil || r.Status != http.StatusOK || strings.Contains(string(r.Body), hidden[:7]):
			t.Errorf("Range with a secret: %+v, %v, want the whole answer without the secret", r, err)
		}
		delete(header, "Authorization")
		header["Range"] = "bytes=0-7"
		if r, err := sendSecret(t, s, path, header); err != nil || r.Status != http.StatusPartialContent {
			t.Errorf("Range without a secret: %+v, %v, want a part", r, err)
		}
	}
}

// TestSecretInError checks that the error about an invalid answer doesn't have the secret.
func TestSecretInError(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("Hijack: %v", err)
			return
		}
		fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\n", r.Header.Get("Authorization"))
		_ = c.Close()
	}))
	defer s.Close()
	_, err := sendSecret(t, s, "/", map[string]string{"Authorization": egress.Placeholder("TOKEN")})
	if err == nil || strings.Contains(err.Error(), hidden) || !strings.Contains(err.Error(), mask.Redacted) {
		t.Errorf("an invalid answer with the secret: %v, want an error without the secret", err)
	}
}

// TestSecretsHeld checks that the answers to requests with secrets, which are held until they are
// read, have a limited size together.
func TestSecretsHeld(t *testing.T) {
	const size = 30 << 20
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	}))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c := egress.New(egress.Config{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Authorities: ca,
		Secrets: vault{}, Inserted: []egress.Secret{{Name: "TOKEN", Secret: "pat", Hosts: []string{"127.0.0.1"},
			Header: "Authorization"}}})
	defer c.Close()
	send := func() (*http.Response, error) {
		r, err := http.NewRequestWithContext(egress.WithPrincipal(t.Context(), "p"), "GET", s.URL, nil)
		if err != nil {
			t.Fatalf("NewRequest: %v", err)
		}
		r.Header.Set("Authorization", egress.Placeholder("TOKEN"))
		return c.RoundTrip(r)
	}
	var open []*http.Response
	for {
		resp, err := send()
		if err != nil {
			if tool.AsError(err).Kind != tool.Limit || tool.AsError(err).Unsent {
				t.Errorf("one answer too many: %v", err)
			}
			break
		}
		if open = append(open, resp); len(open) > 10 {
			t.Fatalf("%d answers of %d bytes are held", len(open), size)
		}
	}
	if len(open) == 0 {
		t.Fatal("no answer is held")
	}
	for _, resp := range open {
		for range 2 {
			if err := resp.Body.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		}
	}
	resp, err := send()
	if err != nil {
		t.Fatalf("after the others were closed: %v", err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// sendSecret sends a GET to a server that has the secret TOKEN.
func sendSecret(t *testing.T, s *httptest.Server, path string, header map[string]string) (*egress.Response, error) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	c := egress.New(egress.Config{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Authorities: ca,
		Secrets: vault{}, Inserted: []egress.Secret{{Name: "TOKEN", Secret: "pat", Hosts: []string{"127.0.0.1"},
			Header: "Authorization"}}})
	defer c.Close()
	u, err := url.Parse(s.URL + path)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	return c.Do(t.Context(), egress.Request{Principal: "p", Method: "GET", URL: u, Header: header})
}

// A userVault records who uses secrets.
type userVault struct{ users map[string]int }

func (v userVault) ResolveNames(_ context.Context, user string, names []string) (map[string]string, error) {
	v.users[user]++
	return map[string]string{names[0]: hidden}, nil
}

// TestSecretUsers checks that secrets have different users: a user's new values end the masking of
// its earlier ones.
func TestSecretUsers(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer s.Close()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	v := userVault{map[string]int{}}
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	for _, one := range []egress.Secret{{Name: "ONE", Secret: "one"}, {Name: "TWO", Secret: "two"},
		{Name: "ONE", Secret: "of another server"}} {
		one.Hosts, one.Header = []string{"127.0.0.1"}, "Authorization"
		c := egress.New(egress.Config{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Authorities: ca,
			Secrets: v, Inserted: []egress.Secret{one}})
		defer c.Close()
		if _, err := c.Do(t.Context(), egress.Request{Principal: "p", Method: "GET", URL: u,
			Header: map[string]string{"Authorization": egress.Placeholder(one.Name)}}); err != nil {
			t.Fatalf("Do: %v", err)
		}
	}
	if len(v.users) != 3 {
		t.Errorf("the users of three secrets are %v, want three", v.users)
	}
}
