package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool/queue"
)

// A ProviderConfig configures the sign-in of people with their browsers, at an OpenID provider.
type ProviderConfig struct {
	Issuer   Issuer // Audiences is not used: ID tokens are issued for ClientID
	ClientID string
	// Secret has the client's secret. Nil: a public client, which has none.
	Secret   ClientSecret
	Scopes   []string      // besides "openid"
	Redirect string        // the address of this server to which the provider sends browsers back
	Lifetime time.Duration // of a sign-in; 0: DefaultLifetime
}

// A ClientSecret is the secret of a client.
type ClientSecret interface {
	ReadSecret(ctx context.Context) (string, error)
}

// DefaultLifetime is how long a person stays signed in by default.
const DefaultLifetime = 8 * time.Hour

// mostExchanges is the maximum number of codes that are exchanged for tokens at once.
const mostExchanges = 16

// A provider signs people in at an OpenID provider.
type provider struct {
	cfg       ProviderConfig
	issuer    *issuer // verifies ID tokens
	client    *http.Client
	clock     *wallclock.Clock
	key       *secret.Key   // of this process; a restart signs everyone out
	exchanges *queue.Shares // of codes that are exchanged for tokens, by address

	mu        sync.Mutex
	metadata  *providerMetadata // nil: not fetched yet
	fetched   time.Time
	attempted time.Time
	err       error // of the last attempt
}

// providerMetadata is an OpenID provider's metadata (OpenID Connect Discovery 1.0, section 3; RFC
// 9207).
type providerMetadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	SendsIssuer   bool     `json:"authorization_response_iss_parameter_supported"`
}

func newProvider(c ProviderConfig, a AuthenticatorConfig) *provider {
	random := make([]byte, secret.KeySize)
	_, _ = rand.Read(random) // it never fails: it crashes the process instead
	key, err := secret.NewKey(random)
	if err != nil {
		panic(err) // the size is right
	}
	if c.Lifetime == 0 {
		c.Lifetime = DefaultLifetime
	}
	c.Issuer.Audiences = []string{c.ClientID}
	i := newIssuer(c.Issuer, "", a.Roles, a.HTTP, a.Clock, a.Log)
	i.types = idTokenTypes
	return &provider{cfg: c, issuer: i, client: a.HTTP, clock: a.Clock, key: key,
		exchanges: queue.NewShares("sign-ins at the identity provider", "under way", mostExchanges)}
}

// CheckProvider fetches the metadata and the keys of a provider, and describes them.
func CheckProvider(ctx context.Context, c ProviderConfig) (string, error) {
	p := New(AuthenticatorConfig{Provider: &c}).provider
	m, err := p.loadMetadata(ctx)
	if err != nil {
		return "", err
	}
	keys, err := p.issuer.keys.fetchKeys(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s answers: people sign in at %s, %s", m.Issuer, m.Authorization,
		text.Count(len(keys), "signing key")), nil
}

// loadMetadata returns the provider's metadata. It fetches them every ten minutes, and never twice
// within fetchPause, whatever strangers send. If it can't, it uses the earlier ones for staleAfter.
func (p *provider) loadMetadata(ctx context.Context) (*providerMetadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	age := now.Sub(p.fetched)
	if p.metadata != nil && age >= staleAfter {
		p.metadata = nil
	}
	switch {
	case p.metadata != nil && (age < refreshAfter || now.Sub(p.attempted) < fetchPause):
		return p.metadata, nil
	case p.err != nil && now.Sub(p.attempted) < fetchPause:
		return nil, p.err
	}
	// Others wait for this fetch, too: it doesn't end with the request that started it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTime)
	defer cancel()
	p.attempted = now
	m, err := p.fetchMetadata(ctx)
	if p.err = err; err == nil {
		p.metadata, p.fetched = m, now
	} else if p.metadata != nil {
		p.issuer.keys.log.Warn("identity provider not asked again", "issuer", p.cfg.Issuer.Issuer, "err", err)
		return p.metadata, nil
	}
	return m, err
}

func (p *provider) fetchMetadata(ctx context.Context) (*providerMetadata, error) {
	name := p.cfg.Issuer.Issuer
	u, err := url.Parse(name)
	if err != nil {
		return nil, err
	}
	at := u.JoinPath(".well-known", "openid-configuration").String()
	m := &providerMetadata{}
	if err := p.issuer.keys.getJSON(ctx, at, m); err != nil {
		return nil, err
	}
	if m.Issuer != name {
		return nil, fmt.Errorf("%s contains the metadata of another issuer, %q", at, truncateText(m.Issuer))
	}
	for _, end := range []string{m.Authorization, m.Token} {
		if err := CheckAddress(end); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	return m, nil
}

// oauthConfig returns the configuration of the library. The client authenticates in the way that
// the provider supports; without a statement, with basic authentication (OpenID Connect Discovery
// 1.0, section 3).
func (p *provider) oauthConfig(m *providerMetadata, clientSecret string) *oauth2.Config {
	c := &oauth2.Config{ClientID: p.cfg.ClientID, ClientSecret: clientSecret, RedirectURL: p.cfg.Redirect,
		Scopes:   append([]string{"openid"}, p.cfg.Scopes...),
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization, TokenURL: m.Token, AuthStyle: oauth2.AuthStyleInHeader}}
	const basic, post = "client_secret_basic", "client_secret_post"
	if clientSecret == "" || !slices.Contains(m.AuthMethods, basic) && slices.Contains(m.AuthMethods, post) {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return c
}

// exchangeCode exchanges the code of a request for an ID token.
func (p *provider) exchangeCode(r *http.Request, m *providerMetadata, verifier string) (string, error) {
	ctx, from := r.Context(), remoteAddress(r)
	if a, err := netip.ParseAddr(from); err == nil {
		from = netaddr.Network64(a)
	}
	if err := p.exchanges.Acquire(from, 1); err != nil {
		return "", err
	}
	defer p.exchanges.Release(from, 1)
	clientSecret := ""
	if p.cfg.Secret != nil {
		var err error
		if clientSecret, err = p.cfg.Secret.ReadSecret(ctx); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, p.client), fetchTime)
	defer cancel()
	t, err := p.oauthConfig(m, clientSecret).Exchange(ctx, r.URL.Query().Get("code"), oauth2.VerifierOption(verifier))
	var answer *oauth2.RetrieveError
	switch {
	case errors.As(err, &answer):
		return "", fmt.Errorf("%s answers %s %s", m.Token, answer.Response.Status, truncateText(answer.ErrorCode))
	case err != nil:
		return "", err
	}
	id, _ := t.Extra("id_token").(string)
	if id == "" {
		return "", fmt.Errorf("%s sent no ID token", m.Token)
	}
	return id, nil
}
