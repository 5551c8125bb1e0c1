package config

import (
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/biplane-dev/biplane/internal/tool"
)

// An OpenAPI is a configured HTTP API with an OpenAPI document.
type OpenAPI struct {
	Name      string
	Disabled  bool
	Spec      string            // of its document: an http or https URL, or an absolute path
	Server    string            // instead of the document's
	Variables map[string]string // of the document's servers
	Headers   map[string]string
	Auth      map[string]APICredential // by security scheme
	Timeout   time.Duration            // of one call; 0: the default
	Labels    []string
	Narrow    Narrowing
	shown     ShownOpenAPI
}

// An APICredential is the credential for one security scheme of a document.
type APICredential struct {
	Value              string // an API key or a token
	Username, Password string
	ClientID           string
	ClientSecret       string
	TokenURL           string
	Scopes             []string
}

// Shown returns the printable form.
func (a *OpenAPI) Shown() ShownOpenAPI { return a.shown }

// ShownOpenAPI is the printable form of an OpenAPI: variables are not expanded, secrets are
// removed.
type ShownOpenAPI struct {
	Name     string            `json:"name"`
	Spec     string            `json:"spec"`
	Server   string            `json:"server,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	Auth     []string          `json:"auth,omitempty"` // names of the security schemes
	Labels   []string          `json:"labels,omitempty"`
	Timeout  string            `json:"timeout,omitempty"`
	Disabled bool              `json:"disabled,omitempty"`
}

// A Source is what all kinds of upstreams have in common.
type Source struct {
	Part     string // of the configuration that has it: "mcpServers", "openapi"
	Name     string
	Disabled bool
	Narrow   Narrowing
	named    []string // tools that are named elsewhere in its entry
}

// ListSources returns all configured upstreams.
func (c *Config) ListSources() (out []Source) {
	for i := range c.Servers {
		s := &c.Servers[i]
		out = append(out, Source{"mcpServers", s.Name, s.Disabled, s.Narrow, slices.Sorted(maps.Keys(s.Timeouts))})
	}
	for i := range c.OpenAPI {
		a := &c.OpenAPI[i]
		out = append(out, Source{"openapi", a.Name, a.Disabled, a.Narrow, nil})
	}
	return out
}

func (r *reader) readOpenAPI(n *node, dir string) (out []OpenAPI) {
	r.eachEntry(n, "openapi", func(k, v *node) {
		name := k.text
		switch {
		case name == "" || len(name) > 100 || strings.ContainsFunc(name, unicode.IsControl):
			r.addProblem(k, "openapi: invalid upstream name %q: use 1 to 100 characters", clipText(name))
		case name == tool.Own:
			r.addProblem(k, "openapi: the name biplane is reserved for biplane's own tools: choose another one")
		case v.kind != mapNode:
			r.addProblem(v, "openapi.%s must be a map with a spec, not %s", name, v.kind)
		default:
			out = append(out, r.readAPI(name, k, v, dir))
		}
	})
	return out
}

func (r *reader) readAPI(name string, at, n *node, dir string) OpenAPI {
	a := OpenAPI{Name: name, shown: ShownOpenAPI{Name: name}}
	what := "openapi." + name
	known := key{
		"spec": func(n *node) {
			a.Spec, a.shown.Spec = r.readText(n, what+".spec"), shownURL(n)
			if u, err := url.Parse(a.Spec); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
				return
			}
			if a.Spec != "" && !filepath.IsAbs(a.Spec) {
				a.Spec = filepath.Join(dir, a.Spec)
			}
		},
		"server": func(n *node) {
			a.Server, a.shown.Server = r.readText(n, what+".server"), shownURL(n)
			u, err := url.Parse(a.Server)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" {
				r.addProblem(n, "%s.server must be like https://api.example.com/v1", what)
			}
		},
		"variables": func(n *node) { a.Variables = r.textMap(n, what+".variables") },
		"headers":   func(n *node) { a.Headers, a.shown.Headers = r.readHeaders(n, what), redactMap(n) },
		"auth": func(n *node) {
			a.Auth = map[string]APICredential{}
			r.eachEntry(n, what+".auth", func(k, v *node) {
				a.Auth[k.text] = r.readCredential(v, what+".auth."+k.text)
				a.shown.Auth = append(a.shown.Auth, k.text)
			})
		},
		"timeout":  func(n *node) { a.Timeout = r.readTimeout(n, what) },
		"labels":   func(n *node) { a.Labels = r.readLabels(n, what); a.shown.Labels = a.Labels },
		"disabled": func(n *node) { a.Disabled = r.readBool(n, what+".disabled") },
		"enabled":  func(n *node) { a.Disabled = !r.readBool(n, what+".enabled") },
	}
	r.readNarrowing(&a.Narrow, what, known)
	before := len(r.problems)
	r.readObject(n, what, known)
	if a.Spec == "" && len(r.problems) == before {
		r.addProblem(at, "%s needs a spec: the file or the address of its OpenAPI document", what)
	}
	a.shown.Disabled = a.Disabled
	if a.Timeout > 0 {
		a.shown.Timeout = a.Timeout.String()
	}
	return a
}

// readCredential reads a credential: a text, or a map for a user or an OAuth client.
func (r *reader) readCredential(n *node, what string) (c APICredential) {
	if n.kind != mapNode {
		if c.Value = r.readText(n, what); strings.ContainsAny(c.Value, "\r\n\x00") {
			r.addProblem(n, "%s can't be sent: it has line breaks", what)
		}
		return c
	}
	r.readObject(n, what, key{
		"username":      func(n *node) { c.Username = r.readText(n, what+".username") },
		"password":      func(n *node) { c.Password = r.readText(n, what+".password") },
		"client_id":     func(n *node) { c.ClientID = r.readText(n, what+".client_id") },
		"client_secret": func(n *node) { c.ClientSecret = r.readText(n, what+".client_secret") },
		"token_url":     func(n *node) { c.TokenURL = r.readText(n, what+".token_url") },
		"scopes":        func(n *node) { c.Scopes = r.readTexts(n, what+".scopes") },
	})
	return c
}

// checkUpstreamNames reports names that two upstreams of different kinds have.
func (r *reader) checkUpstreamNames(apis *node, c *Config) {
	for i := range c.OpenAPI {
		name := c.OpenAPI[i].Name
		if slices.ContainsFunc(c.Servers, func(s Server) bool { return s.Name == name }) {
			r.addProblem(apis, "openapi.%s: mcpServers has an upstream of this name, too: rename one of them", name)
		}
	}
}
