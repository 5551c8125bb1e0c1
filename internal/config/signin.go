package config

import (
	"net/url"
	"strings"
)

// A SignIn configures the sign-in of people to an HTTP API.
type SignIn struct {
	Credential APICredential
	Address    string // that the tokens are for
}

// readSignIn reads a credential with which people may sign in. An upstream has at most one.
func readSignIn(r *reader, s *Source, n *node, what string) (c APICredential) {
	var only *node // a key that has an effect only if people sign in
	address := func(key string, to *string) func(n *node) {
		return func(n *node) {
			only, *to = n, r.readText(n, what+"."+key)
			if u, err := url.Parse(*to); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
				r.addProblem(n, "%s.%s must be a URL, like https://login.example.com", what, key)
			}
		}
	}
	r.readCredential(n, what, &c, key{
		"sign_in":           func(n *node) { c.SignIn = r.readBool(n, what+".sign_in") },
		"authorization_url": address("authorization_url", &c.AuthorizationURL),
		"issuer":            address("issuer", &c.Issuer),
		"redirect_port": func(n *node) {
			only, c.RedirectPort = n, r.readCount(n, what+".redirect_port", 1, 65535)
		},
	})
	s.addSignInURLs(c)
	switch {
	case !c.SignIn && only != nil:
		r.addProblem(only, "%s: people don't sign in with it, so this key has no effect: set sign_in: true", what)
	case !c.SignIn:
		return c
	case c.ClientID == "":
		r.addProblem(n, "%s.sign_in needs a client_id: register Biplane with the API's provider", what)
	case c.Username != "" || c.Password != "":
		r.addProblem(n, "%s: with sign_in, people sign in with their own accounts: remove username and password", what)
	case s.SignIn != nil:
		r.addProblem(n, "%s: another scheme of this upstream has sign_in: people can sign in with one", what)
	}
	for _, scope := range c.Scopes {
		if scope == "" || strings.ContainsFunc(scope, func(c rune) bool {
			return c <= ' ' || c > '~' || c == '"' || c == '\\'
		}) {
			r.addProblem(n, "%s.scopes: invalid scope %q: write each scope as a separate text without spaces", what,
				clipText(scope))
		}
	}
	s.SignIn = &SignIn{Credential: c}
	return c
}

// checkSignIn reports a sign-in that can't be used together with the secrets of principals.
func checkSignIn(r *reader, at *node, s *Source) {
	if s.SignIn != nil && s.Personal && len(s.Secrets) > 0 {
		r.addProblem(at, "%s.%s has credentials: person, with both secrets and sign_in: each principal uses either; "+
			"write a client_secret as an environment variable, like ${NAME}", s.Part, s.Name)
	}
}
