package config

import (
	"crypto/ed25519"
	"net/url"

	"github.com/biplane-dev/biplane/internal/control/registry"
)

// A Registry says which MCP servers the team approves.
type Registry struct {
	Source   string              // of the list: an https address, or the absolute path of a file; empty: none
	Keys     []ed25519.PublicKey // that sign it
	Unsigned bool                // the list is a file without a signature
	Only     bool                // upstreams that are not on the list are not started
	Public   string              // the address of the registry that others publish in
	shown    ShownRegistry
}

// ShownRegistry is the printable form of a Registry.
type ShownRegistry struct {
	Source   string   `json:"source,omitempty"`
	Keys     []string `json:"key,omitempty"`
	Unsigned bool     `json:"unsigned,omitempty"`
	Only     bool     `json:"only"`
	Public   string   `json:"public"`
}

// readRegistry reads the part about approved servers.
func readRegistry(r *reader, n *node, c *Registry) {
	var sourceNode, keyNode, unsignedNode *node
	before := len(r.problems)
	r.readObject(n, "registry", key{
		"source": func(n *node) {
			sourceNode, c.Source = n, r.readText(n, "registry.source")
			c.shown.Source = shownURL(n)
			if !registry.IsAddress(c.Source) {
				c.Source = r.resolvePath(c.Source)
			} else if _, err := registry.ParseAddress(c.Source); err != nil {
				r.addProblem(n, "registry.source: %s", err)
			}
			if c.Source == "" {
				r.addProblem(n, "registry.source is empty: name a file or an address")
			}
		},
		"key":      func(n *node) { keyNode = n; readRegistryKeys(r, n, c) },
		"unsigned": func(n *node) { unsignedNode, c.Unsigned = n, r.readBool(n, "registry.unsigned") },
		"only":     func(n *node) { c.Only = r.readBool(n, "registry.only") },
		"public": func(n *node) {
			c.Public = r.readText(n, "registry.public")
			if _, err := registry.ParseAddress(c.Public); err != nil {
				r.addProblem(n, "registry.public: %s", err)
			}
			if u, err := url.Parse(c.Public); err == nil && u.User != nil {
				r.addProblem(n, "registry.public: the address can't have a user name")
			}
		},
	})
	c.shown.Unsigned, c.shown.Only = c.Unsigned, c.Only
	switch {
	case len(r.problems) > before:
	case c.Only && sourceNode == nil:
		r.addProblem(n, "registry.only needs registry.source: the list of approved servers")
	case sourceNode == nil && (keyNode != nil || unsignedNode != nil):
		r.addProblem(n, "registry.key and registry.unsigned need registry.source: the list of approved servers")
	case sourceNode == nil:
	case c.Unsigned && registry.IsAddress(c.Source):
		r.addProblem(unsignedNode, "registry.unsigned: only a list in a file can be unsigned: set registry.key")
	case c.Unsigned && keyNode != nil:
		r.addProblem(unsignedNode, "registry.unsigned has no meaning with registry.key: remove one of them")
	case !c.Unsigned && len(c.Keys) == 0:
		r.addProblem(sourceNode, "registry.source needs registry.key: the public key that signs the list "+
			"(`biplane registry keygen`). For a list in a file, unsigned: true accepts it without a signature")
	}
}

// readRegistryKeys reads one public key or a list of them.
func readRegistryKeys(r *reader, n *node, c *Registry) {
	texts := []string{}
	if n.kind == listNode {
		texts = r.readTexts(n, "registry.key")
	} else {
		texts = append(texts, r.readText(n, "registry.key"))
	}
	for _, text := range texts {
		k, err := registry.ParseKey(text)
		if err != nil {
			r.addProblem(n, "registry.key: %s", err)
			continue
		}
		c.Keys, c.shown.Keys = append(c.Keys, k), append(c.shown.Keys, registry.FormatKey(k))
	}
}

// DescribeSource returns the places where the list of approved servers is read from, and kept in a
// data folder.
func (c *Registry) DescribeSource(folder string) registry.Source {
	return registry.Source{Place: c.Source, Keys: c.Keys, Unsigned: c.Unsigned, Folder: folder}
}

// ShowRegistry returns the printable form.
func (c *Registry) ShowRegistry() ShownRegistry {
	out := c.shown
	out.Public = c.Public
	return out
}
