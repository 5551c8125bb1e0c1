package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// AuthenticatorConfig is what an Authenticator is made of.
type AuthenticatorConfig struct {
	Keys    *Keys    // nil: no API keys
	Issuers []Issuer // none: no OAuth
	// Resource is the address of this server's MCP, as agents know it: "https://biplane.example.com/mcp" (RFC 8707). It must be
	// set where there are Issuers.
	Resource string
	Roles    map[string][]string // who has which role, of those that come with a token: rules as CheckRule takes them
	// Scopes says how the issuers name ScopeMCP and ScopeAPI. One that isn't there has its own name; the empty name asks for none.
	Scopes map[string]string
	Record func(Event)      // takes what happened; nil: nobody wants it
	HTTP   *http.Client     // by which issuers are asked; nil: one of its own
	Clock  func() time.Time // nil: time.Now
	Log    *slog.Logger     // nil: none
}

// An Authenticator says who makes a request: it is a resource server of OAuth 2.1, as the MCP specification has it
// (basic/authorization), and takes API keys besides. It is safe for concurrent use.
type Authenticator struct {
	cfg     AuthenticatorConfig
	issuers []*issuer
	events  *events
}

// New makes an Authenticator.
func New(c AuthenticatorConfig) *Authenticator {
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Record == nil {
		c.Record = func(Event) {}
	}
	if c.HTTP == nil {
		c.HTTP = newClient()
	}
	a := &Authenticator{cfg: c, events: &events{record: c.Record, seen: map[[sha256.Size]byte]time.Time{}}}
	for _, i := range c.Issuers {
		a.issuers = append(a.issuers, newIssuer(i, c.Resource, c.Roles, c.HTTP, c.Clock, c.Log))
	}
	return a
}

// Authenticate says who makes r, if they may do what needs n. The error is a *Refusal, and is recorded; so is the first use
// of a credential.
func (a *Authenticator) Authenticate(r *http.Request, n Need) (tool.Principal, error) {
	now := a.cfg.Clock()
	ev := Event{Time: now, Remote: remote(r), Path: r.URL.Path}
	token, bad := bearer(r)
	if bad == "" {
		ev.Method = "token"
		if strings.HasPrefix(token, keyPrefix) {
			ev.Method = "key"
		}
	}
	p, no := a.identify(r.Context(), &ev, token, bad)
	if no != nil {
		ev.Claimed = no.claimed
		return tool.Principal{}, a.refuse(ev, n, no)
	}
	ev.Principal = p
	if scope := a.scope(ev.Method, n.Scope); scope != "" && !slices.Contains(p.Scopes, scope) {
		return tool.Principal{}, a.refuse(ev, n, reject(ReasonScope, "this needs the scope %s, which the credential was not given out for", scope))
	}
	if !Has(p, n.Roles...) {
		return tool.Principal{}, a.refuse(ev, n, reject(ReasonRole, "this needs the role %s: who has which role stands in Biplane's configuration, or in the key", strings.Join(n.Roles, " or ")))
	}
	a.events.accept(ev, sha256.Sum256([]byte(token)))
	return p, nil
}

// identify finds out whose a token is.
func (a *Authenticator) identify(ctx context.Context, ev *Event, token, bad string) (tool.Principal, *rejection) {
	none := tool.Principal{}
	switch {
	case bad == ReasonMissing:
		return none, reject(bad, "sign in: send an API key or an access token, as Authorization: Bearer ...")
	case bad != "":
		return none, reject(bad, "the header Authorization is not of the form: Bearer <token>, once")
	case ev.Method == "token" && len(a.issuers) == 0:
		return none, reject(ReasonMalformed, "this is no API key, and nothing else is taken here")
	case ev.Method == "token":
		return a.token(ctx, token, ev.Time)
	case a.cfg.Keys == nil:
		return none, reject(ReasonUnknown, "API keys are not taken here")
	}
	k, reason := a.cfg.Keys.authenticate(token, ev.Time)
	if reason != "" {
		no := reject(reason, "%s", map[string]string{
			ReasonMalformed: "this is no API key: one is bp_, 12 characters, _, and 49 characters, and its last ones don't fit the others if it was mistyped",
			ReasonUnknown:   "no such API key is known here", ReasonRevoked: "the API key was revoked",
			ReasonChanged: "the API key was changed in the database without the key of the data folder: revoke it, and create another one",
			ReasonExpired: "the API key has expired",
		}[reason])
		if k != nil {
			no.claimed = keyOwner + k.Name
		}
		return none, no
	}
	a.cfg.Keys.used(ctx, k, ev.Time)
	return k.Principal(), nil
}

// scope is how the scope that is needed is called in a credential.
func (a *Authenticator) scope(method, need string) string {
	if name, ok := a.cfg.Scopes[need]; ok && method == "token" {
		return name
	}
	return need
}

// refuse records why a request isn't served, and says so.
func (a *Authenticator) refuse(ev Event, n Need, no *rejection) *Refusal {
	ev.Reason, ev.Detail = no.reason, no.detail
	if no.reason != ReasonMissing || !n.Browsing {
		a.events.refuse(ev)
	}
	r := &Refusal{Status: http.StatusUnauthorized, Reason: no.reason, Err: &tool.Error{Kind: tool.Denied, Msg: no.detail}}
	code := "invalid_token"
	switch no.reason {
	case ReasonMissing:
		code = "" // RFC 6750, section 3.1: no error where nothing was presented
	case ReasonScope:
		r.Status, code = http.StatusForbidden, "insufficient_scope"
	case ReasonRole:
		// No token with more scope would do: nothing to step up to.
		r.Status = http.StatusForbidden
		return r
	case ReasonIssuerDown:
		r.Status, r.Err.Kind = http.StatusServiceUnavailable, tool.Unavailable
		return r
	}
	r.Challenge = a.challenge(n, code, no.detail)
	return r
}

// challenge writes WWW-Authenticate (RFC 6750, section 3; RFC 9728, section 5.1).
func (a *Authenticator) challenge(n Need, code, detail string) string {
	parts := []string{`realm="biplane"`}
	if code != "" {
		parts = append(parts, `error="`+code+`"`, `error_description="`+quotable(detail)+`"`)
	}
	if len(a.issuers) > 0 {
		if s := a.scope("token", n.Scope); s != "" {
			parts = append(parts, `scope="`+quotable(s)+`"`)
		}
		parts = append(parts, `resource_metadata="`+quotable(a.metadataURL())+`"`)
	}
	return "Bearer " + strings.Join(parts, ", ")
}

// quotable leaves of s what may stand in a quoted string of a challenge (RFC 6750, section 3).
func quotable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"':
			return '\''
		case r < ' ' || r > '~' || r == '\\':
			return -1
		}
		return r
	}, s)
}

// metadataPath begins the path of the metadata of a protected resource (RFC 9728, section 3).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataURL is where the metadata of the resource is (RFC 9728, section 3.1).
func (a *Authenticator) metadataURL() string {
	u, err := url.Parse(a.cfg.Resource)
	if err != nil {
		return ""
	}
	u.Path, u.RawPath = metadataPath+strings.TrimSuffix(u.Path, "/"), ""
	return u.String()
}

// Metadata serves who gives out tokens for this server (RFC 9728, section 2), at the path that belongs to the resource, and
// at the one without a path, where some clients look. Nil: there is no OAuth.
func (a *Authenticator) Metadata() http.Handler {
	if len(a.issuers) == 0 {
		return nil
	}
	doc := struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
		Name     string   `json:"resource_name"`
	}{Resource: a.cfg.Resource, Methods: []string{"header"}, Name: "Biplane"}
	for _, i := range a.issuers {
		doc.Servers = append(doc.Servers, i.Issuer.Issuer)
	}
	for _, s := range []string{ScopeMCP, ScopeAPI} {
		if name := a.scope("token", s); name != "" {
			doc.Scopes = append(doc.Scopes, name)
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // texts always marshal
	}
	own, err := url.Parse(a.metadataURL())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != metadataPath && (err != nil || r.URL.Path != own.Path) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*") // agents in browsers read it, and there is nothing private in it
		_, _ = w.Write(text)                               // a client that went away needs no answer
	})
}

// remote is the address at the other end of the connection: that of a proxy, where there is one.
func remote(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
