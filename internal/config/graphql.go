package config

import (
	"net/url"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A GraphQL is a configured GraphQL endpoint.
type GraphQL struct {
	Source
	URL    string
	Schema string // absolute path of a file with the schema; "": introspection
	Auth   APICredential
	shown  ShownGraphQL
}

// ShownGraphQL is the printable form of a GraphQL: variables are not expanded, secrets are removed.
type ShownGraphQL struct {
	ShownSource
	URL    string `json:"url"`
	Schema string `json:"schema,omitempty"`
	Auth   bool   `json:"auth,omitempty"`
}

// A GraphQLOpener creates the upstream of a GraphQL endpoint.
type GraphQLOpener interface {
	OpenGraphQL(*GraphQL) (tool.Caller, error)
}

// OpenWith implements API.
func (g *GraphQL) OpenWith(opener any) (tool.Caller, error) {
	return openWith(&g.Source, opener, func(o GraphQLOpener) (tool.Caller, error) { return o.OpenGraphQL(g) })
}

// ShowEntry returns the printable form.
func (g *GraphQL) ShowEntry() any { return g.shown }

// ShowTarget returns the address.
func (g *GraphQL) ShowTarget() string { return g.shown.URL }

// ListAddresses returns the address of the endpoint.
func (g *GraphQL) ListAddresses() []string { return []string{g.URL} }

// ListCredentials returns the names of the configured headers, and auth if it is set.
func (g *GraphQL) ListCredentials() []string {
	names := g.Source.ListCredentials()
	if g.shown.Auth {
		names = append([]string{"auth"}, names...)
	}
	return names
}

func readGraphQL(r *reader, s Source, e entry) API {
	g := &GraphQL{Source: s}
	known := key{
		"url": func(n *node) {
			g.URL, g.shown.URL = r.readText(n, e.what+".url"), shownURL(n)
			u, err := url.Parse(g.URL)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				r.addProblem(n, "%s.url must be like https://shop.example/graphql", e.what)
			}
		},
		"schema": func(n *node) {
			what := e.what + ".schema"
			g.Schema, g.shown.Schema = r.resolveLocal(n, what, r.readText(n, what), false), n.text
		},
		"auth": func(n *node) {
			g.shown.Auth = true
			r.readCredential(n, e.what+".auth", &g.Auth, nil)
			g.addSignInURLs(g.Auth)
			if g.Auth.ClientID != "" && g.Auth.TokenURL == "" {
				r.addProblem(n, "%s.auth needs token_url, where the client gets its tokens", e.what)
			}
		},
	}
	acceptCredentials(r, &g.Source, e, known)
	if r.readSource(&g.Source, e, known) && g.URL == "" {
		r.addProblem(e.at, "%s needs a url: the address of the GraphQL endpoint", e.what)
	}
	g.shown.ShownSource = g.Source.shown
	return g
}
