package openapi

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// A Credential is the configured credential for one security scheme of a document.
type Credential = web.Credential

// A scheme is a security scheme of a document.
type scheme struct {
	openapi3.SecurityScheme
	tokenURL string              // of the client credentials grant
	signIn   *openapi3.OAuthFlow // the authorization code grant; nil: the scheme doesn't have it
}

// readSchemes reads the security schemes. One that can't be read is left out.
func (r *reader) readSchemes() (map[string]*scheme, error) {
	root := r.doc.rootPlace()
	out := map[string]*scheme{}
	all := root.n.getField("components").getField("securitySchemes")
	if all == nil {
		return out, nil
	}
	for _, f := range all.fields {
		p, err := r.doc.followRefs(place{root.file, f.value})
		if err != nil || p.n == nil {
			continue
		}
		s := &scheme{}
		if decodeNode(p.n, &s.SecurityScheme) != nil {
			continue
		}
		if s.Flows != nil && s.Flows.ClientCredentials != nil {
			s.tokenURL = s.Flows.ClientCredentials.TokenURL
		}
		if s.Flows != nil {
			s.signIn = s.Flows.AuthorizationCode
		}
		out[f.name] = s
	}
	return out, nil
}

func readRequirements(n *node) []requirement {
	if n == nil {
		return nil
	}
	out := []requirement{}
	for _, e := range n.list {
		q := requirement{}
		for _, f := range e.fields {
			scopes := []string{}
			for _, s := range f.value.list {
				scopes = append(scopes, s.text)
			}
			q[f.name] = scopes
		}
		out = append(out, q)
	}
	return out
}

// checkCredentials returns an error if a configured credential fits no scheme of the document.
func (t *table) checkCredentials(all map[string]Credential) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		s, c := t.schemes[name], all[name]
		if s == nil {
			return fmt.Errorf("auth.%s: the document has no security scheme of this name; it has %s", name,
				strings.Join(slices.Sorted(maps.Keys(t.schemes)), ", "))
		}
		var need string
		switch kind := strings.ToLower(s.Type + " " + s.Scheme); {
		case s.Type == "apiKey" && (c.Value == "" || !slices.Contains([]string{"header", "query", "cookie"}, s.In)):
			need = "a text: the key"
		case kind == "http basic" && c.Username == "" && c.Password == "":
			need = "username and password"
		case kind == "http bearer" && c.SignIn:
		case s.Type == "http" && kind != "http basic" && c.Value == "":
			need = "a text: the token"
		case (s.Type == "oauth2" || s.Type == "openIdConnect") && c.Value == "":
			switch {
			case c.SignIn:
			case c.ClientID != "" && (s.tokenURL != "" || c.TokenURL != ""):
			case s.signIn != nil || s.Type == "openIdConnect":
				need = "client_id and sign_in: true, so that people sign in, or an access token as text"
			default:
				need = "client_id and client_secret, or an access token as text"
			}
		case s.Type == "mutualTLS":
			need = "a client certificate, which is not supported"
		}
		if need != "" {
			return fmt.Errorf("auth.%s: this %s scheme needs %s", name, s.Type, need)
		}
	}
	return nil
}

// chooseRequirement returns the first alternative whose credentials are all available, or nil.
func chooseRequirement(all []requirement, have map[string]Credential) requirement {
	for _, q := range all {
		ok := len(q) > 0
		for name := range q {
			_, has := have[name]
			ok = ok && has
		}
		if ok {
			return q
		}
	}
	return nil
}

// applyCredentials adds the credentials of a requirement to a request.
func (u *Upstream) applyCredentials(ctx context.Context, t *table, q requirement, r *wireRequest, renew bool) error {
	for _, name := range slices.Sorted(maps.Keys(q)) {
		s, c := t.schemes[name], u.cfg.Auth[name]
		if s == nil {
			return tool.Errorf(tool.Invalid, "the document has no security scheme %q", web.ClipText(name))
		}
		switch {
		case s.Type == "apiKey" && s.In == "query":
			esc := escapeText(c.Value, false)
			r.query = append(r.query, pair{escapeText(s.Name, false), esc})
		case s.Type == "apiKey" && s.In == "cookie":
			r.cookies = append(r.cookies, pair{s.Name, c.Value})
		case s.Type == "apiKey":
			r.header.Set(s.Name, c.Value)
		case strings.EqualFold(s.Scheme, "basic"):
			r.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.Username+":"+c.Password)))
		case s.Type == "http" && !strings.EqualFold(s.Scheme, "bearer"):
			r.header.Set("Authorization", s.Scheme+" "+c.Value)
		case c.Value != "":
			r.header.Set("Authorization", "Bearer "+c.Value)
		default:
			token, err := u.getToken(ctx, name, s, q[name], renew)
			if c.SignIn {
				r.token = token
			}
			if err != nil {
				return tool.NotSent(err)
			}
			r.header.Set("Authorization", "Bearer "+token)
		}
	}
	return nil
}

// getToken returns an access token. The secret goes to a token endpoint of the configuration, or of
// the document if that may receive credentials.
func (u *Upstream) getToken(ctx context.Context, name string, s *scheme, scopes []string, renew bool) (string, error) {
	c := u.cfg.Auth[name]
	if c.SignIn {
		return u.RequireToken(ctx, renew)
	}
	address := cmp.Or(c.TokenURL, s.tokenURL)
	to, err := url.Parse(address)
	if err != nil {
		return "", tool.Errorf(tool.Invalid, "the token endpoint %q is not a URL", web.ClipText(address))
	}
	if u.servers.base != nil {
		to = u.servers.base.ResolveReference(to)
	}
	trusted := u.servers.isTrusted(to)
	if c.TokenURL == "" && !trusted {
		return "", tool.Errorf(tool.Denied, "the document names the token endpoint %s, another host than its "+
			"own: to send the client's secret there, set token_url in the configuration", to.Host)
	}
	return u.Tokens.GetToken(ctx, c, web.Grant{Key: name, Endpoint: to, Trusted: trusted || c.TokenURL != "",
		Scopes: scopes}, renew)
}
