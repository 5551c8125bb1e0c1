package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
)

// maxToken is the maximum size of a token answer, in bytes.
const maxToken = 256 << 10

// A Credential is the configured credential for an API, or for one of its security schemes.
type Credential struct {
	Value              string // of an API key, or a token
	Username, Password string // for basic authentication
	// ClientID and ClientSecret are those of the client credentials grant (RFC 6749, section 4.4),
	// unless SignIn is set.
	ClientID, ClientSecret string
	TokenURL               string // instead of the one that the API names
	Scopes                 []string

	// SignIn means that a person signs in (RFC 6749, section 4.1), with ClientID and ClientSecret.
	SignIn           bool
	AuthorizationURL string // instead of the one that the API names
	Issuer           string // whose metadata name the endpoints; empty: the API or the URLs do
	RedirectPort     int    // see oauth.Config
}

// AddTo adds the secrets to a mask, since a server might repeat them.
func (c *Credential) AddTo(m *mask.Masker) {
	for _, s := range []string{c.Value, c.Password, c.ClientSecret} {
		if s != "" {
			m.Add(s)
		}
	}
}

// IsRenewable reports whether the credential has tokens that can be requested again.
func (c *Credential) IsRenewable() bool { return c.ClientID != "" && c.Value == "" }

// Tokens holds the tokens of the client credentials grant.
type Tokens struct {
	clients *Clients
	mask    *mask.Masker
	turn    chan struct{} // capacity 1: its holder may use what is below, and request tokens
	held    map[string]heldToken
}

type heldToken struct {
	text    string
	expires time.Time
}

// NewTokens returns an empty store of tokens, which are added to a mask.
func NewTokens(c *Clients, m *mask.Masker) *Tokens {
	return &Tokens{clients: c, mask: m, turn: make(chan struct{}, 1), held: map[string]heldToken{}}
}

// A Grant says where to request a token.
type Grant struct {
	Key      string // of the credential among those of the upstream
	Endpoint *url.URL
	Trusted  bool // the configuration names the endpoint's host
	Scopes   []string
}

// GetToken returns an access token. With renew, it requests another one.
func (k *Tokens) GetToken(ctx context.Context, c Credential, g Grant, renew bool) (string, error) {
	if len(c.Scopes) > 0 {
		g.Scopes = c.Scopes
	}
	to := g.Endpoint
	if to.Host == "" || to.Scheme != "https" && (to.Scheme != "http" || !isLoopback(to)) {
		return "", tool.Errorf(tool.Invalid, "the token endpoint %q is not an https URL", ClipText(to.Host+to.Path))
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return "", tool.AsError(context.Cause(ctx))
	}
	key := g.Key + " " + strings.Join(g.Scopes, " ")
	if h := k.held[key]; h.text != "" && !renew && time.Now().Before(h.expires) {
		return h.text, nil
	}
	h, err := k.requestToken(ctx, c, g)
	if err != nil {
		return "", err
	}
	k.held[key] = h
	k.mask.AddRecent(h.text)
	return h.text, nil
}

// requestToken requests a token with the client credentials grant.
func (k *Tokens) requestToken(ctx context.Context, c Credential, g Grant) (heldToken, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(g.Scopes) > 0 {
		form.Set("scope", strings.Join(g.Scopes, " "))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.Endpoint.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return heldToken{}, tool.Errorf(tool.Invalid, "token endpoint: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	resp, err := k.clients.ClientFor(g.Trusted).Do(r)
	if err != nil {
		return heldToken{}, ExplainFailure(ctx, g.Endpoint, err)
	}
	text, err := ReadAnswer(ctx, resp, g.Endpoint, maxToken)
	if err != nil {
		return heldToken{}, err
	}
	var t struct {
		Access  string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Expires float64 `json:"expires_in"`
		Error   string  `json:"error"`
		Why     string  `json:"error_description"`
	}
	err = json.Unmarshal(text, &t)
	if resp.StatusCode/100 != 2 || err != nil || t.Access == "" || !strings.EqualFold(t.Type, "bearer") ||
		strings.ContainsFunc(t.Access, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return heldToken{}, tool.Errorf(tool.Unavailable,
			"the token endpoint %s returned no bearer token (status %d): %s",
			g.Endpoint.Host, resp.StatusCode, CleanLine(strings.TrimSpace(t.Error+" "+t.Why), 200))
	}
	life := time.Duration(min(max(t.Expires, 0), 1e8) * float64(time.Second))
	if life == 0 {
		life = 5 * time.Minute
	}
	return heldToken{t.Access, time.Now().Add(life - min(life/10, 30*time.Second))}, nil
}
