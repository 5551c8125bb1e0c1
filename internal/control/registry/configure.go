package registry

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/base/secret"
	"github.com/biplane-dev/biplane/internal/base/secret/mask"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Choice says how a server is configured.
type Choice struct {
	Use     string            // "npm", "pypi", "oci" or "remote"; empty: the first that works
	Values  map[string]string // of variables, arguments and headers, by name
	Secrets []string          // optional secrets that the configuration refers to
	// Trusted means that arguments and variables which change what is run are accepted.
	Trusted bool
}

// A Definition is an entry of the configuration, with references to secrets.
type Definition struct {
	Type    string            `json:"type,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	URL     string            `json:"url,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`

	Secrets  []Secret `json:"secrets,omitempty"`  // that it refers to
	Optional []Secret `json:"optional,omitempty"` // that it could refer to
}

// A Secret is a value that the user keeps outside the configuration.
type Secret struct {
	Name        string `json:"name"`
	For         string `json:"for"`
	Description string `json:"description,omitempty"`
}

// ConfigureServer returns an entry of the configuration that runs the server. Texts of the
// description never refer to variables or secrets in it.
func (s *Server) ConfigureServer(c Choice) (*Definition, error) {
	var reasons []string
	for i := range s.Packages {
		p := &s.Packages[i]
		if c.Use != "" && c.Use != p.RegistryType {
			continue
		}
		if why := p.explainLimits(); why != "" {
			reasons = append(reasons, fmt.Sprintf("package %s: %s", cleanText(p.Identifier, 100), why))
			continue
		}
		return newBuilder(s, c).buildPackage(p)
	}
	for i := range s.Remotes {
		t := &s.Remotes[i]
		if c.Use != "" && c.Use != "remote" {
			continue
		}
		if t.Type != "streamable-http" && t.Type != "sse" {
			reasons = append(reasons, fmt.Sprintf("remote of type %q: it is not supported", cleanText(t.Type, 40)))
			continue
		}
		return newBuilder(s, c).buildRemote(t)
	}
	if len(reasons) == 0 {
		reasons = []string{"it has none"}
		if c.Use != "" {
			reasons = []string{"it has none of the kind " + cleanText(c.Use, 40)}
		}
	}
	return nil, tool.Errorf(tool.Invalid, "%s has no package or remote that can be used: %s", s.Name,
		strings.Join(reasons, "; "))
}

// hints maps types of packages to the runners that their descriptions may name.
var hints = map[string][]string{"npm": {"", "npx"}, "pypi": {"", "uvx"}, "oci": {"", "docker", "podman"}}

// explainLimits returns why a package can't be used; empty if it can.
func (p *Package) explainLimits() string {
	known, ok := hints[p.RegistryType]
	switch {
	case !ok:
		return fmt.Sprintf("packages of type %q are not supported: use npm, pypi or oci", cleanText(p.RegistryType, 40))
	case !slices.Contains(known, p.RuntimeHint):
		return fmt.Sprintf("it asks for the runner %q, which is not supported", cleanText(p.RuntimeHint, 40))
	case p.Transport.Type != "" && p.Transport.Type != "stdio":
		return "it speaks " + cleanText(p.Transport.Type, 40) + ", which is supported for remotes only"
	case p.checkHome() != nil:
		return p.checkHome().Error()
	case p.statedVersion() == "":
		return "it states no version"
	}
	return ""
}

// A builder makes a Definition, and collects what is missing for it.
type builder struct {
	server  *Server
	choice  Choice
	out     *Definition
	unused  map[string]bool // values that no input has
	missing []string
	refused []string // arguments and variables that change how packages are run
	problem error
}

func newBuilder(s *Server, c Choice) *builder {
	b := &builder{server: s, choice: c, out: &Definition{}, unused: map[string]bool{}}
	for name := range c.Values {
		b.unused[name] = true
	}
	for _, name := range c.Secrets {
		b.unused[name] = true
	}
	return b
}

func (b *builder) finishEntry() (*Definition, error) {
	switch {
	case b.problem != nil:
		return nil, b.problem
	case len(b.refused) > 0:
		return nil, tool.Errorf(tool.Denied, "%s changes how its package is run: %s. Look at it, and accept it with "+
			"--allow-runtime", b.server.Name, strings.Join(b.refused, ", "))
	case len(b.missing) > 0:
		return nil, tool.Errorf(tool.Invalid, "%s needs %s", b.server.Name, strings.Join(b.missing, "; "))
	case len(b.unused) > 0:
		return nil, tool.Errorf(tool.Invalid, "%s has no value named %s: `biplane registry show` lists them",
			b.server.Name, cleanText(strings.Join(slices.Sorted(maps.Keys(b.unused)), ", "), 200))
	}
	return b.out, nil
}

// failWith keeps the first problem.
func (b *builder) failWith(format string, a ...any) {
	if b.problem == nil {
		b.problem = tool.Errorf(tool.Invalid, b.server.Name+": "+format, a...)
	}
}

// buildPackage builds the entry that runs a package.
func (b *builder) buildPackage(p *Package) (*Definition, error) {
	d := b.out
	d.Env = map[string]string{}
	for _, e := range p.Environment {
		if v, ok := b.resolveSetting("environment variable "+e.Name, e.Name, &e); ok {
			d.Env[e.Name] = v
			if changesRun(e.Name) && (e.Value != "" || e.Default != "") {
				b.refuseRunChange("environment variable " + e.Name)
			}
		}
	}
	runtime := b.buildArguments(p.RuntimeArguments)
	switch p.RegistryType {
	case "npm":
		d.Command, d.Args = "npx", []string{"-y"}
	case "pypi":
		d.Command = "uvx"
	case "oci":
		d.Command, d.Args = "docker", []string{"run", "-i", "--rm"}
		if p.RuntimeHint == "podman" {
			d.Command = "podman"
		}
		for _, name := range slices.Sorted(maps.Keys(d.Env)) {
			d.Args = append(d.Args, "-e", name)
		}
	}
	for _, a := range runtime {
		if slices.Contains(harmless[p.RegistryType], a) || p.RegistryType == "oci" && a == "run" {
			if !slices.Contains(d.Args, a) {
				d.Args = append(d.Args, a)
			}
			continue
		}
		b.refuseRunChange("argument " + cleanText(a, 100))
		d.Args = append(d.Args, a)
	}
	switch p.RegistryType {
	case "npm":
		d.Args = append(d.Args, p.Identifier+"@"+p.Version)
	case "pypi":
		d.Args = append(d.Args, p.Identifier+"=="+p.Version)
	case "oci":
		d.Args = append(d.Args, p.imageOf().formatImage())
	}
	d.Args = append(d.Args, b.buildArguments(p.PackageArguments)...)
	return b.finishEntry()
}

func (b *builder) refuseRunChange(what string) {
	if !b.choice.Trusted && !slices.Contains(b.refused, what) {
		b.refused = append(b.refused, what)
	}
}

// runNames matches the names of environment variables that change what a command runs, or where it
// comes from.
var runNames = lazily.Regexp(`(?i)^(PATH|PATHEXT|SHELL|COMSPEC|ENV|BASH_ENV|IFS|HOME|LD_.*|DYLD_.*|NODE_.*|NPM_.*|` +
	`PYTHON.*|UV_.*|PIP_.*|DOCKER_.*|CONTAINER_.*|GIT_.*|SSL_.*|HTTPS?_PROXY|ALL_PROXY|NO_PROXY|` +
	`XDG_.*|JAVA_.*|PERL.*|RUBY.*)$`)

func changesRun(name string) bool { return runNames.Get().MatchString(name) }

// buildArguments returns the arguments of a command.
func (b *builder) buildArguments(specs []Argument) (out []string) {
	for i := range specs {
		a := &specs[i]
		if a.Type == "positional" {
			name := a.ValueHint
			if name == "" {
				name = fmt.Sprintf("argument%d", i+1)
			}
			if v, ok := b.resolveSetting("argument "+cleanText(name, 60), name, &a.Setting); ok {
				out = append(out, v)
			}
			continue
		}
		if a.Format == "boolean" || a.IsRequired && a.mayBeFlag() {
			out = append(out, b.buildFlag(a)...)
			continue
		}
		v, ok := b.resolveSetting("argument "+a.Name, a.Name, &a.Setting)
		switch {
		case !ok:
		case v == "":
			out = append(out, a.Name)
		case strings.HasPrefix(a.Name, "--"):
			out = append(out, a.Name+"="+v)
		default:
			out = append(out, a.Name, v)
		}
	}
	return out
}

// buildFlag returns a named argument without a value, unless it is off.
func (b *builder) buildFlag(a *Argument) []string {
	text := a.Value
	if text == "" {
		text = a.Default
	}
	if v, ok := b.choice.Values[a.Name]; ok && a.Value == "" {
		delete(b.unused, a.Name)
		text = v
	} else if text == "" && a.IsRequired {
		text = "true"
	}
	switch text {
	case "":
		return nil
	case "true":
		return []string{a.Name}
	case "false":
		return nil
	}
	return []string{a.Name + "=" + escapeText(text)}
}

// buildRemote builds the entry that connects to a server.
func (b *builder) buildRemote(t *Transport) (*Definition, error) {
	d := b.out
	d.Headers = map[string]string{}
	if t.Type == "sse" {
		d.Type = "sse"
	}
	d.URL = b.fillTemplate("the address", t.URL, t.Variables)
	// Secrets are references by now, so this checks the final address, except for their values.
	if plain := strings.ReplaceAll(references.Get().ReplaceAllString(d.URL, "x"), "$${", "${"); b.problem == nil {
		u, err := ParseAddress(plain)
		if err != nil {
			b.failWith("its address %q can't be used: %w", cleanText(plain, 100), err)
		} else if u.User != nil {
			b.failWith("its address has a user name")
		} else if fixed, err := url.Parse(t.URL); err == nil && !strings.Contains(fixed.Host, "{") &&
			u.Host != fixed.Host {
			b.failWith("a value changes the host of its address")
		}
	}
	for _, h := range t.Headers {
		if v, ok := b.resolveSetting("header "+h.Name, h.Name, &h); ok {
			d.Headers[h.Name] = v
		}
	}
	return b.finishEntry()
}

var references = lazily.Regexp(`\$\{secret:[^}]*\}`)

// resolveSetting returns the value of a setting as the configuration writes it, and whether it has
// one.
func (b *builder) resolveSetting(what, name string, s *Setting) (string, bool) {
	if s.Value == "" {
		return b.resolveInput(what, name, name, s.Input)
	}
	if s.IsSecret && len(s.Variables) == 0 {
		b.failWith("%s is secret, and the description has a value for it, which is known to everyone", what)
		return "", false
	}
	return b.fillTemplate(what, s.Value, s.Variables), true
}

// fillTemplate replaces the variables in a fixed text.
func (b *builder) fillTemplate(what, text string, vars map[string]Input) string {
	var out strings.Builder
	add := func(part string) {
		// Two parts must not form a reference that neither of them is.
		if strings.HasSuffix(out.String(), "$") && (strings.HasPrefix(part, "{") || strings.HasPrefix(part, "${")) {
			b.failWith("%s has a dollar sign before a brace, which is not supported", what)
		}
		out.WriteString(part)
	}
	last := 0
	for _, at := range inBraces.Get().FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		in, ok := vars[name]
		if !ok {
			continue
		}
		add(escapeText(text[last:at[0]]))
		in.IsRequired = true // the text needs it
		v, _ := b.resolveInput(fmt.Sprintf("the variable %s of %s", cleanText(name, 60), what), name, name, in)
		add(v)
		last = at[1]
	}
	add(escapeText(text[last:]))
	return out.String()
}

// resolveInput returns the value of an input as the configuration writes it, and whether it has
// one.
func (b *builder) resolveInput(what, name, secretName string, in Input) (string, bool) {
	given, set := b.choice.Values[name]
	delete(b.unused, name)
	isSecret := in.IsSecret || in.Value == "" && in.Default == "" && mask.IsSecret(name, probeValue)
	if isSecret && in.Value == "" {
		s := Secret{Name: nameSecret(secretName, b.server), For: what, Description: cleanText(in.Description, 200)}
		if set {
			b.failWith("%s is secret: don't pass it on the command line. Run `biplane secrets set %s`; the "+
				"configuration "+
				"refers to it", what, s.Name)
		}
		if !in.IsRequired && !slices.Contains(b.choice.Secrets, name) && !slices.Contains(b.choice.Secrets, s.Name) {
			b.out.Optional = append(b.out.Optional, s)
			return "", false
		}
		delete(b.unused, s.Name)
		if !slices.ContainsFunc(b.out.Secrets, func(o Secret) bool { return o.Name == s.Name }) {
			b.out.Secrets = append(b.out.Secrets, s)
		}
		return "${secret:" + s.Name + "}", true
	}
	text := in.Value
	switch {
	case text != "" && set:
		b.failWith("%s is fixed: remove --set %s", what, cleanText(name, 60))
	case text != "":
	case set && len(in.Choices) > 0 && !slices.Contains(in.Choices, given):
		b.failWith("%s is one of %s, not %q", what, cleanText(strings.Join(in.Choices, ", "), 300), cleanText(given,
			60))
	case set && secret.LooksRandom(given):
		b.failWith("the value of %s looks like a secret: run `biplane secrets set %s`, and add --secret %s instead of "+
			"--set", what, nameSecret(secretName, b.server), cleanText(name, 60))
	case set:
		text = given
		return escapeText(text), true
	case in.Default != "":
		text = in.Default
	case in.IsRequired && slices.Contains(b.choice.Secrets, name):
		in.IsSecret = true
		return b.resolveInput(what, name, secretName, in)
	case in.IsRequired:
		b.missing = append(b.missing, fmt.Sprintf("%s: --set %s=...%s", what, cleanText(name, 60), describeInput(in)))
		return "", false
	}
	return escapeText(text), text != ""
}

// probeValue is a value that is secret only if its name sounds like a secret's.
const probeValue = "x7Qe9Lm"

func describeInput(in Input) string {
	var more []string
	if in.Description != "" {
		more = append(more, cleanText(in.Description, 100))
	}
	if len(in.Choices) > 0 {
		more = append(more, "one of "+cleanText(strings.Join(in.Choices, ", "), 200))
	}
	if len(more) == 0 {
		return ""
	}
	return " (" + strings.Join(more, "; ") + ")"
}

// escapeText returns a text that the configuration reads as it is.
func escapeText(s string) string { return strings.ReplaceAll(s, "${", "$${") }

var notInNames = lazily.Regexp(`[^A-Za-z0-9_]+`)

// nameSecret returns the name of the secret for a setting. If the setting has a common name, such
// as TOKEN, the server's name is put before it.
func nameSecret(name string, s *Server) string {
	clean := strings.ToUpper(strings.Trim(notInNames.Get().ReplaceAllString(name, "_"), "_"))
	if slices.Contains([]string{"", "AUTHORIZATION", "API_KEY", "APIKEY", "TOKEN", "KEY", "SECRET", "PASSWORD",
		"X_API_KEY", "ACCESS_TOKEN"}, clean) {
		server := strings.Trim(notInNames.Get().ReplaceAllString(s.ShortName(), "_"), "_")
		clean = strings.ToUpper(server) + "_" + clean
	}
	clean = strings.Trim(clean, "_")
	if clean[0] >= '0' && clean[0] <= '9' {
		clean = "S_" + clean
	}
	return clean[:min(len(clean), 100)]
}
