package config

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/control/identity"
)

// Auth configures sign-in over the network. Nil means no sign-in.
type Auth struct {
	Keys     bool   // accept API keys
	Resource string // public URL of this server's MCP; set if there are Issuers
	Issuers  []identity.Issuer
	Roles    map[string][]string // roles of principals with a token: rules by role
	Scopes   map[string]string   // names of the scopes at the issuers
}

// String describes in short which credentials are accepted.
func (a *Auth) String() string {
	switch n := len(a.Issuers); {
	case n == 0:
		return "API keys"
	case !a.Keys:
		return "tokens of " + issuers(n)
	default:
		return "API keys, tokens of " + issuers(n)
	}
}

// ShownAuth is the printable form of an Auth.
type ShownAuth struct {
	Keys     bool                `json:"keys"`
	Resource string              `json:"resource,omitempty"`
	Issuers  []string            `json:"issuers,omitempty"`
	Roles    map[string][]string `json:"roles,omitempty"`
	text     string
}

// String describes in short which credentials are accepted; "none" without sign-in.
func (a *ShownAuth) String() string {
	if a == nil {
		return "none"
	}
	return a.text
}

// Shown returns the printable form; nil without sign-in.
func (a *Auth) Shown() *ShownAuth {
	if a == nil {
		return nil
	}
	out := &ShownAuth{Keys: a.Keys, Resource: a.Resource, Roles: a.Roles, text: a.String()}
	for _, i := range a.Issuers {
		out.Issuers = append(out.Issuers, i.Issuer)
	}
	return out
}

func issuers(n int) string {
	if n == 1 {
		return "1 issuer"
	}
	return strconv.Itoa(n) + " issuers"
}

// SignIn describes in short who is admitted.
func (c *Config) SignIn() string {
	if c.Auth == nil {
		return "none: this machine's users"
	}
	return c.Auth.String()
}

// AnyHost reports whether requests may name any Host. They may if the server has a certificate,
// here or in a proxy, since that proves its name. Otherwise only the names of this machine are
// accepted.
func (c *Config) AnyHost() bool { return c.Auth != nil && c.TLS.Private() }

// TLS configures the encryption of network connections.
type TLS struct {
	Cert, Key  string // files, PEM; absolute
	Terminated bool   // a proxy in front terminates TLS
}

// String describes the setting in short.
func (t TLS) String() string {
	switch {
	case t.Terminated:
		return "terminated"
	case t.Cert != "":
		return t.Cert
	}
	return "none"
}

// Private reports whether connections are encrypted.
func (t TLS) Private() bool { return t.Terminated || t.Cert != "" }

func (r *reader) auth(n *node) *Auth {
	a := &Auth{}
	var keysNode, resourceNode, issuersNode *node
	r.object(n, "auth", key{
		"keys":     func(n *node) { keysNode, a.Keys = n, r.boolean(n, "auth.keys") },
		"resource": func(n *node) { resourceNode, a.Resource = n, r.text(n, "auth.resource") },
		"issuers":  func(n *node) { issuersNode = n },
		"roles":    func(n *node) { a.Roles = r.roles(n, "auth.roles") },
		"scopes":   func(n *node) { a.Scopes = r.scopes(n) },
	})
	if resourceNode != nil {
		r.resource(resourceNode, a.Resource)
	}
	if issuersNode != nil {
		a.Issuers = r.issuers(issuersNode)
		if resourceNode == nil {
			r.wrong(issuersNode, "auth.issuers need auth.resource: the address of this server's MCP as agents know it, like https://biplane.example.com/mcp")
		}
	}
	if keysNode == nil {
		a.Keys = true
	}
	if !a.Keys && len(a.Issuers) == 0 {
		r.wrong(n, "auth lets nobody in: write keys: true, or issuers")
	}
	return a
}

func (r *reader) resource(n *node, text string) {
	u, err := url.Parse(text)
	if err := cmp.Or(err, identity.CheckAddress(text)); err != nil {
		r.wrong(n, "auth.resource: %s", err)
		return
	}
	if u.RawQuery != "" || !strings.HasSuffix(u.Path, "/mcp") {
		r.wrong(n, "auth.resource must be the address of this server's MCP, which ends in /mcp, not %q", clip(text))
	}
}

func (r *reader) issuers(n *node) []identity.Issuer {
	if n.kind != listNode {
		r.wrong(n, "auth.issuers must be a list of maps, each with an issuer, not %s", n.kind)
		return nil
	}
	var out []identity.Issuer
	for _, e := range n.list {
		i := r.issuer(e)
		if slices.ContainsFunc(out, func(o identity.Issuer) bool { return o.Issuer == i.Issuer }) {
			r.wrong(e, "auth.issuers names %q twice", clip(i.Issuer))
		}
		out = append(out, i)
	}
	return out
}

func (r *reader) issuer(n *node) (i identity.Issuer) {
	const what = "each of auth.issuers"
	named := false
	address := func(n *node, name string) string {
		text := r.text(n, what+"."+name)
		if err := identity.CheckAddress(text); err != nil {
			r.wrong(n, "%s of %s: %s", name, what, err)
		}
		return text
	}
	r.object(n, what, key{
		"issuer":   func(n *node) { named, i.Issuer = true, address(n, "issuer") },
		"jwks_uri": func(n *node) { i.JWKSURI = address(n, "jwks_uri") },
		"audience": func(n *node) {
			if i.Audiences = []string{n.text}; n.kind == listNode {
				i.Audiences = r.texts(n, "audience of "+what)
			} else {
				i.Audiences[0] = r.text(n, "audience of "+what)
			}
			if len(i.Audiences) == 0 || slices.Contains(i.Audiences, "") {
				r.wrong(n, "audience of %s is empty: leave it out, and tokens have to be for auth.resource", what)
			}
		},
		"algorithms": func(n *node) {
			i.Algorithms = r.texts(n, "algorithms of "+what)
			for j, a := range i.Algorithms {
				if !slices.Contains(identity.Algorithms(), a) {
					r.wrong(n.list[j], "algorithms of %s: %q is not taken: there is %s", what, clip(a), strings.Join(identity.Algorithms(), ", "))
				}
			}
			if len(i.Algorithms) == 0 {
				r.wrong(n, "algorithms of %s is empty: leave it out for the usual ones", what)
			}
		},
		"claims": func(n *node) {
			r.object(n, "claims of "+what, key{
				"id":     func(n *node) { i.Claims.ID = r.text(n, "claims.id") },
				"name":   func(n *node) { i.Claims.Name = r.text(n, "claims.name") },
				"groups": func(n *node) { i.Claims.Groups = r.text(n, "claims.groups") },
				"agent":  func(n *node) { i.Claims.Agent = r.text(n, "claims.agent") },
			})
		},
		"roles": func(n *node) { i.Roles = r.roles(n, "roles of "+what) },
	})
	if !named {
		r.wrong(n, "%s needs an issuer: its address as it stands in the tokens, like https://login.example.com", what)
	}
	return i
}

func (r *reader) roles(n *node, what string) map[string][]string {
	out := map[string][]string{}
	known := key{}
	for _, role := range identity.Roles() {
		known[role] = func(n *node) {
			out[role] = r.texts(n, what+"."+role)
			for i, rule := range out[role] {
				if err := identity.CheckRule(rule); err != nil {
					r.wrong(n.list[i], "%s.%s: %s", what, role, err)
				}
			}
		}
	}
	r.object(n, what, known)
	return out
}

// scopes reads the names of the scopes at the issuers. A scope with an empty name is not required.
func (r *reader) scopes(n *node) map[string]string {
	out := map[string]string{}
	known := key{}
	for _, s := range []string{identity.ScopeMCP, identity.ScopeAPI} {
		known[s] = func(n *node) {
			if out[s] = r.text(n, "auth.scopes."+s); strings.ContainsFunc(out[s], func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
				r.wrong(n, "auth.scopes.%s: %q is no scope", s, clip(out[s]))
			}
		}
	}
	r.object(n, "auth.scopes", known)
	return out
}

func (r *reader) tls(n *node, dir string) (t TLS) {
	if n.kind == stringNode {
		if t.Terminated = r.oneOf(n, "tls", "terminated") == "terminated"; t.Terminated {
			return t
		}
	}
	r.object(n, "tls", key{
		"cert": func(n *node) { t.Cert = r.dir(n, "tls.cert", dir) },
		"key":  func(n *node) { t.Key = r.dir(n, "tls.key", dir) },
	})
	if n.kind == mapNode && (t.Cert == "" || t.Key == "") {
		r.wrong(n, "tls needs both cert and key: files in PEM; or write tls: terminated where a proxy in front does it")
	}
	return t
}

// exposed checks that the listen address is allowed with the configured sign-in and TLS.
func (r *reader) exposed(n *node, s *Config) {
	if n == nil || s.Listen == "" {
		return
	}
	if err := identity.CheckExposure(s.Listen, s.Auth != nil, s.TLS.Private()); err != nil {
		r.wrong(n, "%s", err)
	}
}
