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
	Resource string // public URL of this server's MCP; set if there are Issuers or a Provider
	Issuers  []identity.Issuer
	// Provider is the OpenID provider at which people sign in to the console; nil: none.
	Provider *PeopleProvider
	Roles    map[string][]string // roles of principals with a token: rules by role
	Scopes   map[string]string   // names of the scopes at the issuers
}

// String describes in short which credentials are accepted.
func (a *Auth) String() string {
	var parts []string
	if a.Keys {
		parts = append(parts, "API keys")
	}
	if n := len(a.Issuers); n > 0 {
		parts = append(parts, "tokens of "+countIssuers(n))
	}
	if a.Provider != nil {
		parts = append(parts, "people of "+a.Provider.Issuer.Issuer)
	}
	return strings.Join(parts, ", ")
}

// ShownAuth is the printable form of an Auth.
type ShownAuth struct {
	Keys     bool                `json:"keys"`
	Resource string              `json:"resource,omitempty"`
	Issuers  []string            `json:"issuers,omitempty"`
	SignIn   string              `json:"sign_in,omitempty"` // the provider of people
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
	if a.Provider != nil {
		out.SignIn = a.Provider.Issuer.Issuer
	}
	return out
}

func countIssuers(n int) string {
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

func (r *fileReader) readAuth(n *node) *Auth {
	a := &Auth{}
	var keysNode, resourceNode, issuersNode, signInNode *node
	r.readObject(n, "auth", key{
		"keys":     func(n *node) { keysNode, a.Keys = n, r.readBool(n, "auth.keys") },
		"resource": func(n *node) { resourceNode, a.Resource = n, r.readText(n, "auth.resource") },
		"issuers":  func(n *node) { issuersNode = n },
		"sign_in":  func(n *node) { signInNode = n },
		"roles":    func(n *node) { a.Roles = r.readRoles(n, "auth.roles") },
		"scopes":   func(n *node) { a.Scopes = r.readScopes(n) },
	})
	if resourceNode != nil {
		r.readResource(resourceNode, a.Resource)
	}
	if issuersNode != nil {
		a.Issuers = r.readIssuers(issuersNode)
		if resourceNode == nil {
			r.addProblem(issuersNode, "auth.issuers requires auth.resource: this server's MCP address as used by "+
				"agents, like https://biplane.example.com/mcp")
		}
	}
	if signInNode != nil {
		a.Provider = readPeople(r.reader, signInNode)
		if resourceNode == nil {
			r.addProblem(signInNode, "auth.sign_in requires auth.resource: this server's MCP address, like "+
				"https://biplane.example.com/mcp; browsers come back to its host")
		}
	}
	if keysNode == nil {
		a.Keys = true
	}
	checkSameID(r.reader, signInNode, a)
	if !a.Keys && len(a.Issuers) == 0 && a.Provider == nil {
		r.addProblem(n, "auth accepts no one: write keys: true, issuers or sign_in")
	}
	return a
}

func (r *fileReader) readResource(n *node, text string) {
	u, err := url.Parse(text)
	if err := cmp.Or(err, identity.CheckAddress(text)); err != nil {
		r.addProblem(n, "auth.resource: %s", err)
		return
	}
	if u.RawQuery != "" || !strings.HasSuffix(u.Path, "/mcp") {
		r.addProblem(n, "auth.resource must be this server's MCP address, which ends in /mcp, not %q",
			clipText(text))
	}
}

func (r *fileReader) readIssuers(n *node) []identity.Issuer {
	if n.kind != listNode {
		r.addProblem(n, "auth.issuers must be a list of maps, each with an issuer, not %s", n.kind)
		return nil
	}
	var out []identity.Issuer
	for _, e := range n.list {
		i := r.readIssuer(e)
		if slices.ContainsFunc(out, func(o identity.Issuer) bool { return o.Issuer == i.Issuer }) {
			r.addProblem(e, "auth.issuers names %q twice", clipText(i.Issuer))
		}
		out = append(out, i)
	}
	return out
}

func (r *fileReader) readIssuer(n *node) (i identity.Issuer) {
	const what = "each of auth.issuers"
	keys := issuerKeys(r.reader, &i, what)
	keys["audience"] = func(n *node) {
		if i.Audiences = []string{n.text}; n.kind == listNode {
			i.Audiences = r.readTexts(n, "audience of "+what)
		} else {
			i.Audiences[0] = r.readText(n, "audience of "+what)
		}
		if len(i.Audiences) == 0 || slices.Contains(i.Audiences, "") {
			r.addProblem(n, "audience of %s is empty: remove it, and tokens must be for auth.resource", what)
		}
	}
	r.readObject(n, what, keys)
	checkIssuer(r.reader, n, what, i)
	return i
}

// checkIssuer reports a missing issuer.
func checkIssuer(r *reader, n *node, what string, i identity.Issuer) {
	if n.findField("issuer") == nil {
		r.addProblem(n,
			"%s needs an issuer: the address that its tokens contain, like https://login.example.com", what)
	}
}

// issuerKeys returns the keys that describe an issuer.
func issuerKeys(r *reader, i *identity.Issuer, what string) key {
	address := func(n *node, name string) string {
		text := r.readText(n, what+"."+name)
		if err := identity.CheckAddress(text); err != nil {
			r.addProblem(n, "%s of %s: %s", name, what, err)
		}
		return text
	}
	return key{
		"issuer":   func(n *node) { i.Issuer = address(n, "issuer") },
		"jwks_uri": func(n *node) { i.JWKSURI = address(n, "jwks_uri") },
		"algorithms": func(n *node) {
			i.Algorithms = r.readTexts(n, "algorithms of "+what)
			for j, a := range i.Algorithms {
				if !slices.Contains(identity.Algorithms(), a) {
					r.addProblem(n.list[j], "algorithms of %s: %q is not supported: use %s", what, clipText(a),
						strings.Join(identity.Algorithms(), ", "))
				}
			}
			if len(i.Algorithms) == 0 {
				r.addProblem(n, "algorithms of %s is empty: remove it to use the default", what)
			}
		},
		"claims": func(n *node) {
			r.readObject(n, "claims of "+what, key{
				"id":     func(n *node) { i.Claims.ID = r.readText(n, "claims.id") },
				"name":   func(n *node) { i.Claims.Name = r.readText(n, "claims.name") },
				"groups": func(n *node) { i.Claims.Groups = r.readText(n, "claims.groups") },
				"agent":  func(n *node) { i.Claims.Agent = r.readText(n, "claims.agent") },
			})
		},
		"roles": func(n *node) { i.Roles = r.readRoles(n, "roles of "+what) },
	}
}

func (r *reader) readRoles(n *node, what string) map[string][]string {
	out := map[string][]string{}
	known := key{}
	for _, role := range identity.Roles() {
		known[role] = func(n *node) {
			out[role] = r.readTexts(n, what+"."+role)
			for i, rule := range out[role] {
				if err := identity.CheckRule(rule); err != nil {
					r.addProblem(n.list[i], "%s.%s: %s", what, role, err)
				}
			}
		}
	}
	r.readObject(n, what, known)
	return out
}

// readScopes reads the names of the scopes at the issuers. A scope with an empty name is not
// required.
func (r *fileReader) readScopes(n *node) map[string]string {
	out := map[string]string{}
	known := key{}
	for _, s := range []string{identity.ScopeMCP, identity.ScopeAPI} {
		known[s] = func(n *node) {
			if out[s] = r.readText(n, "auth.scopes."+s); strings.ContainsFunc(out[s],
				func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) {
				r.addProblem(n, "auth.scopes.%s: invalid scope %q", s, clipText(out[s]))
			}
		}
	}
	r.readObject(n, "auth.scopes", known)
	return out
}

func (r *fileReader) readTLS(n *node) (t TLS) {
	if n.kind == stringNode {
		if t.Terminated = r.oneOf(n, "tls", "terminated") == "terminated"; t.Terminated {
			return t
		}
	}
	r.readObject(n, "tls", key{
		"cert": func(n *node) { t.Cert = r.readDir(n, "tls.cert") },
		"key":  func(n *node) { t.Key = r.readDir(n, "tls.key") },
	})
	if n.kind == mapNode && (t.Cert == "" || t.Key == "") {
		r.addProblem(n,
			"tls needs both cert and key, as PEM files; write tls: terminated if a proxy terminates TLS")
	}
	return t
}

// checkExposure checks that the listen address is allowed with the configured sign-in and TLS.
func (r *fileReader) checkExposure() {
	if r.listen == nil || r.c.Listen == "" {
		return
	}
	if err := identity.CheckExposure(r.c.Listen, r.c.Auth != nil, r.c.TLS.Private()); err != nil {
		r.addProblem(r.listen, "%s", err)
	}
}
