package registry

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/lazily"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Run is what a configuration runs as an MCP server: a command, or an address.
type Run struct {
	Command string
	Args    []string
	Env     map[string]string // that the configuration sets
	URL     string
}

// CheckRun returns nil if the list approves what is run. Names don't count. The error says why not,
// without values that may be secret.
func (l *List) CheckRun(r Run) error {
	var near error
	for i := range l.Servers {
		e := &l.Servers[i]
		matched, err := e.matchRun(r)
		if matched && err == nil {
			return nil
		}
		if matched && near == nil {
			near = fmt.Errorf("%s is approved with %w", e.Server.Name, err)
		}
	}
	if near != nil {
		return near
	}
	return errors.New("no server on the list is run like this")
}

// CheckAPI returns nil if the list approves an upstream that isn't an MCP server, with the
// addresses that the configuration names.
func (l *List) CheckAPI(addresses []string) error {
	if len(addresses) == 0 {
		if l.Local {
			return nil
		}
		return errors.New("the list approves no upstreams without an address (local)")
	}
	for _, a := range addresses {
		text, err := normalizeAddress(a)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(l.APIs, func(approved string) bool {
			other, err := normalizeAddress(approved)
			return err == nil && other == text
		}) {
			return fmt.Errorf("%s is not among its apis", ShowPlace(a))
		}
	}
	return nil
}

// CheckSignIn returns nil if the list approves the addresses for sign-in and tokens that the
// configuration of an upstream names. Those at a host of own, its addresses, are approved with
// these: an approved server can name them itself.
func (l *List) CheckSignIn(addresses, own []string) error {
	for _, a := range addresses {
		if slices.ContainsFunc(own, func(o string) bool { return sameOrigin(a, o) }) {
			continue
		}
		if err := l.CheckAPI([]string{a}); err != nil {
			return fmt.Errorf("its address for sign-in: %w", err)
		}
	}
	return nil
}

// sameOrigin reports whether two addresses have the same scheme, host and port.
func sameOrigin(a, b string) bool {
	var origins [2]string
	for i, text := range [...]string{a, b} {
		text, err := normalizeAddress(text)
		if err != nil {
			return false
		}
		u, err := url.Parse(text)
		if err != nil {
			return false
		}
		origins[i] = u.Scheme + "://" + u.Host
	}
	return origins[0] == origins[1]
}

// matchRun reports whether r runs the entry's server, and returns how it differs from what is
// approved.
func (e *Entry) matchRun(r Run) (matched bool, err error) {
	if r.URL != "" {
		for _, t := range e.Server.Remotes {
			if t.matchURL(r.URL) {
				return true, nil
			}
		}
		return false, nil
	}
	if slices.ContainsFunc(e.Commands, func(c []string) bool { return e.matchCommand(c, r) }) {
		var all []Setting
		for i := range e.Server.Packages {
			all = append(all, e.Server.Packages[i].Environment...)
		}
		return true, e.matchEnvironment(all, false, r.Env)
	}
	for i := range e.Server.Packages {
		m, failed := e.matchPackage(&e.Server.Packages[i], r)
		if m && failed == nil {
			return true, nil
		}
		if m && !matched {
			matched, err = true, failed
		}
	}
	return matched, err
}

func (e *Entry) matchCommand(c []string, r Run) bool {
	if r.Command != c[0] || len(r.Args) < len(c)-1 || !slices.Equal(c[1:], r.Args[:len(c)-1]) {
		return false
	}
	return len(r.Args) == len(c)-1 || e.Arguments == "any"
}

// runners maps types of packages to the commands that run them. A path is another command.
var runners = map[string][]string{"npm": {"npx", "npx.cmd"}, "pypi": {"uvx"}, "oci": {"docker", "podman"}}

// harmless lists the arguments of the runners that are always approved.
var harmless = map[string][]string{
	"npm":  {"-y", "--yes", "-q", "--quiet"},
	"pypi": {"-q", "--quiet"},
	"oci":  {"-i", "--interactive", "--rm", "--init"},
}

func (e *Entry) matchPackage(p *Package, r Run) (matched bool, err error) {
	if !slices.Contains(runners[p.RegistryType], r.Command) || p.checkHome() != nil {
		return false, nil
	}
	args := r.Args
	if p.RegistryType == "oci" {
		if len(args) == 0 || args[0] != "run" {
			return false, nil
		}
		args = args[1:]
	}
	var unknown error
	runtime := matcher{specs: p.RuntimeArguments}
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		n := 0
		switch {
		case slices.Contains(harmless[p.RegistryType], args[0]):
			n = 1
		case p.RegistryType == "oci":
			n = e.matchVariable(p, args)
		}
		if n == 0 {
			n = runtime.consumeArgument(args)
		}
		if n == 0 {
			unknown = fmt.Errorf("the argument %s of %s is not approved", showFlag(args[0]), r.Command)
			n = 1
		}
		args = args[n:]
	}
	if len(args) == 0 {
		return false, nil
	}
	version, same := p.matchName(args[0])
	switch {
	case !same:
		return false, nil
	case unknown != nil:
		return true, unknown
	case !e.approvesImage(p, version):
		return true, fmt.Errorf("%s of %s, not %s", e.describeVersions(p.statedVersion()), p.Identifier,
			describeVersion(version))
	case !runtime.isComplete():
		return true, fmt.Errorf("an argument of %s is missing that it requires", r.Command)
	}
	if err := e.matchArguments(p, args[1:]); err != nil {
		return true, err
	}
	return true, e.matchEnvironment(p.Environment, true, r.Env)
}

func describeVersion(v string) string {
	if v == "" {
		return "a package without a version"
	}
	return "version " + cleanText(v, 100)
}

func (p *Package) statedVersion() string {
	if p.RegistryType != "oci" {
		return p.Version
	}
	i := p.imageOf()
	if i.digest != "" {
		return i.digest
	}
	return i.tag
}

// approvesImage is like approvesVersion, but a digest must match exactly.
func (e *Entry) approvesImage(p *Package, version string) bool {
	if stated := p.statedVersion(); strings.HasPrefix(version, "sha256:") || strings.HasPrefix(stated, "sha256:") {
		return version == stated
	}
	return e.approvesVersion(p.statedVersion(), version)
}

// matchName reports whether an argument names the package, and returns the version in it.
func (p *Package) matchName(arg string) (version string, same bool) {
	switch p.RegistryType {
	case "npm":
		name := arg
		if at := strings.LastIndexByte(arg, '@'); at > 0 {
			name, version = arg[:at], arg[at+1:]
		}
		return version, name == p.Identifier
	case "pypi":
		name, version, ok := strings.Cut(arg, "==")
		if !ok {
			name, version, _ = strings.Cut(arg, "@")
		}
		return version, normalizePyPI(name) == normalizePyPI(p.Identifier)
	}
	i, own := cutImage(arg), p.imageOf()
	version = i.tag
	if i.digest != "" {
		version = i.digest
	}
	return version, shortImage(i.name) == own.name
}

func normalizePyPI(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '.' {
			return '-'
		}
		return r
	}, strings.ToLower(name))
}

// matchVariable returns how many arguments pass an approved variable to a container.
func (e *Entry) matchVariable(p *Package, args []string) int {
	flag, value, joined := strings.Cut(args[0], "=")
	if flag != "-e" && flag != "--env" {
		return 0
	}
	n := 1
	if !joined {
		if n = 2; len(args) < 2 {
			return 0
		}
		value = args[1]
	}
	name, text, set := strings.Cut(value, "=")
	env := map[string]string{name: text}
	if !set { // its value is in the environment of the command
		if !slices.ContainsFunc(p.Environment, func(s Setting) bool { return s.Name == name }) &&
			!slices.Contains(e.Environment, name) {
			return 0
		}
		return n
	}
	if e.matchEnvironment(p.Environment, false, env) != nil {
		return 0
	}
	return n
}

// matchEnvironment checks the variables that a configuration sets. With all, those with a fixed
// value are required.
func (e *Entry) matchEnvironment(specs []Setting, all bool, env map[string]string) error {
	for name, value := range env {
		at := slices.IndexFunc(specs, func(s Setting) bool { return s.Name == name })
		switch {
		case slices.Contains(e.Environment, name):
		case at < 0:
			return fmt.Errorf("the environment variable %s is not approved", cleanText(name, 100))
		case !specs[at].matchValue(value):
			return fmt.Errorf("the environment variable %s has another value", name)
		}
	}
	for _, s := range specs {
		if _, ok := env[s.Name]; all && s.Value != "" && !ok {
			return fmt.Errorf("the environment variable %s is missing", s.Name)
		}
	}
	return nil
}

func (e *Entry) matchArguments(p *Package, args []string) error {
	if e.Arguments == "any" {
		return nil
	}
	m := matcher{specs: p.PackageArguments}
	for len(args) > 0 {
		n := m.consumeArgument(args)
		if n == 0 {
			return fmt.Errorf("the argument %s of %s is not approved", showFlag(args[0]), p.Identifier)
		}
		args = args[n:]
	}
	if !m.isComplete() {
		return fmt.Errorf("an argument of %s is missing that it requires", p.Identifier)
	}
	return nil
}

// showFlag returns the name of an argument, without a value that may be secret.
func showFlag(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	if !strings.HasPrefix(name, "-") {
		return "(a value)"
	}
	return cleanText(name, 60)
}

// A matcher compares arguments with descriptions.
type matcher struct {
	specs []Argument
	used  map[int]bool
	next  int // the first positional one that is left
}

// consumeArgument returns how many arguments match a description; 0 if none does.
func (m *matcher) consumeArgument(args []string) int {
	if m.used == nil {
		m.used = map[int]bool{}
	}
	for i := range m.specs {
		if s := &m.specs[i]; s.Type == "named" && (s.IsRepeated || !m.used[i]) {
			if n := s.matchFlag(args); n > 0 {
				m.used[i] = true
				return n
			}
		}
	}
	for i := m.next; i < len(m.specs); i++ {
		s := &m.specs[i]
		if s.Type != "positional" {
			continue
		}
		if s.matchValue(args[0]) && (s.Value != "" || !strings.HasPrefix(args[0], "-")) {
			m.used[i] = true
			if m.next = i; !s.IsRepeated {
				m.next++
			}
			return 1
		}
		if s.Value != "" || s.IsRequired && !m.used[i] {
			return 0
		}
	}
	return 0
}

// isComplete reports whether all arguments with a fixed value are present.
func (m *matcher) isComplete() bool {
	for i := range m.specs {
		if m.specs[i].Value != "" && !m.used[i] {
			return false
		}
	}
	return true
}

// matchFlag returns how many arguments are the named one: "--name", "--name=value" or "--name
// value".
func (a *Argument) matchFlag(args []string) int {
	if value, ok := strings.CutPrefix(args[0], a.Name+"="); ok {
		if a.matchValue(value) {
			return 1
		}
		return 0
	}
	if args[0] != a.Name {
		return 0
	}
	switch {
	case a.Value == "" && a.Format == "boolean":
		return 1
	case len(args) > 1 && a.matchValue(args[1]) && (a.Value != "" || !strings.HasPrefix(args[1], "-")):
		return 2
	case a.mayBeFlag():
		return 1
	}
	return 0
}

// mayBeFlag reports whether a named argument may have no value: its description doesn't say.
func (a *Argument) mayBeFlag() bool {
	return a.Value == "" && a.Default == "" && len(a.Choices) == 0 && !a.IsSecret &&
		(a.Format == "" || a.Format == "boolean")
}

var inBraces = lazily.Regexp(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// matchValue reports whether a value is the fixed one or, if there is none, one of the choices.
func (s *Setting) matchValue(value string) bool {
	if s.Value == "" {
		return len(s.Choices) == 0 || slices.Contains(s.Choices, value)
	}
	return compileTemplate(s.Value, func(name, _ string) string {
		v, ok := s.Variables[name]
		return v.patternOf(ok, name, `[^,]*`)
	}).MatchString(value)
}

// patternOf returns a regular expression for the values of a variable. An unknown one stays as it
// is written.
func (in Input) patternOf(known bool, name, free string) string {
	switch {
	case !known:
		return regexp.QuoteMeta("{" + name + "}")
	case in.Value != "":
		return regexp.QuoteMeta(in.Value)
	case len(in.Choices) > 0:
		all := make([]string, len(in.Choices))
		for i, c := range in.Choices {
			all[i] = regexp.QuoteMeta(c)
		}
		return "(?:" + strings.Join(all, "|") + ")"
	}
	return free
}

// compileTemplate returns a regular expression that matches a text with variables. pattern returns
// the expression for a variable, from its name and the text before it.
func compileTemplate(text string, pattern func(name, before string) string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`^`)
	last := 0
	for _, at := range inBraces.Get().FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(regexp.QuoteMeta(text[last:at[0]]))
		b.WriteString(pattern(text[at[2]:at[3]], text[:at[0]]))
		last = at[1]
	}
	b.WriteString(regexp.QuoteMeta(text[last:]) + `$`)
	return regexp.MustCompile(b.String())
}

// matchURL reports whether an address matches the transport's URL. A variable of the URL matches
// one label of a host name, or one segment of a path.
func (t *Transport) matchURL(text string) bool {
	address, err := normalizeAddress(text)
	if err != nil || t.Type == "stdio" || t.URL == "" {
		return false
	}
	template := t.URL
	if !inBraces.Get().MatchString(template) {
		if template, err = normalizeAddress(template); err != nil {
			return false
		}
	}
	return compileTemplate(template, func(name, before string) string {
		v, ok := t.Variables[name]
		free := `[A-Za-z0-9_~-][A-Za-z0-9._~-]*`
		if strings.Count(before, "/") < 3 && !strings.Contains(before, "?") {
			free = `[A-Za-z0-9-]+`
		}
		return v.patternOf(ok, name, free)
	}).MatchString(address)
}

// normalizeAddress returns an address in the form in which addresses are compared.
func normalizeAddress(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", errors.New("it is not an address like https://host/mcp")
	case u.User != nil:
		return "", tool.Errorf(tool.Invalid, "an address with a user name is not approved")
	}
	u.Host = strings.ToLower(u.Host)
	if port := u.Port(); port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.Fragment, u.RawFragment = "", ""
	return u.String(), nil
}
