package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxIssuers is the maximum number of authorization servers of one server that are tried.
const maxIssuers = 3

// A resourceMeta holds the fields in use of protected resource metadata (RFC 9728 section 2).
type resourceMeta struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// A serverMeta holds the fields in use of authorization server metadata (RFC 8414 section 2, RFC
// 9207 section 3).
type serverMeta struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Registration  string   `json:"registration_endpoint"`
	Revocation    string   `json:"revocation_endpoint"`
	Scopes        []string `json:"scopes_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Documents     bool     `json:"client_id_metadata_document_supported"`
	SaysIssuer    bool     `json:"authorization_response_iss_parameter_supported"`

	described bool   // it has no metadata; Issuer is the origin of Authorization
	renewal   string // endpoint for refresh tokens, if it is not Token
}

// findResource fetches the server's metadata from the address in its challenge, or else from the
// well-known addresses. A server without metadata, as in revision 2025-03-26, is assumed to be its
// own authorization server; guessed is then true.
func (c *Client) findResource(ctx context.Context, ch challenge) (_ *resourceMeta, guessed bool, err error) {
	places, err := c.resourcePlaces(ch)
	if err != nil {
		return nil, false, err
	}
	for i, u := range places {
		a, err := c.web.getURL(ctx, u)
		if err != nil {
			return nil, false, err
		}
		if !a.isOK() {
			if a.status >= http.StatusInternalServerError || a.status == http.StatusTooManyRequests {
				return nil, false,
					tool.Errorf(tool.Unavailable, "the protected resource metadata at %s can't be fetched: status %d",
						shortLine(u.Scheme+"://"+u.Host+u.EscapedPath()), a.status)
			}
			continue
		}
		var m resourceMeta
		if err := a.decodeJSON(&m); err != nil {
			if ch.metadata == "" || i > 0 { // some servers answer every path with a page
				continue
			}
			return nil, false, tool.Errorf(tool.Unavailable, "protected resource metadata: %w", err)
		}
		return &m, false, c.checkResource(&m)
	}
	origin := url.URL{Scheme: c.server.Scheme, Host: c.server.Host}
	return &resourceMeta{Resource: c.resourceAddress(), Servers: []string{origin.String()}}, true, nil
}

// resourcePlaces returns the addresses to try for the server's metadata, in order.
func (c *Client) resourcePlaces(ch challenge) ([]*url.URL, error) {
	var places []*url.URL
	if ch.metadata != "" {
		u, err := parseAddress("resource_metadata that it names", ch.metadata, c.web.local)
		if err != nil {
			return nil, err
		}
		places = append(places, u)
	}
	const suffix = "oauth-protected-resource"
	for _, u := range []*url.URL{wellKnown(c.server, suffix),
		wellKnown(&url.URL{Scheme: c.server.Scheme, Host: c.server.Host}, suffix)} {
		if !slices.ContainsFunc(places, func(p *url.URL) bool { return p.String() == u.String() }) {
			places = append(places, u)
		}
	}
	return places, nil
}

// checkResource returns an error if the metadata is not this server's.
func (c *Client) checkResource(m *resourceMeta) error {
	u, err := parseAddress("resource in its metadata", m.Resource, c.web.local)
	if err != nil {
		return err
	}
	if !coversServer(u, c.server) {
		return tool.Errorf(tool.Denied,
			"its metadata describes another resource, %s: tokens for that resource are not valid for this one",
			shortLine(m.Resource))
	}
	if len(m.Servers) == 0 {
		return tool.Errorf(tool.Unavailable, "its metadata names no authorization server")
	}
	m.Scopes = cleanScopes(m.Scopes)
	return nil
}

// findMetadata fetches the metadata of the server and of its authorization server.
func (c *Client) findMetadata(ctx context.Context, ch challenge) (*resourceMeta, *serverMeta, error) {
	if c.cfg.Described {
		return c.readDescription(ctx)
	}
	rm, guessed, err := c.findResource(ctx, ch)
	if err != nil {
		return nil, nil, err
	}
	issuers, err := c.restrictIssuers(rm.Servers)
	if err != nil {
		return nil, nil, err
	}
	m, err := c.findServer(ctx, issuers)
	if errors.Is(err, errNoMetadata) && guessed {
		err = tool.Errorf(tool.Unavailable, "it doesn't say how to sign in: if it requires a key or a token, set it "+
			"in mcpServers.%s.headers (Authorization: \"Bearer ${TOKEN}\")", c.cfg.Name)
	}
	return rm, m, err
}

// restrictIssuers restricts issuers to the one in the configuration, if there is one.
func (c *Client) restrictIssuers(issuers []string) ([]string, error) {
	if c.cfg.Issuer == "" {
		return issuers, nil
	}
	if i := slices.IndexFunc(issuers, func(s string) bool { return sameIssuer(s, c.cfg.Issuer) }); i >= 0 {
		return issuers[i : i+1], nil
	}
	return nil, tool.Errorf(tool.Denied, "it requires sign-in at %s, but mcpServers.%s.oauth.issuer allows only %s: "+
		"if it has moved, register Biplane there, and change client_id and issuer",
		shortLine(strings.Join(issuers, ", ")), c.cfg.Name, shortLine(c.cfg.Issuer))
}

// sameIssuer compares issuers. It ignores a trailing slash, which some libraries add to every
// address.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// errNoMetadata means that an authorization server has no metadata.
var errNoMetadata = errors.New("no metadata (RFC 8414, OpenID Connect Discovery)")

// findServer fetches and checks the metadata of the first authorization server that has valid
// metadata.
func (c *Client) findServer(ctx context.Context, issuers []string) (*serverMeta, error) {
	var first error
	for _, issuer := range issuers[:min(len(issuers), maxIssuers)] {
		m, err := c.serverAt(ctx, issuer)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// serverAt fetches the metadata of one authorization server, from the addresses and in the order of
// the specification.
func (c *Client) serverAt(ctx context.Context, issuer string) (*serverMeta, error) {
	u, err := parseAddress("authorization server that it names", issuer, c.web.local)
	if err != nil {
		return nil, err
	}
	places := []*url.URL{wellKnown(u, "oauth-authorization-server"), wellKnown(u, "openid-configuration")}
	if strings.Trim(u.Path, "/") != "" {
		places = append(places, u.JoinPath("/.well-known/openid-configuration"))
	}
	for _, place := range places {
		place.RawQuery = ""
		a, err := c.web.getURL(ctx, place)
		if err != nil {
			return nil, err
		}
		var m serverMeta
		if !a.isOK() || a.decodeJSON(&m) != nil {
			continue
		}
		if err := c.checkServer(&m, issuer); err != nil {
			return nil, err
		}
		return &m, nil
	}
	return nil, tool.Errorf(tool.Unavailable, "authorization server %s has %w", shortLine(issuer), errNoMetadata)
}

// checkServer returns an error if the metadata must not be used. Its issuer must be the one that
// the metadata was requested from (RFC 8414 section 3.3).
func (c *Client) checkServer(m *serverMeta, issuer string) error {
	if !sameIssuer(m.Issuer, issuer) {
		return tool.Errorf(tool.Denied, "the metadata at authorization server %s describes another server, %s",
			shortLine(issuer), shortLine(m.Issuer))
	}
	if !slices.Contains(m.Challenges, "S256") {
		return tool.Errorf(tool.Denied, "authorization server %s does not declare PKCE with S256, without which "+
			"codes can be stolen: its operator must add code_challenge_methods_supported", shortLine(issuer))
	}
	for what, e := range map[string]*string{
		"authorization endpoint": &m.Authorization, "token endpoint": &m.Token,
		"registration endpoint": &m.Registration, "revocation endpoint": &m.Revocation,
	} {
		optional := e == &m.Registration || e == &m.Revocation
		if *e == "" && optional {
			continue
		}
		u, err := parseAddress(what+" of authorization server "+shortLine(issuer), *e, c.web.local)
		if err != nil {
			return err
		}
		*e = u.String()
	}
	return nil
}
