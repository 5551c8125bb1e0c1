// Package oauth signs in to servers over HTTP that want OAuth 2.1 access tokens, as the authorization chapter of MCP says
// (revisions 2025-11-25 and 2026-07-28), and keeps the tokens good.
//
// A Client serves one server. A person signs in with a Flow: protected resource metadata (RFC 9728), authorization server
// metadata (RFC 8414, OpenID Connect Discovery), a client registered by hand, by a metadata document or dynamically (RFC
// 7591), the authorization code grant with PKCE (RFC 7636) and a redirect to this machine (RFC 8252). What comes of it is
// kept in a Store for this server's address only, and refreshed, by one process at a time.
//
// What servers say is hostile: their addresses must be https (loopback http where the server itself is on loopback), their
// answers are bounded, redirects to other origins are not followed, and a token leaves for the origin it was issued for only.
package oauth

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Config says what to sign in to. Name, URL and Store must be set.
type Config struct {
	Name string // of the upstream
	URL  string // of the server: what tokens are for

	ClientID     string   // registered by hand, or the https address of a metadata document; "" registers by itself
	ClientSecret string   // that belongs to it; "" for a public client
	Issuer       string   // the one authorization server that may be used; must be given with ClientSecret, which is for it
	Scopes       []string // to ask for, instead of those that the server names
	RedirectPort int      // of the redirect to this machine, where the server wants a certain one; 0: any that is free

	Store      Store
	Alone      bool         // no other process uses Store now: who began to renew a sign-in and didn't end is dead, and not waited for
	ClientName string       // how we introduce ourselves; "" is Biplane
	HTTPClient *http.Client // whose transport is used, for example with other certificates; nil for one of our own
	Log        *slog.Logger // nil discards
	Mask       *mask.Masker // learns the credentials; may be nil
}

// A Store keeps sign-ins: text by upstream and resource. A revision names one state of one entry; whoever saves says which
// one was seen, and fails with tool.Conflict when it is another by now, so that of two processes one wins.
type Store interface {
	// Load gives the text and its revision, both empty when there is none.
	Load(ctx context.Context, upstream, resource string) (text []byte, revision string, err error)
	// Save replaces the state previous (empty: none) and gives the new revision.
	Save(ctx context.Context, upstream, resource string, text []byte, previous string) (revision string, err error)
	// Forget deletes all entries of an upstream.
	Forget(ctx context.Context, upstream string) error
}

// A Client holds the sign-in to one server. It is safe for concurrent use.
type Client struct {
	cfg     Config
	server  *url.URL
	web     *web
	log     *slog.Logger
	changed chan struct{} // capacity 1
	turn    chan struct{} // capacity 1: who holds it may renew

	mu        sync.Mutex
	held      held   // what was last loaded or saved
	changes   int    // of held here: what was loaded before one is old
	refused   string // the token that the server did not take
	challenge challenge
	hidden    []string // credentials that must not be shown, newest last
	renewed   time.Time
	forced    time.Time // when the last renewal was that a server's refusal caused
	failed    error     // of the last renewal, for a while
	failedAt  time.Time
}

// New checks the configuration. It starts nothing and asks nobody.
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
	c := &Client{
		cfg: cfg, server: u, web: newWeb(cfg.HTTPClient, u), log: cfg.Log.With("upstream", cfg.Name),
		changed: make(chan struct{}, 1), turn: make(chan struct{}, 1),
	}
	c.hide(cfg.ClientSecret)
	return c, nil
}

// resource is what tokens are stored for: the server's address without its query, which may hold credentials.
func (c *Client) resource() string { return canonical(c.server) }

// Changed receives when somebody signed in or out here. One receiver at a time.
func (c *Client) Changed() <-chan struct{} { return c.changed }

func (c *Client) tell() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Token gives the access token that requests carry now, refreshed where it is about to expire; "" when a person has to
// sign in. With renew it gives another one than those that were refused.
func (c *Client) Token(ctx context.Context, renew bool) (string, error) {
	if checkSecure(c.server, loopback(c.server)) != nil {
		return "", nil // a token would travel in the clear
	}
	c.mu.Lock()
	h, refused := c.held, c.refused
	c.mu.Unlock()
	if h.good(time.Now()) && h.Access != refused {
		return h.Access, nil
	}
	return c.renew(ctx, renew)
}

// Refused notes that the server answered a request that carried token (or none, "") with status, and what it said. Scopes
// that it misses are stored, since it may be another process that a person signs in with.
func (c *Client) Refused(token string, status int, h http.Header) {
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
	if err := c.want(ctx, ch.scopes); err != nil {
		c.log.Warn("missing scopes not stored", "err", err)
	}
}

// SignedIn says whether there is a sign-in, and what the server asked for in vain since (insufficient_scope).
func (c *Client) SignedIn(ctx context.Context) (in bool, wants []string, err error) {
	h, err := c.load(ctx)
	return h.Access != "" || h.Refresh != "", h.Wants, err
}

// Redact takes the credentials out of a text that a server had a hand in.
func (c *Client) Redact(s string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, secret := range c.hidden {
		s = strings.ReplaceAll(s, secret, "[redacted]")
	}
	return s
}

// maxHidden bounds how many credentials are remembered for Redact.
const maxHidden = 16

// hide remembers credentials for Redact. The lock is held, or c is not shared yet.
func (c *Client) hide(secrets ...string) {
	for _, s := range secrets {
		if len(s) < 8 {
			continue
		}
		c.cfg.Mask.AddRecent(s)
		c.hidden = append(c.hidden, s)
	}
	c.hidden = c.hidden[max(0, len(c.hidden)-maxHidden):]
}

// Forget signs out: it deletes the sign-in, and tells the authorization server to revoke the tokens (RFC 7009) where it
// offers that. revoked says whether it did; err is of the deletion only.
func (c *Client) Forget(ctx context.Context) (revoked bool, err error) {
	h, lerr := c.load(ctx)
	if err := c.cfg.Store.Forget(ctx, c.cfg.Name); err != nil {
		return false, err
	}
	c.mu.Lock()
	c.hold(held{})
	c.refused, c.challenge = "", challenge{}
	c.changes++
	c.mu.Unlock()
	c.tell()
	if lerr != nil || h.Revocation == "" || h.Access == "" && h.Refresh == "" {
		return false, nil
	}
	if err := c.web.revoke(ctx, &h.grant); err != nil {
		c.log.Warn("tokens not revoked", "err", c.Redact(err.Error()))
		return false, nil
	}
	return true, nil
}
