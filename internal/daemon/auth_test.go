package daemon_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/daemon"
)

// certificate writes a certificate for loopback addresses, and returns a pool that trusts it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("ecdsa.GenerateKey: %v", err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatalf("x509.CreateCertificate: %v", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("x509.MarshalPKCS8PrivateKey: %v", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, b := range map[string][]byte{"cert.pem": text,
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatalf("os.WriteFile: %v", err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// TestTLS listens on all addresses, with sign-in and TLS.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pool := certificate(t, dir)
	s, err := parse(filepath.Join(dir, "biplane.yaml"), "auth: { keys: true }\ntls: { cert: cert.pem, key: key.pem }")
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	d, stop := runWith(t, daemon.Config{Settings: s, DataDir: dir, Listen: "0.0.0.0:0"})
	_, port, err := net.SplitHostPort(d.Addr())
	if err != nil {
		t.Fatalf("net.SplitHostPort: %v", err)
	}
	key := makeKey(t, d, api.KeyRequest{Name: "a", Scopes: []string{"api"}})
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	get := func(address, key string) (int, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		if err != nil {
			return 0, err
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := c.Do(req)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		return resp.StatusCode, nil
	}
	if status, err := get("https://127.0.0.1:"+port+"/api/v1/status", key); err != nil || status != 200 {
		t.Errorf("status = %v, err = %v, want err == nil && status == 200", status, err)
	}
	if status, err := get("https://127.0.0.1:"+port+"/api/v1/status", "x"); err != nil || status != 401 {
		t.Errorf("status = %v, err = %v, want err == nil && status == 401", status, err)
	}
	if status, err := get("http://127.0.0.1:"+port+"/api/v1/status", key); err == nil && status < 400 {
		t.Error("served in the clear")
	}
	if !strings.HasPrefix(d.URL(), "https://") {
		t.Errorf(`d.URL() = %v, want strings.HasPrefix(d.URL(), "https://")`, d.URL())
	}
	stop()
	// Without a readable certificate the daemon must not start.
	if err := os.Remove(filepath.Join(dir, "key.pem")); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	if d, err := daemon.New(t.Context(), daemon.Config{Settings: s, DataDir: dir, Listen: "0.0.0.0:0"}); err == nil {
		d.Close()
		t.Error("listens without a key")
	}
}

// runWith runs a Daemon.
func runWith(t *testing.T, c daemon.Config) (d *daemon.Daemon, stop func()) {
	t.Helper()
	d, err := daemon.New(t.Context(), c)
	if err != nil {
		t.Fatalf("daemon.New: %v", err)
	}
	return d, running(t, d)
}

// running runs a daemon until stop is called, or the test ends.
func running(t *testing.T, d *daemon.Daemon) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-done, d.Close()); err != nil {
			t.Errorf("errors.Join: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}
