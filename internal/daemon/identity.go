package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/audit"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/serve/console"
	"github.com/biplane-dev/biplane/internal/serve/httpapi"
	"github.com/biplane-dev/biplane/internal/tool"
)

// openKeys loads the API keys. They can be created and revoked even if the configuration doesn't
// accept them.
func (d assembly) openKeys(ctx context.Context) (err error) {
	d.keys, err = identity.OpenKeys(ctx,
		identity.KeysConfig{Store: d.store.APIKeys(d.key), Log: d.log, Revoked: func(principal string) {
			d.servers.mcp.Cut(principal)
			d.sandboxes.servers.cutPrincipal(principal)
			d.servers.http.EndStreams(principal)
		}})
	return err
}

// newAuthenticator returns the Authenticator of network requests; nil if no sign-in is configured.
func (d assembly) newAuthenticator() *identity.Authenticator {
	a := d.cfg.Settings.Auth
	if a == nil {
		return nil
	}
	c := identity.AuthenticatorConfig{
		Issuers: a.Issuers, Resource: a.Resource, Roles: a.Roles, Scopes: a.Scopes, Log: d.log,
		Recorder: signInRecord{d.Daemon},
	}
	if a.Keys {
		c.Keys = d.keys
	}
	if p := a.Provider; p != nil {
		c.Provider = providerConfig(p, a, d.upstreams.secrets)
	}
	return identity.New(c)
}

// A clientSecret is the secret of the client of a provider.
type clientSecret struct {
	*config.PeopleProvider
	secrets *secrets
}

// ReadSecret returns the secret, which may be one that the configuration refers to.
func (c clientSecret) ReadSecret(ctx context.Context) (string, error) {
	if c.SecretName == "" {
		return c.ClientSecret, nil
	}
	values, err := c.secrets.ResolveNames(ctx, "auth.sign_in", []string{c.SecretName})
	return values[c.SecretName], err
}

// providerConfig returns the configuration of the sign-in of people. secrets has the client's
// secret, if the configuration refers to one.
func providerConfig(p *config.PeopleProvider, a *config.Auth, secrets *secrets) *identity.ProviderConfig {
	c := &identity.ProviderConfig{Issuer: p.Issuer, ClientID: p.ClientID, Scopes: p.Scopes, Lifetime: p.Lifetime,
		Redirect: strings.TrimSuffix(a.Resource, "/mcp") + console.BackPath}
	if p.SecretName != "" || p.ClientSecret != "" {
		c.Secret = clientSecret{p, secrets}
	}
	return c
}

// signInRecord records sign-ins.
type signInRecord struct{ *Daemon }

// RecordSignIn records an accepted or refused sign-in.
func (d signInRecord) RecordSignIn(ev identity.Event) {
	p := ev.Principal
	detail := map[string]string{
		"method": ev.Method, "remote": ev.Remote, "claimed": ev.Claimed, "person": p.Person, "agent": p.Agent,
		"chain": strings.Join(p.Chain, " for "), "roles": strings.Join(p.Roles, " "),
	}
	e := audit.Event{Kind: audit.KindSignIn, Principal: p, Subject: audit.Subject{Name: ev.Path},
		Decision: audit.Decision{Effect: "allow", Policy: "sign-in"}}
	if !ev.Accepted {
		e.Outcome, e.ErrorKind = audit.Failed, tool.Denied
		e.Decision = audit.Decision{Effect: "deny", Policy: "sign-in", Reason: ev.Reason + ": " + ev.Detail}
		if ev.More > 0 {
			detail["more"] = strconv.Itoa(ev.More) // refusals since the last record, too many for one each
		}
		d.log.Warn("sign-in refused", "reason", ev.Reason, "principal", p.ID, "claimed", ev.Claimed, "remote",
			ev.Remote, "path", ev.Path, "more", ev.More)
	}
	maps.DeleteFunc(detail, func(_, v string) bool { return v == "" })
	e.Detail = detail
	// What the caller does next has its own record, or isn't done. So a missing record of the
	// sign-in allows nothing.
	if _, err := d.audit.Event(context.Background(), e); err != nil {
		d.log.Error("sign-in not recorded", "err", err)
	}
}

// recordedKeys records each change of the API keys before it is made.
type recordedKeys struct {
	*identity.Keys
	audit     *audit.Log
	upstreams *upstreams // their sign-ins of revoked keys are deleted
}

// Create creates a key.
func (k recordedKeys) Create(ctx context.Context, want identity.Key) (made *identity.Key, text string, err error) {
	detail := map[string]string{"person": want.Person, "roles": strings.Join(want.Roles, " "),
		"scopes": strings.Join(want.Scopes, " "), "tools": strings.Join(want.Tools, " "),
		"groups": strings.Join(want.Groups, ", ")}
	if !want.Expires.IsZero() {
		detail["expires"] = want.Expires.UTC().Format(time.RFC3339)
	}
	err = k.recordChange(ctx, "create", want.Name, detail, func() error {
		if err := checkLimit(ctx); err != nil {
			return err
		}
		made, text, err = k.Keys.Create(ctx, want)
		return err
	})
	return made, text, err
}

// Rotate replaces a key's secret.
func (k recordedKeys) Rotate(ctx context.Context, name string, grace time.Duration) (rotated *identity.Key,
	text string, err error) {
	err = k.recordChange(ctx, "rotate", name, map[string]string{"grace": grace.String()}, func() error {
		if err := checkLimit(ctx); err != nil {
			return err
		}
		rotated, text, err = k.Keys.Rotate(ctx, name, grace)
		return err
	})
	return rotated, text, err
}

// Revoke revokes a key.
func (k recordedKeys) Revoke(ctx context.Context, name string) (revoked *identity.Key, err error) {
	err = k.recordChange(ctx, "revoke", name, map[string]string{}, func() error {
		revoked, err = k.Keys.Revoke(ctx, name)
		return err
	})
	if err == nil {
		k.upstreams.forgetPrincipal(ctx, revoked.Principal().ID)
	}
	return revoked, err
}

// checkLimit returns an error if the caller's key is limited to some tools. With the text of
// another key, the caller could use the other tools.
func checkLimit(ctx context.Context) error {
	if p, _ := identity.PrincipalFrom(ctx); len(p.Tools) > 0 {
		return tool.Errorf(tool.Denied, "%s is limited to tools, so it can't create or rotate keys: use an admin's "+
			"key without such a limit, or the command line on the machine", p.ID)
	}
	return nil
}

// recordChange records a change, then makes it. If the change fails, another record says so.
func (k recordedKeys) recordChange(ctx context.Context, action, name string, detail map[string]string,
	change func() error) error {
	p, _ := identity.PrincipalFrom(ctx)
	detail["action"] = action
	maps.DeleteFunc(detail, func(_, v string) bool { return v == "" })
	e := audit.Event{Kind: audit.KindKey, Principal: p, Subject: audit.Subject{Name: name}, Detail: detail}
	if _, err := k.audit.Event(ctx, e); err != nil {
		return tool.Errorf(tool.Internal, "key %s was not changed: the change can't be recorded: %w", name, err)
	}
	err := change()
	if err != nil {
		e.Outcome, e.ErrorKind = audit.Failed, tool.AsError(err).Kind
		if _, rerr := k.audit.Event(ctx, e); rerr != nil {
			return errors.Join(err, rerr)
		}
	}
	return err
}

// addAuthentication adds authentication and the API keys to the configuration of the HTTP API.
func (d assembly) addAuthentication(a *identity.Authenticator, c httpapi.Config) httpapi.Config {
	c.Keys, c.AnyHost = recordedKeys{d.keys, d.audit, d.upstreams}, d.cfg.Settings.AnyHost()
	c.SecretKeeper = d.upstreams.secrets
	if a != nil {
		c.Authenticator, c.Resource = a, a.Metadata()
	}
	return c
}

// listener returns the handler of the TCP address.
func (d *Daemon) listener() http.Handler {
	if d.cfg.Settings.Auth == nil {
		return d.sandboxes.servePreviews(d.servers.http.Loopback())
	}
	return d.sandboxes.servePreviews(d.servers.http.Network())
}

// listenTCP listens on an address, with TLS if that is configured.
func (d *Daemon) listenTCP(addr string) (net.Listener, error) {
	s := d.cfg.Settings
	if err := identity.CheckExposure(addr, s.Auth != nil, s.TLS.Private()); err != nil {
		return nil, err
	}
	var pair *certificate
	if s.TLS.Cert != "" {
		pair = &certificate{cert: s.TLS.Cert, key: s.TLS.Key, log: d.log}
		if _, err := pair.get(nil); err != nil {
			return nil, tool.Errorf(tool.Invalid, "tls: %w", err)
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "listen on %s: %w", addr, err)
	}
	if pair == nil {
		return l, nil
	}
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get,
		NextProtos: []string{"http/1.1"}}), nil
}

// URL returns the base URL of the TCP address; empty if there is none.
func (d *Daemon) URL() string {
	switch {
	case d.servers.tcp == nil:
		return ""
	case d.cfg.Settings.TLS.Cert != "":
		return "https://" + d.Addr()
	}
	return "http://" + d.Addr()
}

// certificateEvery is how long a certificate is used before its files are checked for changes. A
// renewed certificate is thus used without a restart.
const certificateEvery = time.Minute

// A certificate is the server's certificate, loaded from two files.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	pair    *tls.Certificate
	looked  time.Time
	written time.Time // modification time of the files of pair
}

// get returns the certificate. If the files have become unusable, it returns the previous one.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair != nil && time.Since(c.looked) < certificateEvery {
		return c.pair, nil
	}
	c.looked = time.Now()
	written, err := c.times()
	if err == nil && (c.pair == nil || !written.Equal(c.written)) {
		var pair tls.Certificate
		if pair, err = tls.LoadX509KeyPair(c.cert, c.key); err == nil {
			c.pair, c.written = &pair, written
		}
	}
	if err != nil && c.pair == nil {
		return nil, err
	}
	if err != nil {
		c.log.Error("certificate not reloaded: the previous one stays in use", "err", err)
	}
	return c.pair, nil
}

// times returns the modification time of the newer file.
func (c *certificate) times() (newest time.Time, err error) {
	for _, f := range []string{c.cert, c.key} {
		fi, err := os.Stat(f)
		if err != nil {
			return newest, err
		}
		if fi.ModTime().After(newest) {
			newest = fi.ModTime()
		}
	}
	return newest, nil
}

// principalOf returns the principal of a request that the HTTP API has passed to MCP.
func principalOf(r *http.Request) (tool.Principal, error) {
	p, ok := identity.PrincipalFrom(r.Context())
	if !ok {
		return tool.Principal{}, tool.Errorf(tool.Denied, "it is not known who asks")
	}
	return p, nil
}
