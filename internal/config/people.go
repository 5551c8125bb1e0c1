package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/identity"
)

// A PeopleProvider is the OpenID provider at which people sign in to the console.
type PeopleProvider struct {
	Issuer       identity.Issuer
	ClientID     string
	ClientSecret string // empty: see SecretName
	SecretName   string // of the secret that is the client's; empty: a public client, unless ClientSecret is set
	Scopes       []string
	Lifetime     time.Duration // of a sign-in; 0: the default
}

// readPeople reads the sign-in of people.
func readPeople(r *reader, n *node) *PeopleProvider {
	const what = "auth.sign_in"
	p := &PeopleProvider{}
	keys := issuerKeys(r, &p.Issuer, what)
	keys["client_id"] = func(n *node) { p.ClientID = r.readText(n, what+".client_id") }
	keys["client_secret"] = func(n *node) { readClientSecret(r, n, p, what+".client_secret") }
	keys["scopes"] = func(n *node) { p.Scopes = r.readTexts(n, what+".scopes") }
	keys["lifetime"] = func(n *node) {
		p.Lifetime = r.readDuration(n, what+".lifetime", time.Minute, 7*24*time.Hour)
	}
	r.readObject(n, what, keys)
	checkIssuer(r, n, what, p.Issuer)
	for _, role := range identity.Roles() {
		isAgent := func(rule string) bool { return strings.HasPrefix(rule, "agent:") }
		if slices.ContainsFunc(p.Issuer.Roles[role], isAgent) {
			r.addProblem(n, "%s.roles.%s: a rule agent:ID matches no one: people sign in without an agent; write "+
				"it in auth.roles, or in the roles of an issuer", what, role)
		}
	}
	if p.ClientID == "" {
		r.addProblem(n, "%s needs a client_id: register Biplane with the provider", what)
	}
	for _, s := range p.Scopes {
		if s == "" || strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' }) {
			r.addProblem(n, "%s.scopes: invalid scope %q: write each scope as a separate text without spaces", what,
				clipText(s))
		}
	}
	if len(p.Scopes) == 0 {
		p.Scopes = []string{"profile", "email"}
	}
	return p
}

// checkSameID reports an issuer whose tokens identify people by another claim than its sign-in
// does. One person would be two: with approvals.separate, they could approve their own requests.
func checkSameID(r *reader, n *node, a *Auth) {
	if a.Provider == nil {
		return
	}
	for _, i := range a.Issuers {
		p := a.Provider.Issuer
		if i.Issuer == p.Issuer && cmp.Or(i.Claims.ID, "sub") != cmp.Or(p.Claims.ID, "sub") {
			r.addProblem(n, "auth.sign_in and auth.issuers must have the same claims.id for %q: otherwise a person "+
				"who signs in and their agents are different people", clipText(p.Issuer))
		}
	}
}

// readClientSecret reads the secret of the client: ${secret:NAME}, which is resolved when it is
// used, or a text, such as ${NAME}.
func readClientSecret(r *reader, n *node, p *PeopleProvider, what string) {
	names := r.readEntry(func() { p.ClientSecret = r.readText(n, what) })
	switch {
	case len(names) == 1 && p.ClientSecret == "$secret."+names[0]:
		p.ClientSecret, p.SecretName = "", names[0]
	case len(names) > 0:
		r.addProblem(n, "%s is either a text or one ${secret:NAME}, not both", what)
	case p.ClientSecret == "":
		r.addProblem(n, "%s is empty: remove it if the provider issued none", what)
	default:
		r.hidden = append(r.hidden, p.ClientSecret)
	}
}
