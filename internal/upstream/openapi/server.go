package openapi

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/upstream/web"
)

// A serverConfig decides which servers are used.
type serverConfig struct {
	fixed     string            // from the configuration; "": those of the document
	variables map[string]string // from the configuration
	base      *url.URL          // of the document; nil if it is a file
}

func (c serverConfig) isFixed() bool { return c.fixed != "" }

// isTrusted reports whether a host is one that the configuration names: by the address of a server
// or of the document, or by a document in the user's own files. Only such a host may receive
// credentials, or be in a private network.
func (c serverConfig) isTrusted(u *url.URL) bool {
	if c.fixed != "" {
		if f, err := url.Parse(c.fixed); err == nil && web.SameHost(f, u) {
			return true
		}
	}
	if c.base == nil {
		return c.fixed == ""
	}
	return web.SameHost(c.base, u) && (c.base.Scheme == u.Scheme || u.Scheme == "https")
}

// expandServers returns the addresses of a list of servers, with their variables replaced.
func (c serverConfig) expandServers(n *node, root bool) ([]string, error) {
	if c.fixed != "" {
		return []string{strings.TrimRight(c.fixed, "/")}, nil
	}
	if n == nil || len(n.list) == 0 {
		n = &node{kind: listKind, list: []*node{newMap(field{"url", newText("/")})}}
	}
	var out []string
	var first error
	for _, s := range n.list {
		text, err := c.expandServer(s)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	if len(out) == 0 {
		return nil, first
	}
	return out, nil
}

func (c serverConfig) expandServer(s *node) (string, error) {
	var b strings.Builder
	rest := s.getText("url")
	for {
		before, after, ok := strings.Cut(rest, "{")
		b.WriteString(before)
		if !ok {
			break
		}
		name, tail, ok := strings.Cut(after, "}")
		if !ok {
			return "", errors.New("a server's url has a brace that is not closed")
		}
		v := s.getField("variables").getField(name)
		value := v.getText("default")
		if d := v.getField("default"); value == "" && d != nil {
			value = d.text
		}
		if set, ok := c.variables[name]; ok {
			if enum := v.getField("enum"); enum != nil &&
				!slices.ContainsFunc(enum.list, func(e *node) bool { return e.text == set }) {
				return "", fmt.Errorf("variables.%s: %q is not one of the values that the document allows", name,
					web.ClipText(set))
			}
			value = set
		}
		if value == "" {
			return "", fmt.Errorf("the server's variable %q has no value: set it in variables", web.ClipText(name))
		}
		b.WriteString(value)
		rest = tail
	}
	u, err := url.Parse(b.String())
	if err != nil {
		return "", fmt.Errorf("the server %q is not a URL", web.ClipText(b.String()))
	}
	if c.base != nil {
		u = c.base.ResolveReference(u)
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", fmt.Errorf("the server %q is not an http or https URL: set server in the configuration",
			web.ClipText(b.String()))
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimRight(u.String(), "/"), nil
}
