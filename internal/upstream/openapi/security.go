package openapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Credential is what the configuration has for one security scheme of a document.
type Credential struct {
	Value              string // of an API key, or a token
	Username, Password string // for basic authentication
	// ClientID and ClientSecret are those of the client credentials grant (RFC 6749, section 4.4).
	ClientID, ClientSecret string
	TokenURL               string // instead of the document's
	Scopes                 []string
}

// A scheme is a security scheme of a document.
type scheme struct {
	openapi3.SecurityScheme
	tokenURL string // of the client credentials grant
	signIn   bool   // it has the authorization code grant
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
		s.signIn = s.Type == "openIdConnect" || s.Flows != nil && s.Flows.AuthorizationCode != nil
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
		case s.Type == "http" && kind != "http basic" && c.Value == "":
			need = "a text: the token"
		case (s.Type == "oauth2" || s.Type == "openIdConnect") && c.Value == "":
			switch {
			case c.ClientID != "" && (s.tokenURL != "" || c.TokenURL != ""):
			case s.signIn:
				need = "an access token as text: signing in with an authorization code is not supported for OpenAPI yet"
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

// chooseRequirement returns the first alternative for which there are all credentials, or nil.
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
			return tool.Errorf(tool.Invalid, "the document has no security scheme %q", clipText(name))
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
			token, err := u.tokens.getToken(ctx, u, name, s, q[name], renew)
			if err != nil {
				return tool.NotSent(err)
			}
			r.header.Set("Authorization", "Bearer "+token)
		}
	}
	return nil
}

// maxToken is the maximum size of a token answer, in bytes.
const maxToken = 256 << 10

// A tokenCache holds the tokens of the client credentials grant.
type tokenCache struct {
	turn chan struct{} // capacity 1: its holder may use what is below, and request tokens
	held map[string]heldToken
}

type heldToken struct {
	text    string
	expires time.Time
}

func newTokenCache() *tokenCache {
	return &tokenCache{turn: make(chan struct{}, 1), held: map[string]heldToken{}}
}

// getToken returns an access token. With renew, it requests another one.
func (k *tokenCache) getToken(ctx context.Context, u *Upstream, name string, s *scheme, scopes []string,
	renew bool) (string, error) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return "", tool.AsError(context.Cause(ctx))
	}
	c := u.cfg.Auth[name]
	if len(c.Scopes) > 0 {
		scopes = c.Scopes
	}
	key := name + " " + strings.Join(scopes, " ")
	if h := k.held[key]; h.text != "" && !renew && time.Now().Before(h.expires) {
		return h.text, nil
	}
	h, err := u.requestToken(ctx, c, s, scopes)
	if err != nil {
		return "", err
	}
	k.held[key] = h
	u.cfg.Mask.AddRecent(h.text)
	return h.text, nil
}

// requestToken requests a token with the client credentials grant. The secret goes to a token
// endpoint of the configuration, or of the document if that may receive credentials.
func (u *Upstream) requestToken(ctx context.Context, c Credential, s *scheme, scopes []string) (heldToken, error) {
	address := c.TokenURL
	if address == "" {
		address = s.tokenURL
	}
	to, err := url.Parse(address)
	if err == nil && u.servers.base != nil {
		to = u.servers.base.ResolveReference(to)
	}
	switch {
	case err != nil || to.Host == "" || to.Scheme != "https" && (to.Scheme != "http" || !isLoopback(to)):
		return heldToken{}, tool.Errorf(tool.Invalid, "the token endpoint %q is not an https URL", clipText(address))
	case c.TokenURL == "" && !u.servers.isTrusted(to):
		return heldToken{}, tool.Errorf(tool.Denied, "the document names the token endpoint %s, another host than its "+
			"own: to send the client's secret there, set token_url in the configuration", to.Host)
	}
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(scopes) > 0 {
		form.Set("scope", strings.Join(scopes, " "))
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return heldToken{}, tool.Errorf(tool.Invalid, "token endpoint: %w", err)
	}
	r.Header.Set("Content-Type", formType)
	r.Header.Set("Accept", "application/json")
	r.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	resp, err := u.web.clientFor(u.servers.isTrusted(to) || c.TokenURL != "").Do(r)
	if err != nil {
		return heldToken{}, u.explainFailure(ctx, to, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxToken))
	if err != nil {
		return heldToken{}, u.explainFailure(ctx, to, err)
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
			to.Host, resp.StatusCode, cleanLine(strings.TrimSpace(t.Error+" "+t.Why), 200))
	}
	life := time.Duration(min(max(t.Expires, 0), 1e8) * float64(time.Second))
	if life == 0 {
		life = 5 * time.Minute
	}
	return heldToken{t.Access, time.Now().Add(life - min(life/10, 30*time.Second))}, nil
}
