package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
)

// A Server describes an MCP server as the public MCP registry does: server.json, schema of
// 2025-12-11. Members without a meaning here are ignored.
type Server struct {
	Name        string      `json:"name"`
	Title       string      `json:"title,omitempty"`
	Description string      `json:"description,omitempty"`
	Version     string      `json:"version,omitempty"`
	WebsiteURL  string      `json:"websiteUrl,omitempty"`
	Packages    []Package   `json:"packages,omitempty"`
	Remotes     []Transport `json:"remotes,omitempty"`
}

// A Package is a program that a package registry has.
type Package struct {
	RegistryType     string     `json:"registryType"` // "npm", "pypi" or "oci"; others are not supported
	RegistryBaseURL  string     `json:"registryBaseUrl,omitempty"`
	Identifier       string     `json:"identifier"`
	Version          string     `json:"version,omitempty"`
	RuntimeHint      string     `json:"runtimeHint,omitempty"`
	Transport        Transport  `json:"transport,omitzero"`
	RuntimeArguments []Argument `json:"runtimeArguments,omitempty"`
	PackageArguments []Argument `json:"packageArguments,omitempty"`
	Environment      []Setting  `json:"environmentVariables,omitempty"`
}

// A Transport says how a server is reached.
type Transport struct {
	Type      string           `json:"type"` // "stdio", "streamable-http" or "sse"
	URL       string           `json:"url,omitempty"`
	Headers   []Setting        `json:"headers,omitempty"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// An Input is a value that is fixed, or that a user sets.
type Input struct {
	Description string   `json:"description,omitempty"`
	Value       string   `json:"value,omitempty"` // fixed; it may refer to variables: {name}
	Default     string   `json:"default,omitempty"`
	Format      string   `json:"format,omitempty"`
	IsRequired  bool     `json:"isRequired,omitempty"`
	IsSecret    bool     `json:"isSecret,omitempty"`
	Choices     []string `json:"choices,omitempty"`
}

// A Setting is an environment variable or a header.
type Setting struct {
	Input
	Name      string           `json:"name"`
	Variables map[string]Input `json:"variables,omitempty"`
}

// An Argument is an argument of a command.
type Argument struct {
	Setting
	Type       string `json:"type"` // "positional" or "named"
	ValueHint  string `json:"valueHint,omitempty"`
	IsRepeated bool   `json:"isRepeated,omitempty"`
}

// The limits of one server.
const (
	maxServer   = 256 << 10 // bytes
	maxPackages = 50
	maxInputs   = 200
	maxText     = 4096 // bytes of a value
)

var (
	serverNames  = lazily.Regexp(`^[A-Za-z0-9][A-Za-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*$`)
	npmNames     = lazily.Regexp(`^(@[a-z0-9_][a-z0-9._~-]*/)?[a-z0-9_][a-z0-9._~-]*$`)
	pypiNames    = lazily.Regexp(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	imageNames   = lazily.Regexp(`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?(:[0-9]+)?(/[a-z0-9]([a-z0-9._-]*[a-z0-9])?)*$`)
	versionTexts = lazily.Regexp(`^[0-9A-Za-z][0-9A-Za-z.+_!-]*$`)
	digests      = lazily.Regexp(`^sha256:[0-9a-f]{64}$`)
	flagNames    = lazily.Regexp(`^-{0,2}[A-Za-z0-9][A-Za-z0-9._-]*$`)
	variables    = lazily.Regexp(`^[A-Za-z_][A-Za-z0-9_]*$`)
	headerNames  = lazily.Regexp("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// ParseServer parses a server.json.
func ParseServer(raw []byte) (*Server, error) {
	if len(raw) > maxServer {
		return nil, fmt.Errorf("it has more than %d KiB", maxServer>>10)
	}
	s := &Server{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("it is not a server.json: %w", err)
	}
	return s, s.checkServer()
}

// UnmarshalJSON implements json.Unmarshaler. It ignores unknown members, even in a list.
func (s *Server) UnmarshalJSON(raw []byte) error {
	type plain Server
	return json.Unmarshal(raw, (*plain)(s))
}

// ShortName returns the part of the name after the slash, or if that is a general word, the last
// word before it.
func (s *Server) ShortName() string {
	space, name, _ := strings.Cut(s.Name, "/")
	switch strings.ToLower(name) {
	case "mcp", "server", "mcp-server", "mcp_server":
		return space[strings.LastIndexByte(space, '.')+1:]
	}
	return name
}

// CleanSummary returns the description on one line.
func (s *Server) CleanSummary() string { return cleanText(s.Description, 200) }

// checkServer returns the problems of a description.
func (s *Server) checkServer() error {
	if len(s.Name) > 200 || !serverNames.Get().MatchString(s.Name) {
		return fmt.Errorf("invalid name %q: a server's name is like io.github.user/weather", cleanText(s.Name, 100))
	}
	if len(s.Packages) > maxPackages || len(s.Remotes) > maxPackages {
		return fmt.Errorf("%s has more than %d packages or remotes", s.Name, maxPackages)
	}
	for i := range s.Packages {
		if err := s.Packages[i].checkPackage(); err != nil {
			return fmt.Errorf("%s: packages[%d]: %w", s.Name, i, err)
		}
	}
	for i := range s.Remotes {
		if err := s.Remotes[i].checkRemote(); err != nil {
			return fmt.Errorf("%s: remotes[%d]: %w", s.Name, i, err)
		}
	}
	return nil
}

// homes lists the registries that the package runners use. A package of another one can't be run.
var homes = map[string][]string{
	"npm":  {"https://registry.npmjs.org"},
	"pypi": {"https://pypi.org", "https://pypi.org/simple"},
}

// checkPackage returns the problems of a package. It finds none in a package of an unsupported
// type: it can't be used.
func (p *Package) checkPackage() error {
	if len(p.RuntimeArguments)+len(p.PackageArguments)+len(p.Environment) > maxInputs {
		return fmt.Errorf("it has more than %d arguments and variables", maxInputs)
	}
	var names = map[string]bool{
		"npm": npmNames.Get().MatchString(p.Identifier), "pypi": pypiNames.Get().MatchString(p.Identifier),
		"oci": imageNames.Get().MatchString(cutImage(p.Identifier).name),
	}
	if valid, ok := names[p.RegistryType]; ok && (!valid || len(p.Identifier) > 300) {
		return fmt.Errorf("invalid name of a package %q", cleanText(p.Identifier, 100))
	}
	if v := p.Version; v != "" &&
		(!versionTexts.Get().MatchString(v) || len(v) > 255 || strings.EqualFold(v, "latest")) {
		return fmt.Errorf("invalid version %q: it must be one version", cleanText(v, 100))
	}
	if i := cutImage(p.Identifier); p.RegistryType == "oci" &&
		(i.tag != "" && !versionTexts.Get().MatchString(i.tag) ||
			i.digest != "" && !digests.Get().MatchString(i.digest)) {
		return fmt.Errorf("invalid image %q", cleanText(p.Identifier, 100))
	}
	for _, a := range append(p.RuntimeArguments[:len(p.RuntimeArguments):len(p.RuntimeArguments)],
		p.PackageArguments...) {
		if a.Type != "positional" && a.Type != "named" {
			return fmt.Errorf("invalid type of an argument %q", cleanText(a.Type, 40))
		}
		if a.Type == "named" && !flagNames.Get().MatchString(a.Name) {
			return fmt.Errorf("invalid name of an argument %q", cleanText(a.Name, 100))
		}
		if err := a.checkTexts(); err != nil {
			return err
		}
	}
	for _, e := range p.Environment {
		if !variables.Get().MatchString(e.Name) || len(e.Name) > 200 {
			return fmt.Errorf("invalid name of an environment variable %q", cleanText(e.Name, 100))
		}
		if err := e.checkTexts(); err != nil {
			return err
		}
	}
	return nil
}

func (t *Transport) checkRemote() error {
	if len(t.Headers)+len(t.Variables) > maxInputs {
		return fmt.Errorf("it has more than %d headers and variables", maxInputs)
	}
	if len(t.URL) > maxText {
		return fmt.Errorf("its address has more than %d characters", maxText)
	}
	for _, h := range t.Headers {
		if !headerNames.Get().MatchString(h.Name) || len(h.Name) > 200 {
			return fmt.Errorf("invalid name of a header %q", cleanText(h.Name, 100))
		}
		if err := h.checkTexts(); err != nil {
			return err
		}
	}
	for _, v := range t.Variables {
		if err := (&Setting{Input: v}).checkTexts(); err != nil {
			return err
		}
	}
	return nil
}

// checkTexts checks the values, which become arguments, variables or headers.
func (s *Setting) checkTexts() error {
	all := append([]string{s.Value, s.Default}, s.Choices...)
	for _, v := range s.Variables {
		all = append(append(all, v.Value, v.Default), v.Choices...)
	}
	for _, text := range all {
		if len(text) > maxText {
			return fmt.Errorf("a value of %s has more than %d characters", cleanText(s.Name, 40), maxText)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return fmt.Errorf("a value of %s has control characters", cleanText(s.Name, 40))
		}
	}
	return nil
}

// An image is the name of a container image in parts.
type image struct{ name, tag, digest string }

func cutImage(text string) (i image) {
	i.name, i.digest, _ = strings.Cut(text, "@")
	if at := strings.LastIndexByte(i.name, ':'); at > strings.LastIndexByte(i.name, '/') {
		i.name, i.tag = i.name[:at], i.name[at+1:]
	}
	return i
}

// imageOf returns the image of a package.
func (p *Package) imageOf() image {
	i := cutImage(p.Identifier)
	if i.tag == "" && i.digest == "" {
		i.tag = p.Version
	}
	if base, err := url.Parse(p.RegistryBaseURL); err == nil && base.Host != "" && base.Host != "docker.io" &&
		!strings.HasPrefix(i.name, base.Host+"/") {
		i.name = base.Host + "/" + i.name
	}
	i.name = shortImage(i.name)
	return i
}

// shortImage returns the name of an image without what container engines add.
func shortImage(name string) string {
	name = strings.TrimPrefix(name, "docker.io/")
	return strings.TrimPrefix(name, "library/")
}

func (i image) formatImage() string {
	out := i.name
	if i.tag != "" {
		out += ":" + i.tag
	}
	if i.digest != "" {
		out += "@" + i.digest
	}
	return out
}

// checkHome returns an error if a package is not in the registry that its runner uses.
func (p *Package) checkHome() error {
	base := strings.TrimSuffix(p.RegistryBaseURL, "/")
	known := homes[p.RegistryType]
	if base == "" || known == nil {
		return nil
	}
	for _, k := range known {
		if base == k {
			return nil
		}
	}
	return errors.New("it is in the registry " + cleanText(base, 100) + ", which is not supported")
}
