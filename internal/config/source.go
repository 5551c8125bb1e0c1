package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/biplane-dev/biplane/internal/tool"
)

// apiKinds lists the kinds of upstreams beside MCP servers by their keys in the configuration. To
// add one, write its file here and in package daemon, and add its row. No other code names a kind.
var apiKinds = map[string]func(r *reader, s Source, e entry) API{
	"folders": readFolder,
	"graphql": readGraphQL,
	"openapi": readOpenAPI,
}

// ListKinds returns the keys of the kinds of upstreams beside MCP servers, sorted.
func ListKinds() []string { return slices.Sorted(maps.Keys(apiKinds)) }

// An API is a configured upstream that isn't an MCP server.
type API interface {
	// OpenWith creates the upstream with a method of an opener, which each kind has. The result is
	// an upstream.Upstream.
	OpenWith(opener any) (tool.Caller, error)
	// GetSource returns the fields that all kinds have in common.
	GetSource() *Source
	// ShowEntry returns the printable form, without secrets.
	ShowEntry() any
	// ShowTarget returns the address or command of the upstream, without secrets.
	ShowTarget() string
	// ListAddresses returns the addresses that the entry names; none if it is on this machine.
	ListAddresses() []string
	// ListCredentials returns the names of the configured credentials, sorted.
	ListCredentials() []string
}

// A Source is what all kinds of upstreams have in common.
type Source struct {
	Part     string // of the configuration that has it: "mcpServers", "openapi"
	Name     string
	Disabled bool
	Headers  map[string]string // of every request
	Timeout  time.Duration     // of one call; 0: the default
	Labels   []string
	Narrow   Narrowing
	Secrets  []string // names of the secrets that it refers to, sorted; see Config.ReadAPI
	Personal bool     // see Server
	SignIn   *SignIn  // nil: people don't sign in
	Idle     time.Duration
	// SignInURLs are the addresses for sign-in and tokens that its entry names.
	SignInURLs []string
	named      []string // tools that are named elsewhere in its entry
	shown      ShownSource

	Descriptions // its own
}

func newSource(part, name string) Source {
	return Source{Part: part, Name: name, shown: ShownSource{Name: name}}
}

// openWith calls open with the opener, which must be an O.
func openWith[O any](s *Source, opener any, open func(O) (tool.Caller, error)) (tool.Caller, error) {
	o, ok := opener.(O)
	if !ok {
		return nil, tool.Errorf(tool.Internal, "%s.%s: this process can't open upstreams of this kind", s.Part, s.Name)
	}
	return open(o)
}

// GetSource returns s.
func (s *Source) GetSource() *Source { return s }

// ListCredentials returns the names of the configured headers, sorted.
func (s *Source) ListCredentials() []string { return slices.Sorted(maps.Keys(s.Headers)) }

// A ShownSource is the printable form of a Source.
type ShownSource struct {
	Name     string            `json:"name"`
	Headers  map[string]string `json:"headers,omitempty"`
	Labels   []string          `json:"labels,omitempty"`
	Timeout  string            `json:"timeout,omitempty"`
	Disabled bool              `json:"disabled,omitempty"`

	Credentials string `json:"credentials,omitempty"`
	Idle        string `json:"idle,omitempty"`
}

// ListSources returns all configured upstreams.
func (c *Config) ListSources() (out []*Source) {
	for i := range c.Servers {
		s := &c.Servers[i]
		out = append(out, &Source{Part: "mcpServers", Name: s.Name, Disabled: s.Disabled, Labels: s.Labels,
			Secrets: s.Secrets, Personal: s.Personal, named: slices.Sorted(maps.Keys(s.Timeouts)),
			Narrow: s.Narrow, Descriptions: s.Descriptions})
	}
	for _, a := range c.APIs {
		out = append(out, a.GetSource())
	}
	return out
}

// An entry is the part of the file that configures one upstream.
type entry struct {
	what string // for errors: "openapi.petstore"
	at   *node  // its name
	n    *node
}

// readAPIs reads the upstreams of one kind.
func (r *fileReader) readAPIs(n *node, part string) (out []API) {
	r.eachEntry(n, part, func(k, v *node) {
		name := k.text
		switch {
		case name == "" || len(name) > 100 || strings.ContainsFunc(name, unicode.IsControl):
			r.addProblem(k, "%s: invalid upstream name %q: use 1 to 100 characters", part, clipText(name))
		case name == tool.Own:
			r.addProblem(k, "%s: the name biplane is reserved for biplane's own tools: choose another one", part)
		case v.kind != mapNode:
			r.addProblem(v, "%s.%s must be a map, not %s", part, name, v.kind)
		default:
			var a API
			secrets := r.readEntry(func() {
				a = apiKinds[part](r.reader, newSource(part, name), entry{part + "." + name, k, v})
			})
			a.GetSource().Secrets = secrets
			checkSignIn(r.reader, k, a.GetSource())
			if a.GetSource().Personal && len(secrets) == 0 && a.GetSource().SignIn == nil {
				r.addProblem(k, "%s.%s has credentials: person, but refers to no secrets: write ${secret:NAME} in its "+
					"auth, headers or env", part, name)
			}
			out = append(out, a)
		}
	})
	return out
}

// acceptCredentials adds the keys of upstreams that each principal can use with their own secrets.
func acceptCredentials(r *reader, s *Source, e entry, known key) {
	known["credentials"] = func(n *node) {
		s.Personal = r.oneOf(n, e.what+".credentials", "shared", "person") == "person"
		s.shown.Credentials = n.text
	}
	known["idle"] = func(n *node) {
		s.Idle, s.shown.Idle = r.readDuration(n, e.what+".idle", minTimeout, maxTimeout), n.text
	}
}

// readSource reads an entry: the keys that all kinds have, and those in known. It reports whether
// the entry has no problem.
func (r *reader) readSource(s *Source, e entry, known key) bool {
	known["headers"] = func(n *node) { s.Headers, s.shown.Headers = r.readHeaders(n, e.what), redactMap(n) }
	known["timeout"] = func(n *node) { s.Timeout = r.readTimeout(n, e.what) }
	known["labels"] = func(n *node) { s.Labels = r.readLabels(n, e.what) }
	known["disabled"] = func(n *node) { s.Disabled = r.readBool(n, e.what+".disabled") }
	known["enabled"] = func(n *node) { s.Disabled = !r.readBool(n, e.what+".enabled") }
	known["observed_types"] = observedReader(r, e.what+".observed_types", &s.Observed)
	known["definitions"] = func(n *node) { r.readDefinitions(n, e.what+".definitions", &s.Definitions) }
	r.readNarrowing(&s.Narrow, e.what, known)
	before := len(r.problems)
	r.readObject(e.n, e.what, known)
	s.shown.Disabled, s.shown.Labels = s.Disabled, s.Labels
	if s.Timeout > 0 {
		s.shown.Timeout = s.Timeout.String()
	}
	return len(r.problems) == before
}

// An APICredential is a credential of an HTTP API.
type APICredential struct {
	Value              string // an API key or a token
	Username, Password string
	ClientID           string
	ClientSecret       string
	TokenURL           string
	Scopes             []string

	SignIn           bool // people sign in, with the authorization code grant
	AuthorizationURL string
	Issuer           string
	RedirectPort     int
}

// readCredential reads a credential: a text, or a map for a user or an OAuth client. more are the
// keys that not all kinds of upstreams have.
func (r *reader) readCredential(n *node, what string, c *APICredential, more key) {
	if n.kind != mapNode {
		if c.Value = r.readText(n, what); strings.ContainsAny(c.Value, "\r\n\x00") {
			r.addProblem(n, "%s can't be sent: it has line breaks", what)
		}
		return
	}
	known := key{
		"username":      func(n *node) { c.Username = r.readText(n, what+".username") },
		"password":      func(n *node) { c.Password = r.readText(n, what+".password") },
		"client_id":     func(n *node) { c.ClientID = r.readText(n, what+".client_id") },
		"client_secret": func(n *node) { c.ClientSecret = r.readText(n, what+".client_secret") },
		"token_url":     func(n *node) { c.TokenURL = r.readText(n, what+".token_url") },
		"scopes":        func(n *node) { c.Scopes = r.readTexts(n, what+".scopes") },
	}
	maps.Copy(known, more)
	r.readObject(n, what, known)
}

// addSignInURLs adds the addresses that a credential names.
func (s *Source) addSignInURLs(c APICredential) {
	for _, address := range [...]string{c.Issuer, c.AuthorizationURL, c.TokenURL} {
		if address != "" {
			s.SignInURLs = append(s.SignInURLs, address)
		}
	}
}

// checkUpstreamNames reports names that two upstreams of different kinds have.
func (r *fileReader) checkUpstreamNames(root *node) {
	seen := map[string]string{}
	for _, s := range r.c.ListSources() {
		if part := cmp.Or(seen[s.Name], s.Part); part != s.Part {
			r.addProblem(root, "%s.%s: %s has an upstream of this name, too: rename one of them", s.Part, s.Name, part)
		}
		seen[s.Name] = s.Part
	}
}

// shownAPIs holds the printable forms of upstreams by the keys of their kinds.
type shownAPIs map[string][]any

// MarshalJSON returns the object with each kind's key beside the other fields.
func (s Shown) MarshalJSON() ([]byte, error) {
	type plain Shown
	out, err := json.Marshal(plain(s))
	if err != nil || len(s.APIs) == 0 {
		return out, err
	}
	apis, err := json.Marshal(s.APIs)
	if err != nil {
		return nil, err
	}
	return append(append(out[:len(out)-1], ','), apis[1:]...), nil
}

// A localFile is a file or folder on this machine that an upstream reads.
type localFile struct {
	at     *node
	what   string // its key
	path   string
	folder bool // it must be a folder
}

// ListMissing returns a problem for each file or folder of an upstream that is missing. Until it
// exists, the upstream is down.
func (u *Upstreams) ListMissing() []Problem {
	var out []Problem
	for _, f := range u.files {
		info, err := os.Stat(f.path)
		said := ""
		switch {
		case errors.Is(err, fs.ErrNotExist):
			said = "does not exist"
		case err != nil:
			said = "can't be read: " + errors.Unwrap(err).Error()
		case f.folder && !info.IsDir():
			said = "is not a folder"
		default:
			continue
		}
		out = append(out, Problem{f.at.line, f.at.col, fmt.Sprintf("%s: %s %s", f.what, f.path, said)})
	}
	return sortProblems(out)
}

// resolveLocal is like resolvePath, for a file or folder that an upstream reads. ListMissing checks
// whether it exists.
func (r *reader) resolveLocal(n *node, what, text string, folder bool) string {
	path := r.resolvePath(text)
	if path != "" {
		r.files = append(r.files, localFile{n, what, path, folder})
	}
	return path
}

// resolvePath returns the absolute path that a text of the file names; empty for an empty text.
func (r *reader) resolvePath(text string) string {
	if text == "" || filepath.IsAbs(text) {
		return text
	}
	return filepath.Join(r.dir, text)
}
