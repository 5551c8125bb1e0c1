package oauth

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// The client authentication methods at the token endpoint (RFC 7591 section 2).
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
)

// A registration is a client as known to one authorization server.
type registration struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret,omitempty"`
	Method string `json:"token_endpoint_auth_method,omitempty"`
}

// registerClient returns a client of an authorization server: the configured one, a metadata
// document if the server supports that, or a new one. A new client is registered for every sign-in.
// It is bound to this server and redirect, and never used elsewhere.
func (c *Client) registerClient(ctx context.Context, m *serverMeta, redirectURI string,
	scopes []string) (registration, error) {
	document := isDocument(c.cfg.ClientID)
	switch {
	case c.cfg.Described:
		return registration{c.cfg.ClientID, c.cfg.ClientSecret, methodFor(m, c.cfg.ClientSecret)}, nil
	case c.cfg.ClientSecret != "" && c.cfg.Issuer == "": // any server that it names would get the secret
		return registration{},
			tool.Errorf(tool.Invalid, "it requires sign-in at %[1]s, which would receive the client_secret: if the "+
				"client is registered there, set mcpServers.%[2]s.oauth.issuer: %[1]s",
				shortLine(m.Issuer), c.cfg.Name)
	case c.cfg.ClientID != "" && !document:
		return registration{c.cfg.ClientID, c.cfg.ClientSecret, methodFor(m, c.cfg.ClientSecret)}, nil
	case document && m.Documents:
		return registration{ID: c.cfg.ClientID, Method: authNone}, nil
	case m.Registration != "":
		return c.registerNew(ctx, m, redirectURI, scopes)
	case document:
		return registration{},
			tool.Errorf(tool.Invalid, "authorization server %s accepts neither metadata documents nor new clients: "+
				"register Biplane there manually, with the redirect %s, and set the client_id in mcpServers.%s.oauth",
				shortLine(m.Issuer), redirectURI, c.cfg.Name)
	}
	return registration{}, tool.Errorf(tool.Invalid, "authorization server %s does not support automatic "+
		"registration of clients: register Biplane there manually, with the redirect http://127.0.0.1:PORT%s, and "+
		"set the client_id (and client_secret, redirect_port) in mcpServers.%s.oauth",
		shortLine(m.Issuer), callbackPath, c.cfg.Name)
}

// isDocument reports whether a client id is the address of a metadata document.
func isDocument(id string) bool {
	u, err := url.Parse(id)
	return err == nil && u.Scheme == "https" && u.Host != "" && strings.Trim(u.Path, "/") != ""
}

// methodFor returns the authentication method for a client with secret. The default is Basic (RFC
// 8414 section 2).
func methodFor(m *serverMeta, secret string) string {
	switch {
	case secret == "":
		return authNone
	case slices.Contains(m.Methods, authPost) && !slices.Contains(m.Methods, authBasic):
		return authPost
	}
	return authBasic
}

// clientMetadata is a request to register a client (RFC 7591).
type clientMetadata struct {
	ApplicationType string   `json:"application_type"`
	ClientName      string   `json:"client_name"`
	GrantTypes      []string `json:"grant_types"`
	RedirectURIs    []string `json:"redirect_uris"`
	ResponseTypes   []string `json:"response_types"`
	Scope           string   `json:"scope"`
	AuthMethod      string   `json:"token_endpoint_auth_method"`
}

func (c *Client) registerNew(ctx context.Context, m *serverMeta, redirectURI string, scopes []string) (registration,
	error) {
	want := authNone
	if len(m.Methods) > 0 && !slices.Contains(m.Methods, authNone) {
		want = methodFor(m, "some")
	}
	kind := "native"
	if strings.HasPrefix(redirectURI, "https://") { // OpenID Connect Registration section 2
		kind = "web"
	}
	body, err := json.Marshal(clientMetadata{
		ApplicationType: kind, ClientName: c.cfg.ClientName,
		GrantTypes:   []string{"authorization_code", "refresh_token"},
		RedirectURIs: []string{redirectURI}, ResponseTypes: []string{"code"},
		Scope: strings.Join(scopes, " "), AuthMethod: want,
	})
	if err != nil {
		return registration{}, err
	}
	a, err := c.web.postBody(ctx, m.Registration, "application/json", body, nil)
	if err != nil {
		return registration{}, err
	}
	if !a.isOK() {
		return registration{},
			tool.Errorf(tool.Denied, "authorization server %s did not register Biplane (%s): register it there "+
				"manually, and set the client_id in mcpServers.%s.oauth",
				shortLine(m.Issuer), a.toError(), c.cfg.Name)
	}
	var got struct {
		registration
		Expires int64 `json:"client_secret_expires_at"`
	}
	if err := a.decodeJSON(&got); err != nil {
		return registration{}, err
	}
	r := got.registration
	switch {
	case r.ID == "" || len(r.ID) > maxAddress || len(r.Secret) > maxAddress:
		return registration{}, tool.Errorf(tool.Unavailable,
			"authorization server %s registered Biplane without a usable client_id", shortLine(m.Issuer))
	case got.Expires > 0 && time.Now().After(time.Unix(got.Expires, 0)):
		return registration{}, tool.Errorf(tool.Unavailable,
			"authorization server %s issued a client_secret that has already expired", shortLine(m.Issuer))
	}
	if r.Method == "" && r.Secret == "" {
		r.Method = authNone
	} else if r.Method == "" {
		r.Method = methodFor(m, r.Secret)
	}
	if !slices.Contains([]string{authNone, authBasic, authPost}, r.Method) {
		return registration{},
			tool.Errorf(tool.Unavailable,
				"authorization server %s requires client authentication with %s, which is not supported",
				shortLine(m.Issuer), shortLine(r.Method))
	}
	return r, nil
}
