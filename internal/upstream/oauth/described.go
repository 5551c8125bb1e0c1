package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Server is an authorization server that the description of an API or the configuration names.
// Its endpoints may receive the client's secret: the caller has checked that.
type Server struct {
	// Issuer has metadata, which are used instead of the endpoints. Empty: the endpoints are used.
	Issuer string
	// OwnOrigin means that the metadata may name endpoints at the origin of Issuer only, since the
	// configuration doesn't name it.
	OwnOrigin     bool
	Authorization string   // endpoint
	Token         string   // endpoint
	Renewal       string   // endpoint for refresh tokens; empty: Token
	Scopes        []string // that the API's operations need
}

// RecordServer records the authorization server of an API with Config.Described. Until then no one
// can sign in.
func (c *Client) RecordServer(s *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.described = s
}

// readDescription returns the metadata of the recorded authorization server. There is no resource:
// the servers that descriptions name often reject that parameter.
func (c *Client) readDescription(ctx context.Context) (*resourceMeta, *serverMeta, error) {
	c.mu.Lock()
	s := c.described
	c.mu.Unlock()
	if s == nil {
		return nil, nil, tool.Errorf(tool.Unavailable, "its description, which says where to sign in, is not loaded")
	}
	rm := &resourceMeta{Scopes: cleanScopes(s.Scopes)}
	if s.Issuer != "" {
		m, err := c.serverAt(ctx, s.Issuer)
		if err == nil && s.OwnOrigin {
			err = m.restrictEndpoints()
		}
		return rm, m, err
	}
	m := &serverMeta{Authorization: s.Authorization, Token: s.Token, renewal: s.Renewal, described: true}
	for _, e := range []struct {
		what string
		text *string
	}{{"authorization endpoint", &m.Authorization}, {"token endpoint", &m.Token}, {"refresh endpoint", &m.renewal}} {
		if *e.text == "" && e.text == &m.renewal {
			continue
		}
		u, err := parseAddress(e.what, *e.text, c.web.local)
		if err != nil {
			return nil, nil, err
		}
		*e.text = u.String()
		if e.text == &m.Authorization {
			m.Issuer = (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
		}
	}
	return rm, m, nil
}

// restrictEndpoints returns an error if an endpoint is not at the origin of the issuer. Without a
// revocation endpoint there, tokens are not revoked.
func (m *serverMeta) restrictEndpoints() error {
	own, err := url.Parse(m.Issuer)
	if err != nil {
		return err
	}
	isOwn := func(text string) bool {
		u, err := url.Parse(text)
		return err == nil && sameOrigin(u, own)
	}
	for _, text := range []string{m.Authorization, m.Token} {
		if !isOwn(text) {
			return tool.Errorf(tool.Denied, "the document names the OpenID provider %s, whose endpoint %s is on "+
				"another host: if people sign in there, set issuer in the configuration", shortLine(m.Issuer),
				shortLine(text))
		}
	}
	if !isOwn(m.Revocation) {
		m.Revocation = ""
	}
	return nil
}

// isIssuer reports whether an authorization response that names its issuer comes from this server
// (RFC 9207). The issuer of a described server is unknown; it must have the origin of the
// authorization endpoint.
func (m *serverMeta) isIssuer(iss string) bool {
	if !m.described {
		return iss == m.Issuer
	}
	u, err := url.Parse(iss)
	own, ownErr := url.Parse(m.Issuer)
	return err == nil && ownErr == nil && sameOrigin(u, own)
}

// requestFirst exchanges a code for tokens. A described server doesn't say how clients
// authenticate. If it refuses Basic authentication, the secret is sent in the form, as many servers
// require.
func (f *Flow) requestFirst(ctx context.Context, g *grant, form url.Values) error {
	err := f.c.web.requestTokens(ctx, g, form)
	if !f.meta.described || g.Client.Method != authBasic || !refusesClient(err) {
		return err
	}
	g.Client.Method = authPost
	return f.c.web.requestTokens(ctx, g, form)
}

// refusesClient reports whether an authorization server refused a client before it looked at the
// code (RFC 6749, section 5.2, and what GitHub answers).
func refusesClient(err error) bool {
	var e *protocolError
	return errors.As(err, &e) && (e.Code == "invalid_client" || e.Code == "incorrect_client_credentials" ||
		e.Code == "" && e.status == http.StatusUnauthorized)
}
