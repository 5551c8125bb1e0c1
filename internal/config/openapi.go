package config

import (
	"cmp"
	"maps"
	"net/url"
	"path/filepath"
	"slices"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An OpenAPI is a configured HTTP API with an OpenAPI document.
type OpenAPI struct {
	Source
	Spec      string                   // of its document: an http or https URL, or an absolute path
	Server    string                   // instead of the document's
	Variables map[string]string        // of the document's servers
	Auth      map[string]APICredential // by security scheme
	shown     ShownOpenAPI
}

// ShownOpenAPI is the printable form of an OpenAPI: variables are not expanded, secrets are
// removed.
type ShownOpenAPI struct {
	ShownSource
	Spec   string   `json:"spec"`
	Server string   `json:"server,omitempty"`
	Auth   []string `json:"auth,omitempty"` // names of the security schemes
}

// A OpenAPIOpener creates the upstream of an HTTP API with an OpenAPI document.
type OpenAPIOpener interface {
	OpenOpenAPI(*OpenAPI) (tool.Caller, error)
}

// OpenWith implements API.
func (a *OpenAPI) OpenWith(opener any) (tool.Caller, error) {
	return openWith(&a.Source, opener, func(o OpenAPIOpener) (tool.Caller, error) { return o.OpenOpenAPI(a) })
}

// ShowEntry returns the printable form.
func (a *OpenAPI) ShowEntry() any { return a.shown }

// ShowTarget returns the place of the document.
func (a *OpenAPI) ShowTarget() string { return a.shown.Spec }

// ListAddresses returns the addresses of the document and of the server. A document in a file
// without a server has none.
func (a *OpenAPI) ListAddresses() (out []string) {
	if u, err := url.Parse(a.Spec); err == nil && u.Host != "" {
		out = append(out, a.Spec)
	}
	if a.Server != "" {
		out = append(out, a.Server)
	}
	return out
}

// ListCredentials returns the names of the configured security schemes and headers.
func (a *OpenAPI) ListCredentials() []string {
	return append(slices.Sorted(maps.Keys(a.Auth)), a.Source.ListCredentials()...)
}

func readOpenAPI(r *reader, s Source, e entry) API {
	a := &OpenAPI{Source: s}
	known := key{
		"spec": func(n *node) {
			a.Spec, a.shown.Spec = r.readText(n, e.what+".spec"), shownURL(n)
			if u, err := url.Parse(a.Spec); err != nil || u.Scheme != "http" && u.Scheme != "https" {
				a.Spec = r.resolveLocal(n, e.what+".spec", a.Spec, false)
			}
		},
		"server": func(n *node) {
			a.Server, a.shown.Server = r.readText(n, e.what+".server"), shownURL(n)
			u, err := url.Parse(a.Server)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
				r.addProblem(n, "%s.server must be like https://api.example.com/v1", e.what)
			}
		},
		"variables": func(n *node) { a.Variables = r.textMap(n, e.what+".variables") },
		"auth": func(n *node) {
			a.Auth = map[string]APICredential{}
			r.eachEntry(n, e.what+".auth", func(k, v *node) {
				a.Auth[k.text] = readSignIn(r, &a.Source, v, e.what+".auth."+k.text)
				a.shown.Auth = append(a.shown.Auth, k.text)
			})
		},
	}
	acceptCredentials(r, &a.Source, e, known)
	if r.readSource(&a.Source, e, known) && a.Spec == "" {
		r.addProblem(e.at, "%s needs a spec: the file or the address of its OpenAPI document", e.what)
	}
	if a.SignIn != nil {
		a.SignIn.Address = cmp.Or(a.Server, a.Spec)
		if filepath.IsAbs(a.SignIn.Address) {
			r.addProblem(e.at, "%s: people sign in to it, and its document is a file: set server, the only address "+
				"that their tokens are sent to", e.what)
		}
	}
	a.shown.ShownSource = a.Source.shown
	return a
}
