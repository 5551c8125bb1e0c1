package openapi

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/oauth"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// A SignIn holds the tokens of people who sign in to an API, whose document says where.
type SignIn interface {
	web.SignIn
	// RecordServer is called with the authorization server when the document is loaded.
	RecordServer(s *oauth.Server)
}

// maxScopes is the maximum number of scopes that people are asked for.
const maxScopes = 100

// wellKnownSuffix ends the address of the metadata of an OpenID provider.
const wellKnownSuffix = "/.well-known/openid-configuration"

// recordSignIn tells the SignIn where people sign in, and for which scopes.
func (u *Upstream) recordSignIn(t *table) error {
	for _, name := range slices.Sorted(maps.Keys(u.cfg.Auth)) {
		c := u.cfg.Auth[name]
		if !c.SignIn || u.cfg.SignIn == nil {
			continue
		}
		s, err := u.findServer(t, t.schemes[name], c)
		if err != nil {
			return fmt.Errorf("auth.%s: %w", name, err)
		}
		if s.Scopes, err = t.collectScopes(name, u.cfg.Auth); err != nil && len(c.Scopes) == 0 {
			return fmt.Errorf("auth.%s: %w", name, err)
		}
		u.cfg.SignIn.RecordServer(s)
	}
	return nil
}

// findServer returns the authorization server that the configuration or a security scheme names.
func (u *Upstream) findServer(t *table, s *scheme, c Credential) (*oauth.Server, error) {
	if c.Issuer != "" {
		return &oauth.Server{Issuer: c.Issuer}, nil
	}
	if s.Type == "openIdConnect" && c.AuthorizationURL == "" && c.TokenURL == "" {
		to, err := u.checkEndpoint(t, "the OpenID provider", s.OpenIdConnectUrl, "issuer")
		issuer, ok := strings.CutSuffix(to, wellKnownSuffix)
		if err == nil && !ok {
			err = fmt.Errorf("its openIdConnectUrl doesn't end in %s: set issuer in the configuration", wellKnownSuffix)
		}
		return &oauth.Server{Issuer: issuer, OwnOrigin: true}, err
	}
	out := &oauth.Server{Authorization: c.AuthorizationURL, Token: c.TokenURL}
	named := s.signIn
	if named == nil {
		if out.Authorization == "" || out.Token == "" {
			return nil, fmt.Errorf("this %s scheme doesn't say where people sign in: set authorization_url and "+
				"token_url, or issuer, in the configuration", s.Type)
		}
		return out, nil
	}
	var err error
	if out.Authorization == "" {
		if out.Authorization, err = u.checkEndpoint(t, "the authorization endpoint", named.AuthorizationURL,
			"authorization_url"); err != nil {
			return nil, err
		}
	}
	if out.Token != "" { // tokens are renewed there, too
		return out, nil
	}
	if out.Token, err = u.checkEndpoint(t, "the token endpoint", named.TokenURL, "token_url"); err == nil &&
		named.RefreshURL != "" {
		out.Renewal, err = u.checkEndpoint(t, "the refresh endpoint", named.RefreshURL, "token_url")
	}
	return out, err
}

// checkEndpoint returns the address of an endpoint that a document names. It must be on a host that
// may receive credentials: another one would receive the code, the client's secret and the tokens.
func (u *Upstream) checkEndpoint(t *table, what, text, key string) (string, error) {
	to, err := url.Parse(text)
	if err != nil || text == "" {
		return "", fmt.Errorf("%s %q is not a URL: set %s in the configuration", what, web.ClipText(text), key)
	}
	base := u.servers.base
	if base == nil && len(t.servers) > 0 {
		base, _ = url.Parse(t.servers[0])
	}
	if base != nil {
		to = base.ResolveReference(to)
	}
	if !u.servers.isTrusted(to) {
		return "", tool.Errorf(tool.Denied, "the document names %s at %s, another host than its own: if people sign "+
			"in there, set %s in the configuration", what, web.ClipText(to.Host), key)
	}
	return to.String(), nil
}

// collectScopes returns the scopes that the operations need of a security scheme, sorted. Of
// alternatives, only the one that calls use counts.
func (t *table) collectScopes(scheme string, have map[string]Credential) ([]string, error) {
	all := map[string]bool{}
	for _, o := range t.byName {
		for _, s := range chooseRequirement(o.security, have)[scheme] {
			all[s] = true
		}
	}
	if len(all) > maxScopes {
		return nil, fmt.Errorf("the operations need %d scopes, more than %d: set those to ask for in scopes", len(all),
			maxScopes)
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// noteAnswer tells the SignIn that a token was refused, and updates the health. again means that
// the token was renewed because another one had been refused.
func (u *Upstream) noteAnswer(ctx context.Context, token string, got *reply, again bool) {
	refused := got.status == http.StatusUnauthorized
	if refused || got.status == http.StatusForbidden {
		u.cfg.SignIn.RecordRefusal(token, got.status, got.header)
	}
	if refused && again || !refused && u.Snapshot().Health.State != tool.Ready {
		u.UpdateSignIn(ctx)
	}
}
