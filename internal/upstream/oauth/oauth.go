// Package oauth signs in to HTTP servers that require OAuth 2.1 access tokens, as specified in the
// authorization chapter of MCP (revisions 2025-11-25 and 2026-07-28), and renews the tokens.
//
// A Client serves one server. A person signs in with a Flow. It uses protected resource metadata
// (RFC 9728), authorization server metadata (RFC 8414, OpenID Connect Discovery), and a client
// registered by hand, by a metadata document or dynamically (RFC 7591). It uses the authorization
// code grant with PKCE (RFC 7636) and a redirect to this machine (RFC 8252). The tokens are kept in
// a Store for this server's address only. One process at a time refreshes them.
//
// Servers are not trusted. Their addresses must be https (http on loopback only if the server
// itself is on loopback). Their answers are limited in size. Redirects to other origins are not
// followed. A token is sent only to the origin it was issued for.
package oauth

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Config describes the server to sign in to. Name, URL and Store must be set.
type Config struct {
	Name  string // of the upstream
	URL   string // of the server that tokens are for
	Owner string // whose sign-in it is; empty: shared. Store has only the owner's sign-ins

	// ClientID was registered by hand, or is the https address of a metadata document. If it is
	// empty, a client is registered dynamically.
	ClientID     string
	ClientSecret string // for ClientID; "" for a public client
	// Issuer is the only authorization server that may be used. It is required with ClientSecret,
	// which is meant for it, unless Described is set.
	Issuer string
	// Described means that the description of an API names the authorization server: see
	// RecordServer. Nothing is discovered or registered. ClientID is required.
	Described bool
	Scopes    []string // to ask for, instead of the scopes that the server names
	// RedirectPort is the local port of the redirect, if the server requires a certain one; 0: any
	// free port.
	RedirectPort int

	Store Store
	// Alone means that no other process uses Store now. A process that started to renew a sign-in
	// and didn't finish is then dead, and is not waited for.
	Alone      bool
	ClientName string       // name sent to servers; "" is Biplane
	HTTPClient *http.Client // its transport is used, for example with other certificates; nil uses a new one
	Log        *slog.Logger // nil discards
	Mask       *mask.Masker // receives the credentials; may be nil
}

// A Store stores sign-ins: text by upstream and resource. A revision identifies one state of an
// entry. Save fails with tool.Conflict if the entry is no longer in the caller's revision, so that
// of two processes only one succeeds.
type Store interface {
	// Load returns the text and its revision. Both are empty if there is none.
	Load(ctx context.Context, upstream, resource string) (text []byte, revision string, err error)
	// Save replaces the revision previous (empty: none) and returns the new revision.
	Save(ctx context.Context, upstream, resource string, text []byte, previous string) (revision string, err error)
	// Forget deletes all entries of an upstream.
	Forget(ctx context.Context, upstream string) error
}

// A Client manages the sign-in to one server. It is safe for concurrent use.
type Client struct {
	cfg     Config
	server  *url.URL
	web     *authClient
	log     *slog.Logger
	changed chan struct{} // capacity 1
	turn    chan struct{} // capacity 1: its holder may renew

	mu        sync.Mutex
	held      storedGrant // as last loaded or saved
	changes   int         // of held in this process: a state loaded before the last change is stale
	refused   string      // the token that the server refused
	challenge challenge
	described *Server  // see RecordServer
	hidden    []string // credentials that must not be shown, newest last
	renewed   time.Time
	forced    time.Time // time of the last renewal caused by a server's refusal
	failed    error     // of the last renewal, for a while
	failedAt  time.Time
}

// New returns a Client after validating the configuration. It starts nothing and sends no requests.
func New(cfg Config) (*Client, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Host == "" {
		return nil, tool.Errorf(tool.Invalid, "upstream %q: the url can't be read", cfg.Name)
	}
	if cfg.ClientName == "" {
		cfg.ClientName = "Biplane"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	log := cfg.Log.With("upstream", cfg.Name)
	if cfg.Owner != "" {
		log = log.With("owner", cfg.Owner)
	}
	c := &Client{
		cfg: cfg, server: u, web: newAuthClient(cfg.HTTPClient, u), log: log,
		changed: make(chan struct{}, 1), turn: make(chan struct{}, 1),
	}
	c.rememberSecrets(cfg.ClientSecret)
	return c, nil
}

// resourceAddress returns the address that tokens are stored for: the server's without its query,
// which may hold credentials.
func (c *Client) resourceAddress() string { return canonicalResource(c.server) }

// ReleaseTokens ends the use of c, so that a Masker need not hold the tokens of clients that no one
// uses. The tokens then count as recent values.
func (c *Client) ReleaseTokens() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rememberSecrets(c.held.Access, c.held.Refresh, c.held.Client.Secret)
	c.holdSignIn(storedGrant{})
	c.changes++
}

// Changes returns a channel that receives a value when a user signs in or out in this process. It
// supports one receiver at a time.
func (c *Client) Changes() <-chan struct{} { return c.changed }

func (c *Client) notifyChange() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Token returns the current access token, refreshed if it is about to expire, or "" if a person has
// to sign in. With renew it returns another token than the refused one.
func (c *Client) Token(ctx context.Context, renew bool) (string, error) {
	if checkSecure(c.server, isLoopback(c.server)) != nil {
		return "", nil // a token would travel in the clear
	}
	c.mu.Lock()
	h, refused := c.held, c.refused
	c.mu.Unlock()
	if h.isUsable(time.Now()) && h.Access != refused {
		return h.Access, nil
	}
	return c.renewToken(ctx, renew)
}

// RecordRefusal records that the server refused a request that carried token ("" for none) with
// status, and its reason. It stores missing scopes, since a person may sign in through another
// process.
func (c *Client) RecordRefusal(token string, status int, h http.Header) {
	ch := parseChallenge(h.Values("WWW-Authenticate"))
	c.mu.Lock()
	if status == http.StatusUnauthorized && token != "" {
		c.refused = token
	}
	c.challenge = ch
	c.mu.Unlock()
	if token == "" || ch.code != "insufficient_scope" || len(ch.scopes) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if err := c.storeScopes(ctx, ch.scopes); err != nil {
		c.log.Warn("missing scopes not stored", "err", err)
	}
}

// SignedIn reports whether there is a sign-in. wants are the scopes that the server has found
// missing since (insufficient_scope).
func (c *Client) SignedIn(ctx context.Context) (in bool, wants []string, err error) {
	h, err := c.loadSignIn(ctx)
	return h.Access != "" || h.Refresh != "", h.Wants, err
}

// Redact removes the credentials from a text that may come from a server.
func (c *Client) Redact(s string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, secret := range c.hidden {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}

// maxHidden is the number of credentials remembered for Redact.
const maxHidden = 16

// rememberSecrets remembers credentials for Redact. c.mu must be held, unless c is not shared yet.
func (c *Client) rememberSecrets(secrets ...string) {
	for _, s := range secrets {
		if len(s) < 8 {
			continue
		}
		c.cfg.Mask.AddRecent(s)
		c.hidden = append(c.hidden, s)
	}
	c.hidden = c.hidden[max(0, len(c.hidden)-maxHidden):]
}

// Forget signs out. It deletes the sign-in, and asks the authorization server to revoke the tokens
// (RFC 7009) if it supports that. revoked reports whether it did; err is only about the deletion.
func (c *Client) Forget(ctx context.Context) (revoked bool, err error) {
	h, lerr := c.loadSignIn(ctx)
	if err := c.cfg.Store.Forget(ctx, c.cfg.Name); err != nil {
		return false, err
	}
	c.mu.Lock()
	c.holdSignIn(storedGrant{})
	c.refused, c.challenge = "", challenge{}
	c.changes++
	c.mu.Unlock()
	c.notifyChange()
	if lerr != nil || h.Revocation == "" || h.Access == "" && h.Refresh == "" {
		return false, nil
	}
	if err := c.web.revokeTokens(ctx, &h.grant); err != nil {
		c.log.Warn("tokens not revoked", "err", c.Redact(err.Error()))
		return false, nil
	}
	return true, nil
}
