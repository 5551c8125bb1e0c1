package config

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Folder is a configured folder of files with tools.
type Folder struct {
	Source
	Path    string            // absolute
	Tier    tool.Tier         // the weakest tier at which its files run
	Network []string          // hosts that its tools may reach, in lower case, sorted
	Env     map[string]string // environment variables of its tools
	Files   map[string]string // files and folders that its tools see, by name: absolute paths
	shown   ShownFolder
}

// ShownFolder is the printable form of a Folder: the values of its environment are removed.
type ShownFolder struct {
	ShownSource
	Path    string   `json:"path"`
	Tier    string   `json:"tier,omitempty"`
	Network []string `json:"network,omitempty"`
	Env     []string `json:"env,omitempty"`   // names
	Files   []string `json:"files,omitempty"` // names
}

// NewFolder returns a Folder without permissions, as if the configuration had only its path.
func NewFolder(name, path string) *Folder {
	return &Folder{Source: Source{Part: "folders", Name: name}, Path: path,
		shown: ShownFolder{ShownSource: ShownSource{Name: name}, Path: path}}
}

// A FolderOpener creates the upstream of a folder of files with tools.
type FolderOpener interface {
	OpenFolder(*Folder) (tool.Caller, error)
}

// OpenWith implements API.
func (f *Folder) OpenWith(opener any) (tool.Caller, error) {
	return openWith(&f.Source, opener, func(o FolderOpener) (tool.Caller, error) { return o.OpenFolder(f) })
}

// ShowEntry returns the printable form.
func (f *Folder) ShowEntry() any { return f.shown }

// ShowTarget returns the path.
func (f *Folder) ShowTarget() string { return f.shown.Path }

// ListAddresses returns none: a folder is on this machine.
func (f *Folder) ListAddresses() []string { return nil }

// ListCredentials returns the names of the environment variables.
func (f *Folder) ListCredentials() []string { return sortedNames(f.Env) }

// NameGrantor returns the name of what grants hosts to the programs of the folder.
func (f *Folder) NameGrantor() string { return f.Part + "." + f.Name }

func readFolder(r *reader, s Source, e entry) API {
	f := &Folder{Source: s}
	known := key{
		"path": func(n *node) {
			what := e.what + ".path"
			f.Path, f.shown.Path = r.resolveLocal(n, what, r.readText(n, what), true), n.text
		},
		"tier": func(n *node) {
			t, err := tool.ParseTier(r.readText(n, e.what+".tier"))
			if err != nil {
				r.addProblem(n, "%s.tier: %s", e.what, err)
			}
			f.Tier, f.shown.Tier = t, t.String()
		},
		"network": func(n *node) { f.Network = r.readHosts(n, e.what+".network") },
		"env":     func(n *node) { f.Env = r.readEnvironment(n, e.what+".env") },
		"files":   func(n *node) { f.Files = r.readMounts(n, e.what+".files") },
	}
	acceptCredentials(r, &f.Source, e, known)
	ok := r.readSource(&f.Source, e, known)
	switch {
	case f.Headers != nil:
		r.addProblem(e.at, "%s has headers, which have no effect on a folder: remove them", e.what)
	case ok && f.Path == "":
		r.addProblem(e.at, "%s needs a path: the folder with the files", e.what)
	}
	f.shown.ShownSource, f.shown.Network = f.Source.shown, f.Network
	f.shown.Env, f.shown.Files = sortedNames(f.Env), sortedNames(f.Files)
	return f
}

// readHosts reads names of network hosts, without ports and patterns.
func (r *reader) readHosts(n *node, what string) []string {
	var out []string
	for _, h := range r.readTexts(n, what) {
		h = strings.ToLower(h)
		if h == "" || strings.ContainsAny(h, "/*@ ") || strings.Contains(h, ":") && net.ParseIP(h) == nil ||
			strings.HasSuffix(h, ".") {
			r.addProblem(n, "%s: invalid host %q: write a name such as api.example.com, without scheme, port and "+
				"path; there are no patterns", what, clipText(h))
			continue
		}
		out = append(out, h)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// readEnvironment reads the environment of tools: a map, or a list of the names of variables that
// this process has.
func (r *reader) readEnvironment(n *node, what string) map[string]string {
	if n.kind != listNode {
		return r.textMap(n, what)
	}
	out := map[string]string{}
	for _, name := range r.readTexts(n, what) {
		v, ok := r.env(name)
		switch {
		case name == "" || strings.ContainsAny(name, "=\x00\r\n"):
			r.addProblem(n, "%s: invalid name %q: write the names of environment variables, or a map with values", what,
				clipText(name))
		case !ok:
			r.addProblem(n, "%s: environment variable %s is not set: set it, or remove it from the list", what, name)
		default:
			out[name] = v
			if mask.IsSecretVariable(name, v) {
				r.hidden = append(r.hidden, v)
			}
		}
	}
	return out
}

// readMounts reads the files that tools see: a map from names to paths, or a list of paths, whose
// last elements are the names.
func (r *reader) readMounts(n *node, what string) map[string]string {
	out := map[string]string{}
	add := func(at *node, name, path string) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.dir, path)
		}
		switch _, taken := out[name]; {
		case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") || len(name) > 100:
			r.addProblem(at, "%s: invalid name %q: it must be a file name", what, clipText(name))
		case name == "tools" || name == "skills":
			r.addProblem(at, "%s: the name %s has another meaning in programs: write another name before the path",
				what, name)
		case taken:
			r.addProblem(at, "%s: two entries have the name %q: write a map with other names", what, clipText(name))
		default:
			out[name] = path
			r.files = append(r.files, localFile{at, what, path, false})
		}
	}
	if n.kind == listNode {
		for _, p := range r.readTexts(n, what) {
			add(n, filepath.Base(p), p)
		}
		return out
	}
	r.eachEntry(n, what, func(k, v *node) { add(k, k.text, r.readText(v, what+"."+k.text)) })
	return out
}

func sortedNames(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

// FindFolder returns the configured folder with an absolute path or, if there is none, a folder
// without permissions.
func (c *Config) FindFolder(path string) *Folder {
	for _, a := range c.APIs {
		if f, ok := a.(*Folder); ok && filepath.Clean(f.Path) == path {
			return f
		}
	}
	name := filepath.Base(path)
	if name == "" || name == tool.Own || name == "." || name == string(filepath.Separator) || len(name) > 100 {
		name = "local"
	}
	return NewFolder(name, path)
}

// FindGrants returns what is granted to the programs of an upstream: a folder, or a server in a
// sandbox. It returns nil for other upstreams.
func (c *Config) FindGrants(upstream string) *tool.Serving {
	for i := range c.Servers {
		if s := &c.Servers[i]; s.Name == upstream && s.Sandbox != nil {
			return &tool.Serving{Hosts: s.Sandbox.Network, Grantor: s.NameGrantor()}
		}
	}
	for _, a := range c.APIs {
		if f, ok := a.(*Folder); ok && f.Name == upstream {
			return &tool.Serving{Hosts: f.Network, Grantor: f.NameGrantor()}
		}
	}
	return nil
}

// OnlyFolder changes c so that a folder is its only upstream. A folder that is configured keeps its
// permissions. Processes with and without such a change don't answer for each other.
func (c *Config) OnlyFolder(path string) {
	f := *c.FindFolder(path)
	f.Disabled = false
	c.Servers, c.APIs = nil, []API{&f}
	c.File += OnlyFolderMark + path
}

// OnlyFolderMark separates the file of a configuration from the folder to which OnlyFolder limits
// it.
const OnlyFolderMark = " with --tools "
