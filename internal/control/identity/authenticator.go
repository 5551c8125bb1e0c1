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

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// AuthenticatorConfig configures an Authenticator.
type AuthenticatorConfig struct {
	Keys    *Keys    // nil: no API keys
	Issuers []Issuer // none: no OAuth
	// Provider is the OpenID provider at which people sign in with a browser; nil: none.
	Provider *ProviderConfig
	// Resource is the address of this server's MCP endpoint, as agents know it:
	// "https://biplane.example.com/mcp" (RFC 8707). It is required if there are Issuers.
	Resource string
	// Roles maps roles to rules (see CheckRule) for principals that sign in with a token.
	Roles map[string][]string
	// Scopes maps ScopeMCP and ScopeAPI to the issuers' names for them. A missing scope keeps its
	// own name. An empty name means that no scope is required.
	Scopes   map[string]string
	Recorder SignInRecorder   // nil: sign-ins are not recorded
	HTTP     *http.Client     // used for requests to issuers; nil: a new one
	Clock    *wallclock.Clock // nil: the system's
	Log      *slog.Logger     // nil: none
}

// An Authenticator determines who makes a request. It is an OAuth 2.1 resource server, as in the
// MCP specification (basic/authorization), and also accepts API keys. It is safe for concurrent
// use.
type Authenticator struct {
	cfg      AuthenticatorConfig
	issuers  []*issuer
	provider *provider // nil: none
	events   *events
}

// New returns an Authenticator.
func New(c AuthenticatorConfig) *Authenticator {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.HTTP == nil {
		c.HTTP = newClient()
	}
	a := &Authenticator{cfg: c, events: &events{seen: map[[sha256.Size]byte]time.Time{}}}
	for _, i := range c.Issuers {
		a.issuers = append(a.issuers, newIssuer(i, c.Resource, c.Roles, c.HTTP, c.Clock, c.Log))
	}
	if c.Provider != nil {
		a.provider = newProvider(*c.Provider, c)
	}
	return a
}

// Authenticate returns the principal that makes r, if it may do what needs n. The error is a
// *Refusal, and is recorded. So is the first use of a credential.
func (a *Authenticator) Authenticate(r *http.Request, n Need) (tool.Principal, error) {
	now := a.cfg.Clock.Now()
	ev := Event{Time: now, Remote: remoteAddress(r), Path: r.URL.Path}
	token, bad := bearerToken(r)
	if bad == "" {
		ev.Method = "token"
		switch {
		case strings.HasPrefix(token, keyPrefix):
			ev.Method = "key"
		case strings.HasPrefix(token, ticketPrefix):
			ev.Method = "browser"
		}
	}
	p, no := a.findPrincipal(r.Context(), &ev, token, bad)
	if no != nil {
		ev.Claimed = no.claimed
		return tool.Principal{}, a.refuseRequest(ev, n, no)
	}
	ev.Principal = p
	if scope := a.scopeName(ev.Method, n.Scope); scope != "" && !slices.Contains(p.Scopes, scope) {
		return tool.Principal{}, a.refuseRequest(ev, n,
			newRejection(ReasonScope, "this requires the scope %s, which the credential does not have", scope))
	}
	if !HasRole(p, n.Roles...) {
		return tool.Principal{},
			a.refuseRequest(ev, n,
				newRejection(ReasonRole,
					"this requires the role %s: roles are assigned in Biplane's configuration or in the API key",
					strings.Join(n.Roles, " or ")))
	}
	if a.cfg.Recorder != nil && a.events.countAccept(&ev, sha256.Sum256([]byte(token))) {
		a.cfg.Recorder.RecordSignIn(ev)
	}
	return p, nil
}

// findPrincipal returns the principal that a token belongs to.
func (a *Authenticator) findPrincipal(ctx context.Context, ev *Event, token, bad string) (tool.Principal, *rejection) {
	none := tool.Principal{}
	switch {
	case bad == ReasonMissing:
		return none, newRejection(bad, "sign in: send an API key or an access token, as Authorization: Bearer ...")
	case bad != "":
		return none, newRejection(bad, "invalid Authorization header: send it once, as Bearer <token>")
	case ev.Method == "browser":
		return a.provider.verifyTicket(token, ev.Time)
	case ev.Method == "token" && len(a.issuers) == 0:
		return none, newRejection(ReasonMalformed, "this is not an API key, and only API keys are accepted here")
	case ev.Method == "token":
		return a.verifyToken(ctx, token, ev.Time)
	case a.cfg.Keys == nil:
		return none, newRejection(ReasonUnknown, "API keys are not accepted here")
	}
	k, reason := a.cfg.Keys.findByText(token, ev.Time)
	if reason != "" {
		no := newRejection(reason, "%s", map[string]string{
			ReasonMalformed: "invalid API key: a key is bp_, 12 characters, _ and 49 characters; its last characters " +
				"are a checksum, so check for a typing error",
			ReasonUnknown: "unknown API key", ReasonRevoked: "the API key was revoked",
			ReasonChanged: "the API key was changed in the database without the data folder's key: revoke it, and " +
				"create another one",
			ReasonExpired: "the API key has expired",
		}[reason])
		if k != nil {
			no.claimed = keyOwner + k.Name
		}
		return none, no
	}
	a.cfg.Keys.recordUse(ctx, k, ev.Time)
	return k.Principal(), nil
}

// scopeName returns the name of the required scope in a credential.
func (a *Authenticator) scopeName(method, need string) string {
	if name, ok := a.cfg.Scopes[need]; ok && method == "token" {
		return name
	}
	return need
}

// refuseRequest records why a request is refused, and returns the Refusal.
func (a *Authenticator) refuseRequest(ev Event, n Need, no *rejection) *Refusal {
	ev.Reason, ev.Detail = no.reason, no.detail
	if (no.reason != ReasonMissing || !n.Browsing) && a.cfg.Recorder != nil && a.events.countRefusal(&ev) {
		a.cfg.Recorder.RecordSignIn(ev)
	}
	r := &Refusal{Status: http.StatusUnauthorized, Reason: no.reason,
		Err: &tool.Error{Kind: tool.Denied, Msg: no.detail}}
	code := "invalid_token"
	switch no.reason {
	case ReasonMissing:
		code = "" // RFC 6750, section 3.1: no error if no credential was presented
	case ReasonScope:
		r.Status, code = http.StatusForbidden, "insufficient_scope"
	case ReasonRole:
		// A token with more scopes would not help: there is nothing to step up to.
		r.Status = http.StatusForbidden
		return r
	case ReasonIssuerDown:
		r.Status, r.Err.Kind = http.StatusServiceUnavailable, tool.Unavailable
		return r
	}
	r.Challenge = a.challengeHeader(n, code, no.detail)
	return r
}

// challengeHeader returns a WWW-Authenticate header (RFC 6750, section 3; RFC 9728, section 5.1).
func (a *Authenticator) challengeHeader(n Need, code, detail string) string {
	parts := []string{`realm="biplane"`}
	if code != "" {
		parts = append(parts, `error="`+code+`"`, `error_description="`+stripUnquotable(detail)+`"`)
	}
	if len(a.issuers) > 0 {
		if s := a.scopeName("token", n.Scope); s != "" {
			parts = append(parts, `scope="`+stripUnquotable(s)+`"`)
		}
		parts = append(parts, `resource_metadata="`+stripUnquotable(a.metadataURL())+`"`)
	}
	return "Bearer " + strings.Join(parts, ", ")
}

// stripUnquotable returns s without characters that a quoted string of a challenge may not contain
// (RFC 6750, section 3).
func stripUnquotable(s string) string {
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

// metadataPath is the path prefix of protected resource metadata (RFC 9728, section 3).
const metadataPath = "/.well-known/oauth-protected-resource"

// metadataURL returns the address of the resource's metadata (RFC 9728, section 3.1).
func (a *Authenticator) metadataURL() string {
	u, err := url.Parse(a.cfg.Resource)
	if err != nil {
		return ""
	}
	u.Path, u.RawPath = metadataPath+strings.TrimSuffix(u.Path, "/"), ""
	return u.String()
}

// Metadata serves the protected resource metadata, which names the issuers (RFC 9728, section 2).
// It serves it at the path of the resource, and at the path without a suffix, which some clients
// use. It returns nil without OAuth.
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
		if name := a.scopeName("token", s); name != "" {
			doc.Scopes = append(doc.Scopes, name)
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err) // strings can always be marshaled
	}
	own, err := url.Parse(a.metadataURL())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != metadataPath && (err != nil || r.URL.Path != own.Path) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*") // agents in browsers read it, and it holds nothing private
		_, _ = w.Write(text)                               // ignore errors of clients that disconnected
	})
}

// remoteAddress returns the address of the other end of the connection, which may be a proxy.
func remoteAddress(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
