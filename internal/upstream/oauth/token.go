package oauth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxToken is the maximum length of a token, in bytes.
const maxToken = 32 << 10

// A grant is the result of a sign-in, with everything needed to use it: the issuer, the resource
// and the client.
type grant struct {
	Resource   string       `json:"resource"` // that the tokens were requested for; empty: none was named
	Issuer     string       `json:"issuer"`
	Endpoint   string       `json:"token_endpoint"`
	Renewal    string       `json:"refresh_endpoint,omitempty"` // if it is another one
	Revocation string       `json:"revocation_endpoint,omitempty"`
	Client     registration `json:"client"`
	Scopes     []string     `json:"scopes,omitempty"` // that were requested
	Access     string       `json:"access_token,omitempty"`
	Refresh    string       `json:"refresh_token,omitempty"`
	Expires    time.Time    `json:"expires,omitzero"` // zero: unknown
}

// requestTokens sends form to the token endpoint, for the grant's resource and as its client, and
// stores the new tokens in g (RFC 6749 section 5). If it fails, g is unchanged. An error response
// is a
// *protocolError.
func (w *authClient) requestTokens(ctx context.Context, g *grant, form url.Values) error {
	if g.Resource != "" {
		form.Set("resource", g.Resource)
	}
	to := g.Endpoint
	if form.Has("refresh_token") {
		to = cmp.Or(g.Renewal, g.Endpoint)
	}
	a, err := w.postForm(ctx, to, g.Client, form)
	if err != nil {
		return err
	}
	if !a.isOK() {
		return a.toError()
	}
	var t struct {
		Access  string      `json:"access_token"`
		Type    string      `json:"token_type"`
		Refresh string      `json:"refresh_token"`
		Expires json.Number `json:"expires_in"`
	}
	if err := a.decodeJSON(&t); err != nil {
		return err
	}
	switch {
	case t.Access == "" && a.toError().Code != "": // some servers report errors with status 200
		return a.toError()
	case !isUsableToken(t.Access):
		return tool.Errorf(tool.Unavailable, "the authorization server returned no usable access token")
	case !strings.EqualFold(t.Type, "Bearer"):
		return tool.Errorf(tool.Unavailable, "the authorization server returned a token of type %q, not Bearer",
			shortLine(t.Type))
	case len(t.Refresh) > maxToken:
		return tool.Errorf(tool.Unavailable, "the authorization server returned a refresh token of %d bytes",
			len(t.Refresh))
	}
	g.Access, g.Expires = t.Access, time.Time{}
	if seconds, err := strconv.ParseFloat(t.Expires.String(), 64); err == nil && seconds > 0 {
		g.Expires = time.Now().Add(time.Duration(min(max(seconds, 5), 1e8) * float64(time.Second))).UTC()
	}
	if t.Refresh != "" { // otherwise the old one stays valid (RFC 6749 section 6)
		g.Refresh = t.Refresh
	}
	return nil
}

// isUsableToken reports whether a token can be sent in a header (RFC 6750 section 2.1, leniently).
func isUsableToken(token string) bool {
	return token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, func(r rune) bool {
		return r <= 0x20 || r > 0x7e
	})
}

// postForm posts a form as client.
func (w *authClient) postForm(ctx context.Context, to string, client registration, form url.Values) (*answer, error) {
	set := func(http.Header) {}
	switch client.Method {
	case authBasic:
		id, secret := url.QueryEscape(client.ID), url.QueryEscape(client.Secret) // RFC 6749 section 2.3.1
		set = func(h http.Header) {
			r := http.Request{Header: h}
			r.SetBasicAuth(id, secret)
		}
	case authPost:
		form.Set("client_id", client.ID)
		form.Set("client_secret", client.Secret)
	default:
		form.Set("client_id", client.ID)
	}
	return w.postBody(ctx, to, "application/x-www-form-urlencoded", []byte(form.Encode()), set)
}

// refreshGrant requests new tokens with the refresh token.
func (w *authClient) refreshGrant(ctx context.Context, g *grant) error {
	return w.requestTokens(ctx, g, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}})
}

// isFinal reports whether an error of refresh means that the refresh token is permanently invalid.
func isFinal(err error) bool {
	var e *protocolError
	if !errors.As(err, &e) {
		return false
	}
	switch e.Code {
	case "invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope", "invalid_target",
		"unsupported_grant_type":
		return true
	}
	return false
}

// revokeTokens revokes the tokens at the authorization server (RFC 7009), the refresh token first.
func (w *authClient) revokeTokens(ctx context.Context, g *grant) error {
	var errs []error
	for _, t := range []struct{ hint, token string }{{"refresh_token", g.Refresh}, {"access_token", g.Access}} {
		if t.token == "" {
			continue
		}
		a, err := w.postForm(ctx, g.Revocation, g.Client, url.Values{"token": {t.token}, "token_type_hint": {t.hint}})
		if err == nil && !a.isOK() {
			err = a.toError()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
