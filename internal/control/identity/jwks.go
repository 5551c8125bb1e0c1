package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
)

// Limits for fetching an issuer's keys.
const (
	fetchTime  = 8 * time.Second // for all requests of one fetch
	fetchBytes = 1 << 20         // of one answer
	fetchPause = 15 * time.Second
	// how long a key that the issuer removed may stay valid, provided that the issuer answers
	refreshAfter = 10 * time.Minute
	staleAfter   = time.Hour // keys older than this are not used
	mostJWKs     = 100
	rsaBits      = 2048 // minimum
	candidates   = 8    // keys that are tried for a token
	mostWaiting  = 128  // requests that wait for a fetch
)

// A keySet holds the keys of one issuer. It fetches them when a token names an unknown key, and
// every ten minutes while tokens arrive. It never fetches twice within fetchPause, whatever
// strangers send.
type keySet struct {
	issuer string
	uri    string // empty: discovered
	client *http.Client
	clock  *wallclock.Clock
	log    *slog.Logger

	fetching sync.Mutex    // one fetch at a time
	waiting  chan struct{} // a slot for each request that waits for a fetch
	known    knownKeys
}

// knownKeys are the keys that the last successful fetch returned.
type knownKeys struct {
	mu        sync.RWMutex
	keys      []jose.JSONWebKey
	fetched   time.Time // when the keys were fetched; zero: never
	attempted time.Time // when the last fetch began
}

func newKeySet(i Issuer, client *http.Client, clock *wallclock.Clock, log *slog.Logger) *keySet {
	return &keySet{issuer: i.Issuer, uri: i.JWKSURI, client: client, clock: clock, log: log,
		waiting: make(chan struct{}, mostWaiting)}
}

// errIssuer means that the issuer could not be asked, and that no sufficiently recent keys are
// known.
var errIssuer = errors.New("the issuer's keys can't be fetched")

// findKeys returns the keys that may have signed a token with alg and kid. kid may be empty.
func (s *keySet) findKeys(ctx context.Context, kid string, alg jose.SignatureAlgorithm) ([]jose.JSONWebKey, error) {
	found, age, attempted := s.known.matchingKeys(kid, alg, s.clock.Now())
	if len(found) > 0 && age < refreshAfter {
		return found, nil
	}
	usable := len(found) > 0 && age < staleAfter
	if !usable || s.clock.Now().Sub(attempted) >= fetchPause {
		s.refreshKeys(ctx, attempted, usable)
		found, age, _ = s.known.matchingKeys(kid, alg, s.clock.Now())
	}
	if age >= staleAfter {
		return nil, errIssuer
	}
	return found, nil
}

// matchingKeys returns the known keys that match, their age, and the time of the last fetch.
func (s *knownKeys) matchingKeys(kid string, alg jose.SignatureAlgorithm, now time.Time) (found []jose.JSONWebKey,
	age time.Duration, attempted time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	age = staleAfter
	if !s.fetched.IsZero() {
		age = now.Sub(s.fetched)
	}
	for _, k := range s.keys {
		if (kid == "" || k.KeyID == kid) && fitsAlgorithm(k, alg) && len(found) < candidates {
			found = append(found, k)
		}
	}
	return found, age, s.attempted
}

// refreshKeys fetches the keys, unless there was a fetch after attempted. If usable is set, it also
// returns if a fetch is in progress.
func (s *keySet) refreshKeys(ctx context.Context, attempted time.Time, usable bool) {
	if usable {
		if !s.fetching.TryLock() {
			return
		}
	} else {
		select {
		case s.waiting <- struct{}{}:
		default:
			return // unknown keys are refused
		}
		s.fetching.Lock()
		<-s.waiting
	}
	defer s.fetching.Unlock()
	since, now := s.known.lastAttempt(), s.clock.Now()
	if !since.Equal(attempted) || !since.IsZero() && now.Sub(since) < fetchPause {
		return
	}
	// Others wait for this fetch, too: it doesn't end with the request that started it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	keys, err := s.fetchKeys(ctx)
	if err != nil {
		s.log.Warn("issuer's keys not fetched", "issuer", s.issuer, "err", err)
	}
	s.known.updateKeys(keys, now)
}

func (s *knownKeys) lastAttempt() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.attempted
}

// updateKeys notes an attempt to fetch the keys. Without keys it has failed, and the old ones stay.
func (s *knownKeys) updateKeys(keys []jose.JSONWebKey, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempted = now
	if len(keys) > 0 {
		s.keys, s.fetched = keys, now
	}
}

func (s *keySet) fetchKeys(ctx context.Context) ([]jose.JSONWebKey, error) {
	uri := s.uri
	if uri == "" {
		var err error
		if uri, err = s.discoverAddress(ctx); err != nil {
			return nil, err
		}
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := s.getJSON(ctx, uri, &set); err != nil {
		return nil, err
	}
	if len(set.Keys) > mostJWKs {
		return nil, fmt.Errorf("%s has %d keys, more than %d", uri, len(set.Keys), mostJWKs)
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(raw) == nil && isUsable(k) { // skip unsupported kinds of keys
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s contains no key that can verify signatures", uri)
	}
	return keys, nil
}

// discoverAddress returns the address of the issuer's keys from its metadata (OpenID Connect
// Discovery
// 1.0, section 4; RFC 8414, section 3).
func (s *keySet) discoverAddress(ctx context.Context) (string, error) {
	u, err := url.Parse(s.issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(u.Path, "/")
	var errs []error
	for _, at := range []string{path + "/.well-known/openid-configuration",
		"/.well-known/oauth-authorization-server" + path} {
		var doc struct {
			Issuer string `json:"issuer"`
			URI    string `json:"jwks_uri"`
		}
		where := url.URL{Scheme: u.Scheme, Host: u.Host, Path: at}
		if err := s.getJSON(ctx, where.String(), &doc); err != nil {
			errs = append(errs, err)
			continue
		}
		if doc.Issuer != s.issuer {
			return "", fmt.Errorf("%s contains the metadata of another issuer, %q",
				where.String(), truncateText(doc.Issuer))
		}
		if err := CheckAddress(doc.URI); err != nil {
			return "", fmt.Errorf("jwks_uri of %s: %w", where.String(), err)
		}
		return doc.URI, nil
	}
	return "", errors.Join(errs...)
}

func (s *keySet) getJSON(ctx context.Context, address string, v any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, fetchBytes+1))
	if err != nil {
		return err
	}
	if len(text) > fetchBytes {
		return fmt.Errorf("%s answered with more than %d bytes", address, fetchBytes)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	return nil
}

// fitsAlgorithm reports whether a key may be used with an algorithm.
func fitsAlgorithm(k jose.JSONWebKey, alg jose.SignatureAlgorithm) bool {
	if k.Algorithm != "" && k.Algorithm != string(alg) {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(string(alg), "RS") || strings.HasPrefix(string(alg), "PS")
	case *ecdsa.PublicKey:
		bits := map[jose.SignatureAlgorithm]int{jose.ES256: 256, jose.ES384: 384, jose.ES512: 521}[alg]
		return key.Curve.Params().BitSize == bits
	case ed25519.PublicKey:
		return alg == jose.EdDSA
	}
	return false
}

// isUsable reports whether tokens may be signed with a key: it is public, for signatures, and
// strong. A secret among the public keys is not usable.
func isUsable(k jose.JSONWebKey) bool {
	if k.Use != "" && k.Use != "sig" || !k.Valid() {
		return false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= rsaBits && key.N.BitLen() <= 16<<10 && key.E >= 3
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// Algorithms returns the allowed signature algorithms: no symmetric ones, and never "none".
func Algorithms() []string {
	return []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// CheckAddress returns an error if keys may not be fetched from s: it must be https, or on this
// machine.
func CheckAddress(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("invalid address %q: write one like https://login.example.com", truncateText(s))
	case u.Scheme == "https":
		return nil
	case u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()):
		return nil
	}
	return fmt.Errorf("%q must begin with https", truncateText(s))
}

// newClient returns the client for requests to issuers. It follows no redirects: if an address has
// moved, the configuration should be changed.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       fetchTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConns: 4,
			IdleConnTimeout:     30 * time.Second,
			TLSHandshakeTimeout: fetchTime, MaxResponseHeaderBytes: 64 << 10,
		},
	}
}

// toAlgorithms converts algorithms to the library's type.
func toAlgorithms(names []string) []jose.SignatureAlgorithm {
	out := make([]jose.SignatureAlgorithm, 0, len(names))
	for _, n := range names {
		if slices.Contains(Algorithms(), n) {
			out = append(out, jose.SignatureAlgorithm(n))
		}
	}
	return out
}
