package config

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Secrets lists the sources of the values of ${secret:NAME}. References are allowed in the entries
// of upstreams only. Parse doesn't resolve them: see Config.ReadServer and Config.ReadAPI.
type Secrets struct {
	Sources   []SecretSource // in the order in which they are asked; empty: the data folder
	Variables []string       // values of environment variables that may be secret

	root *node   // of the file
	from *reader // has the environment
}

// A SecretSource is a place that secrets are read from.
type SecretSource struct {
	Kind string // "folder" (the data folder), "env", "keyring", "file" or "vault"
	// Path is the absolute path of a file, or of a folder with a file for each secret.
	Path  string
	Vault Vault
}

// A Vault is a path of the key-value store, version 2, of a Vault or OpenBao server.
type Vault struct {
	Address   string
	Path      string // of one entry, with the mount first: "secret/biplane"
	Token     string
	Namespace string
	Timeout   time.Duration // of a request; 0: the default
}

// namesOfSecrets matches the names of secrets.
var namesOfSecrets = lazily.Regexp(`^[A-Za-z_][A-Za-z0-9_.-]{0,99}$`)

// IsSecretName reports whether a secret can have the name.
func IsSecretName(name string) bool { return namesOfSecrets.Get().MatchString(name) }

func (r *fileReader) readSecrets(n *node) {
	s := &r.c.Secrets
	if n.kind != listNode {
		r.addProblem(n, "secrets must be a list of sources, such as [folder, env], not %s", n.kind)
		return
	}
	for i, e := range n.list {
		what := fmt.Sprintf("secrets[%d]", i)
		if e.kind != mapNode {
			s.Sources = append(s.Sources, SecretSource{Kind: r.oneOf(e, what, "folder", "env", "keyring")})
			continue
		}
		var from SecretSource
		r.readObject(e, what, key{
			"file": func(n *node) {
				from.Kind, from.Path = "file", r.resolvePath(r.readText(n, what+".file"))
				if from.Path == "" {
					r.addProblem(n, "%s.file is empty: name a file, or a folder with a file for each secret", what)
				}
			},
			"vault": func(n *node) { from.Kind, from.Vault = "vault", r.readVault(n, what+".vault") },
		})
		if len(e.fields) != 1 {
			r.addProblem(e, "%s must have one key, file or vault: write a list item for each source", what)
		}
		s.Sources = append(s.Sources, from)
	}
}

func (r *fileReader) readVault(n *node, what string) (v Vault) {
	r.readObject(n, what, key{
		"address": func(n *node) {
			v.Address = r.readText(n, what+".address")
			u, err := url.Parse(v.Address)
			switch {
			case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil:
				r.addProblem(n, "%s.address must be like https://vault.example.com:8200", what)
			case u.Scheme == "http" && !slices.Contains([]string{"127.0.0.1", "localhost", "::1"}, u.Hostname()):
				r.addProblem(n, "%s.address must be https, unless it is on this machine: its secrets would travel in "+
					"plain text", what)
			}
		},
		"path": func(n *node) {
			v.Path = strings.Trim(r.readText(n, what+".path"), "/")
			mount, rest, _ := strings.Cut(v.Path, "/")
			if mount == "" || rest == "" || slices.Contains(strings.Split(v.Path, "/"), "..") {
				r.addProblem(n, "%s.path must be a mount and the path of an entry, such as secret/biplane", what)
			}
		},
		"token": func(n *node) {
			v.Token = r.readText(n, what+".token")
			r.hidden = append(r.hidden, v.Token)
		},
		"namespace": func(n *node) { v.Namespace = r.readText(n, what+".namespace") },
		"timeout":   func(n *node) { v.Timeout = r.readDuration(n, what+".timeout", minTimeout, time.Minute) },
	})
	if n.kind == mapNode && (v.Address == "" || v.Path == "" || v.Token == "") {
		r.addProblem(n, "%s needs an address, a path and a token", what)
	}
	return v
}

// expandSecret returns the value of a secret, or a placeholder if secrets are not known yet.
func (r *reader) expandSecret(n *node, name string) string {
	switch {
	case !r.inUpstream:
		r.addProblem(n, "${secret:%s} has no meaning here: entries of upstreams can refer to secrets; write "+
			"${NAME} for an environment variable", clipText(name))
		return ""
	case !IsSecretName(name):
		r.addProblem(n, "${secret:%s} can't be a secret's name: use letters, digits, _, - and .", clipText(name))
		return ""
	}
	if !slices.Contains(r.secretNames, name) {
		r.secretNames = append(r.secretNames, name)
	}
	if v, ok := r.secrets[name]; ok {
		return v
	}
	return "$secret." + name // valid in addresses and headers
}

// readEntry calls read, which reads the entry of an upstream, and returns the names of the secrets
// that the entry refers to, sorted.
func (r *reader) readEntry(read func()) []string {
	r.inUpstream, r.secretNames = true, nil
	read()
	r.inUpstream = false
	slices.Sort(r.secretNames)
	return r.secretNames
}

// keepFile keeps what ReadServer and ReadAPI read.
func (s *Secrets) keepFile(root *node, r *reader) { s.root, s.from = root, &reader{env: r.env} }

// findEntry returns an entry of a part of the file, and its key.
func (s *Secrets) findEntry(part, name string) (k, v *node) {
	if s.root != nil {
		for _, p := range s.root.fields {
			if p.key.text != part {
				continue
			}
			for _, e := range p.value.fields {
				if e.key.text == name {
					return e.key, e.value
				}
			}
		}
	}
	return nil, nil
}

// ReadServer reads an MCP server again, with the values of the secrets that it refers to.
func (c *Config) ReadServer(name string, secrets map[string]string) (*Server, error) {
	k, v := c.Secrets.findEntry("mcpServers", name)
	if v == nil {
		return nil, tool.Errorf(tool.Internal, "mcpServers.%s is not in the configuration", name)
	}
	r := &reader{env: c.Secrets.from.env, dir: filepath.Dir(c.File), secrets: secrets}
	var s Server
	r.readEntry(func() { s = readServer(r, name, k, v) })
	return &s, r.joinProblems("mcpServers." + name)
}

// ReadAPI reads an upstream of another kind again, with the values of the secrets that it refers
// to.
func (c *Config) ReadAPI(part, name string, secrets map[string]string) (API, error) {
	k, v := c.Secrets.findEntry(part, name)
	if v == nil {
		return nil, tool.Errorf(tool.Internal, "%s.%s is not in the configuration", part, name)
	}
	r := &reader{env: c.Secrets.from.env, dir: filepath.Dir(c.File), secrets: secrets}
	var a API
	r.readEntry(func() {
		a = apiKinds[part](r, newSource(part, name), entry{part + "." + name, k, v})
	})
	return a, r.joinProblems(part + "." + name)
}

// joinProblems returns the problems that the values of secrets caused. Their messages may contain
// such values.
func (r *reader) joinProblems(what string) error {
	if len(r.problems) == 0 {
		return nil
	}
	var all []string
	for _, p := range r.problems {
		all = append(all, p.Message)
	}
	return tool.Errorf(tool.Invalid, "%s is invalid with the values of its secrets: %s", what, strings.Join(all, "; "))
}

// SecretUses returns the names of the secrets that the upstreams refer to, each with the names of
// the upstreams, in the order of the file. With personal it returns those with credentials: person,
// otherwise the others.
func (c *Config) SecretUses(personal bool) map[string][]string {
	out := map[string][]string{}
	for _, s := range c.ListSources() {
		if s.Personal != personal {
			continue
		}
		for _, name := range s.Secrets {
			out[name] = append(out[name], s.Name)
		}
	}
	return out
}

// LookupVariable looks up an environment variable.
func (s *Secrets) LookupVariable(name string) (string, bool) {
	if s.from == nil {
		return "", false
	}
	return s.from.env(name)
}
