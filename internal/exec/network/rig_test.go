//go:build linux

package network_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/network"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A rig has process sandboxes with a network, and servers on this machine that their programs know
// by names: a.test and b.test by HTTPS, plain.test by HTTP, and private.test, whose address may not
// be reached.
type rig struct {
	t      *testing.T
	driver *process.Driver
	client *egress.Client
	secure int // port of the HTTPS servers
	plain  int // port of the HTTP server

	mu    sync.Mutex
	rules []rule
	calls []string // decisions: "allow GET https://a.test:123/x"
	notes []string
	seen  []string // requests that arrived: "a.test GET /x"
	addrs map[string]string

	git    http.Handler      // of /git/
	files  map[string][]byte // of an index of packages, by path
	moves  map[string]string // addresses that names have after their first lookup
	secret bool              // a request arrived with it
}

// A rule permits connections.
type rule struct {
	host   string // or "*"
	method string // empty: any, also requests that are not seen
	path   string // prefix
}

// names of this machine's servers, by address.
func (r *rig) LookupHost(_ context.Context, name string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.addrs[name]; ok {
		if next, ok := r.moves[name]; ok {
			r.addrs[name] = next
		}
		return []netip.Addr{netip.MustParseAddr(a)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

// hidden is a secret that programs use without seeing it.
const hidden = "hidden-value-0123456789"

func (r *rig) ResolveNames(context.Context, string, []string) (map[string]string, error) {
	return map[string]string{"pat": hidden}, nil
}

func (r *rig) OwnAddresses() ([]net.Addr, error) { return net.InterfaceAddrs() }

// newRig returns a rig, or skips the test if process sandboxes can't run here.
func newRig(t *testing.T, rules ...rule) *rig {
	t.Helper()
	r := &rig{t: t, rules: rules, addrs: map[string]string{"a.test": "127.0.0.1", "b.test": "127.0.0.1",
		"plain.test": "127.0.0.1", "private.test": "127.9.9.9", "metadata.test": "169.254.169.254",
		"mapped.test": "::ffff:10.0.0.1"}}
	ca, leaf := issue(t)
	handler := http.HandlerFunc(r.serve)
	secure := httptest.NewUnstartedServer(handler)
	secure.TLS = &tls.Config{Certificates: []tls.Certificate{leaf}}
	secure.StartTLS()
	plain := httptest.NewServer(handler)
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	r.secure, r.plain = portOf(t, secure.URL), portOf(t, plain.URL)
	r.client = egress.New(egress.Config{Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Network: r,
		Authorities: ca, Secrets: r, Inserted: []egress.Secret{{Name: "TOKEN", Secret: "pat", Hosts: []string{"b.test"},
			Path: "/echo", Header: "Authorization"}}})
	t.Cleanup(r.client.Close)
	var err error
	r.driver, err = process.New(process.Config{Network: network.NewNetwork(network.Config{
		Ports: []int{80, 443, r.secure, r.plain}, Authorities: string(ca),
		Variables: []string{"TOKEN=" + egress.Placeholder("TOKEN")}, Opened: []string{"b.test"}})})
	if err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	t.Cleanup(func() {
		if err := r.driver.Close(); err != nil {
			t.Errorf("close the driver: %v", err)
		}
	})
	if _, err := r.driver.Probe(t.Context()); err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	return r
}

func portOf(t *testing.T, text string) int {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatalf("url.Parse: %v", err)
	}
	return int(netip.MustParseAddrPort(u.Host).Port())
}

// issue returns an authority's certificate in PEM, and a server's certificate.
func issue(t *testing.T) ([]byte, tls.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("ecdsa.GenerateKey: %v", err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		DNSNames: []string{"a.test", "b.test", "private.test"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatalf("x509.CreateCertificate: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (r *rig) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.seen = append(r.seen, strings.Split(q.Host, ":")[0]+" "+q.Method+" "+q.URL.RequestURI())
	r.secret = r.secret || strings.Contains(q.Header.Get("Authorization"), hidden)
	r.mu.Unlock()
	switch {
	case strings.HasPrefix(q.URL.Path, "/git/"):
		r.git.ServeHTTP(w, q)
	case r.files[q.URL.Path] != nil:
		_, _ = w.Write(r.files[q.URL.Path])
	case q.URL.Path == "/redirect":
		http.Redirect(w, q, q.URL.Query().Get("to"), http.StatusFound)
	case q.URL.Path == "/echo":
		for name, values := range q.Header {
			fmt.Fprintf(w, "%s: %s\n", name, strings.Join(values, ", "))
		}
		b := make([]byte, 1000)
		n, _ := q.Body.Read(b)
		fmt.Fprintf(w, "body: %s\n", b[:n])
	default:
		fmt.Fprintf(w, "hello from %s", strings.Split(q.Host, ":")[0])
	}
}

// permits reports whether a rule permits a URL.
func (r *rig) permits(method string, u *url.URL) bool {
	return slices.ContainsFunc(r.rules, func(l rule) bool {
		return (l.host == "*" || l.host == u.Hostname()) && (l.method == "" || l.method == method) &&
			(l.path == "" || method != "CONNECT" && strings.HasPrefix(u.Path, l.path))
	})
}

func (r *rig) ReachesHost(host string) bool {
	return slices.ContainsFunc(r.rules, func(l rule) bool { return l.host == "*" || l.host == host })
}

// decide returns the URL of a call, and whether it is permitted.
func (r *rig) decide(arguments json.RawMessage) (*url.URL, string, bool) {
	var a struct{ URL, Method string }
	if err := json.Unmarshal(arguments, &a); err != nil {
		r.t.Errorf("arguments %s: %v", arguments, err)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		r.t.Errorf("url.Parse(%q): %v", a.URL, err)
		return &url.URL{}, "", false
	}
	return u, a.Method, r.permits(a.Method, u)
}

func (r *rig) PermitsConnection(arguments json.RawMessage) bool {
	_, _, ok := r.decide(arguments)
	return ok
}

func (r *rig) CallNetwork(ctx context.Context, name string, arguments json.RawMessage) (*tool.Result, error) {
	u, method, ok := r.decide(arguments)
	effect := "deny"
	if ok {
		effect = "allow"
	}
	r.mu.Lock()
	r.calls = append(r.calls, effect+" "+method+" "+u.String())
	r.mu.Unlock()
	if !ok {
		return nil, tool.NotSent(tool.Errorf(tool.Denied, "biplane.%s to %s is denied by policy none", name,
			u.Hostname()))
	}
	return egress.ExchangeFrom(ctx).MakeExchange(ctx, r.client, u)
}

func (r *rig) AddNote(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, text)
}

// run runs a program. In its text, SECURE and PLAIN are the servers' ports.
func (r *rig) run(runtime, code string) *sandboxtest.Outcome {
	r.t.Helper()
	box, err := r.driver.Create(r.t.Context(), sandbox.Spec{Runtime: runtime})
	if err != nil {
		r.t.Fatalf("Create: %v", err)
	}
	code = strings.NewReplacer("SECURE", fmt.Sprint(r.secure), "PLAIN", fmt.Sprint(r.plain)).Replace(code)
	o := sandboxtest.Host{Traffic: r}.Run(r.t.Context(), box, sandbox.Run{Code: code, Name: "program"})
	if err := box.Close(); err != nil {
		r.t.Errorf("Close: %v", err)
	}
	return o
}

// recorded returns what was decided since the last call, and forgets it.
func (r *rig) recorded() (calls, seen, notes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls, seen, notes = r.calls, r.seen, r.notes
	r.calls, r.seen, r.notes = nil, nil, nil
	return calls, seen, notes
}
