// Package clients reads the MCP servers that are configured in agents' clients, such as editors,
// and writes a Biplane configuration that has all of them.
package clients

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/tool"
)

// An Import is the content of clients' files.
type Import struct {
	Files   []File    `json:"files"`
	Servers []*Server `json:"servers"`
	Skipped []Skipped `json:"skipped"`
}

// A File is one that exists.
type File struct {
	Client  string `json:"client"`
	Path    string `json:"path"`
	Servers int    `json:"servers"`
	Error   string `json:"error,omitempty"` // why it could not be read
}

// A Server is one MCP server, with all the files that configure it.
type Server struct {
	Name    string             `json:"name"`
	Sources []Source           `json:"sources"`
	Shown   config.ShownServer `json:"server"`            // without secrets
	Secrets []string           `json:"secrets,omitempty"` // which parts are secrets in plain text
	Unset   []string           `json:"unset,omitempty"`   // environment variables that it needs
	Only    []string           `json:"only_tools,omitempty"`
	Not     []string           `json:"without_tools,omitempty"`
	Lost    []string           `json:"not_carried_over,omitempty"` // settings of the client without a counterpart

	definition definition
}

// A Source is an entry of a client's file.
type Source struct {
	Client string `json:"client"`
	File   string `json:"file"`
	Name   string `json:"name"` // there
}

// A Skipped is an entry that can't be imported.
type Skipped struct {
	Source
	Reason string `json:"reason"`
}

// A definition is a server as the configuration writes it.
type definition struct {
	config.ServerEntry
	inProject bool // Dir is only the project's folder, in which its client starts it
}

// identityKey returns a key that identifies the server: equal ones are the same, whether or not
// they are disabled.
func (d definition) identityKey() string {
	d.Disabled = false
	if d.inProject {
		d.Dir = ""
	}
	if len(d.Env) == 0 {
		d.Env = nil
	}
	if len(d.Headers) == 0 {
		d.Headers = nil
	}
	if d.Type == "stdio" || d.Type == "http" { // what its command or its url says anyway
		d.Type = ""
	}
	for _, list := range []*[]string{&d.Args, &d.Only, &d.Not} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	raw, err := json.Marshal(d.ServerEntry)
	if err != nil {
		panic(err) // it has only texts
	}
	return string(raw)
}

// ReadPlaces reads the servers of all places. env looks up the variables that servers refer to.
func ReadPlaces(places []Place, m Machine, env func(string) (string, bool)) *Import {
	x := &Import{Files: []File{}, Servers: []*Server{}, Skipped: []Skipped{}}
	b := importBuilder{x, map[string]*Server{}, map[string]bool{}}
	for _, p := range places {
		servers, found, err := p.readServers(m.Folder)
		if err != nil {
			x.Files = append(x.Files, File{Client: p.Client, Path: p.File, Error: err.Error()})
			continue
		}
		if !found {
			continue
		}
		x.Files = append(x.Files, File{Client: p.Client, Path: p.File, Servers: len(servers)})
		b.addServers(p, servers, m, env)
	}
	return x
}

// An importBuilder adds the servers of files to an Import.
type importBuilder struct {
	x      *Import
	byKey  map[string]*Server
	byName map[string]bool
}

// addServers adds the servers of one file.
func (b *importBuilder) addServers(p Place, servers serverTable, m Machine, env func(string) (string, bool)) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		source := Source{Client: p.Client, File: p.File, Name: name}
		s, reason := p.convertEntry(name, servers[name], m, env)
		if reason != "" {
			b.x.Skipped = append(b.x.Skipped, Skipped{Source: source, Reason: reason})
			continue
		}
		if same := b.byKey[s.definition.identityKey()]; same != nil {
			same.Sources = append(same.Sources, source)
			same.Lost = slices.Compact(slices.Sorted(slices.Values(append(same.Lost, s.Lost...))))
			same.definition.Disabled = same.definition.Disabled && s.definition.Disabled
			same.Shown.Disabled = same.definition.Disabled
			continue
		}
		s.Sources = []Source{source}
		s.Name = distinctName(name, p.Client, b.byName)
		s.Shown.Name = s.Name
		b.byKey[s.definition.identityKey()], b.byName[s.Name] = s, true
		b.x.Servers = append(b.x.Servers, s)
	}
}

// distinctName returns name, or if it is taken, one that also has the client's name.
func distinctName(name, client string, taken map[string]bool) string {
	if name == tool.Own {
		name = "biplane_server"
	}
	if !taken[name] {
		return name
	}
	name += "-" + strings.ToLower(strings.ReplaceAll(client, " ", "-"))
	for n := 1; ; n++ {
		next := name
		if n > 1 {
			next = fmt.Sprintf("%s-%d", name, n)
		}
		if !taken[next] {
			return next
		}
	}
}

// convertEntry returns a client's entry as a server of the configuration, or the reason
// why it can't be one.
func (p Place) convertEntry(name string, raw json.RawMessage, m Machine,
	env func(string) (string, bool)) (*Server, string) {
	raw, err := p.format.normalizeEntry(raw)
	if err != nil {
		return nil, err.Error()
	}
	e, err := decodeEntry(raw)
	if err != nil {
		return nil, err.Error()
	}
	w := &rewriter{place: p, home: m.Home}
	d := p.defineServer(e, w)
	lost := append(e.unknown, w.convertSignIn(&d, e)...)
	switch {
	case len(w.problems) > 0:
		return nil, strings.Join(w.problems, "; ")
	case strings.TrimSuffix(filepath.Base(filepath.FromSlash(d.Command)), ".exe") == "biplane":
		return nil, "it is Biplane itself"
	}
	s := &Server{definition: d, Only: d.Only, Not: d.Not, Lost: lost}
	return s, s.checkDefinition(name, env)
}

// checkDefinition completes what is shown of a server, by parsing it as a configuration does. It
// returns what is wrong with it.
func (s *Server) checkDefinition(name string, env func(string) (string, bool)) string {
	text, err := writeYAML(map[string]config.ServerEntry{distinctName(name, "", nil): s.definition.ServerEntry})
	if err != nil {
		return err.Error()
	}
	lookup := func(name string) (string, bool) {
		v, ok := env(name)
		required := bytes.Contains(text, []byte("${"+name+"}")) || bytes.Contains(text, []byte("${env:"+name+"}"))
		if !ok && required && !slices.Contains(s.Unset, name) {
			s.Unset = append(s.Unset, name)
		}
		return v, true
	}
	c, err := config.Parse("biplane.yaml", text, lookup, tool.WASM)
	if err != nil {
		return tool.AsError(err).Error()
	}
	s.Shown = c.Servers[0].Shown()
	d := s.definition
	for _, k := range slices.Sorted(maps.Keys(d.Env)) {
		if !strings.Contains(strings.ReplaceAll(d.Env[k], "$${", ""), "${") && mask.IsSecretVariable(k, d.Env[k]) {
			s.Secrets = append(s.Secrets, "env "+k)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(d.Headers)) {
		if s.Shown.Headers[k] != d.Headers[k] {
			s.Secrets = append(s.Secrets, "header "+k)
		}
	}
	if !slices.Equal(s.Shown.Args, d.Args) && len(d.Args) > 0 {
		s.Secrets = append(s.Secrets, "args")
	}
	if o := d.OAuth; o != nil && s.Shown.OAuth != nil && s.Shown.OAuth.ClientSecret != o.ClientSecret {
		s.Secrets = append(s.Secrets, "oauth client_secret")
	}
	if s.Shown.URL != d.URL {
		s.Secrets = append(s.Secrets, "url")
	}
	return ""
}

// defineServer converts an entry in the client's format.
func (p Place) defineServer(e *entry, w *rewriter) definition {
	d := definition{ServerEntry: config.ServerEntry{
		Command: w.rewriteText(e.Command), Args: w.rewriteList(e.Args), Dir: w.rewriteText(e.Dir),
		Env: w.rewriteMap(e.Env), URL: w.rewriteText(cmp.Or(e.URL, e.ServerURL, e.HTTPURL)),
		Headers: w.rewriteMap(e.Headers), Only: append(e.IncludeTools, e.EnabledOnly...),
		Not: slices.Concat(e.ExcludeTools, e.DisabledTools, e.DisabledToo),
	}}
	maps.Copy(d.Headers, w.rewriteMap(e.HTTPHeaders))
	for k, name := range e.EnvHeaders {
		d.Headers[k] = "${" + string(name) + "}"
	}
	if e.BearerEnv != "" {
		d.Headers["Authorization"] = "Bearer ${" + e.BearerEnv + "}"
	}
	t := strings.ToLower(cmp.Or(e.Type, e.Transport))
	if d.URL != "" && (t == "sse" || t == "" && p.format == gemini && e.HTTPURL == "") {
		d.Type = "sse" // otherwise Streamable HTTP, which needs no type
	}
	if d.Dir != "" && !filepath.IsAbs(d.Dir) && !strings.HasPrefix(d.Dir, "${") {
		d.Dir = filepath.Join(filepath.Dir(p.File), d.Dir)
	}
	if d.Dir == "" && d.Command != "" && p.folder != "" {
		d.Dir, d.inProject = p.folder, true
	}
	d.Disabled = e.Disabled || e.Enabled != nil && !*e.Enabled
	return d
}

// WriteYAML returns the text of a configuration with the servers.
func (x *Import) WriteYAML() ([]byte, error) {
	all := map[string]config.ServerEntry{}
	for _, s := range x.Servers {
		all[s.Name] = s.definition.ServerEntry
	}
	return writeYAML(all)
}

func writeYAML(servers map[string]config.ServerEntry) ([]byte, error) {
	return yaml.Marshal(struct {
		Servers map[string]config.ServerEntry `yaml:"mcpServers"`
	}{servers})
}
