package config

import (
	"slices"
	"strings"

	"github.com/biplane-dev/biplane/internal/base/secret"
)

// Shown is a Config as printed by `config show`, without secrets and with defaults filled in.
type Shown struct {
	File      string        `json:"file"`
	DataDir   string        `json:"data_dir"`
	Servers   []ShownServer `json:"mcpServers"`
	APIs      shownAPIs     `json:"-"`
	Mode      string        `json:"mode"`
	Policy    string        `json:"policy"`
	Listen    string        `json:"listen"`
	Auth      *ShownAuth    `json:"auth,omitempty"`
	TLS       string        `json:"tls"` // none, terminated, or the file of the certificate
	Proxies   []string      `json:"trusted_proxies,omitempty"`
	StartWait string        `json:"start_wait"`
	Sandbox   ShownSandbox  `json:"sandbox"`
	Sessions  ShownSessions `json:"sessions"`
	Journal   ShownJournal  `json:"journal"`
	Usage     ShownUsage    `json:"usage"`
	Audit     ShownAudit    `json:"audit"`

	Notify map[string]string `json:"notify,omitempty"` // channels, with their kind and host

	Registry    ShownRegistry    `json:"registry"`
	Definitions ShownDefinitions `json:"definitions"`
	// Observed means that types of results are learned, unless an upstream turns it off.
	Observed bool `json:"observed_types"`

	Profiles  map[string]ShownProfile `json:"profiles,omitempty"`
	Telemetry ShownTelemetry          `json:"telemetry"`
}

// Shown returns the printable form. dataDir is the data folder (see DataFolder).
func (c *Config) Shown(dataDir string) *Shown {
	out := &Shown{
		File: c.File, DataDir: dataDir, Servers: []ShownServer{}, Mode: c.Mode, Policy: c.Policy, Listen: c.Listen,
		Auth: c.Auth.Shown(), TLS: c.TLS.String(), Proxies: c.showProxies(),
		StartWait: c.StartWait.String(), Sandbox: c.Sandbox.Shown(), Sessions: c.Sessions.Shown(),
		Journal: c.Journal.Shown(), Usage: c.Usage.Shown(c.Prices),
		Audit: c.Audit.Shown(), Definitions: c.showDefinitions(), APIs: shownAPIs{}, Profiles: c.showProfiles(),
		Notify:   c.Notify.ShowNotify(),
		Observed: !c.ListObservedTypes().Off, Registry: c.Registry.ShowRegistry(),
		Telemetry: c.Telemetry.showTelemetry(),
	}
	for i := range c.Servers {
		out.Servers = append(out.Servers, c.Servers[i].Shown())
	}
	for _, a := range c.APIs {
		part := a.GetSource().Part
		out.APIs[part] = append(out.APIs[part], a.ShowEntry())
	}
	return out
}

// ShownServer is the printable form of a Server: variables are not expanded, secrets are removed.
type ShownServer struct {
	Name     string            `json:"name"`
	Type     string            `json:"type"`
	Disabled bool              `json:"disabled,omitempty"`
	Command  string            `json:"command,omitempty"`
	Args     []string          `json:"args,omitempty"`
	Env      map[string]string `json:"env,omitempty"`
	Dir      string            `json:"cwd,omitempty"`
	URL      string            `json:"url,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`
	OAuth    *ShownOAuth       `json:"oauth,omitempty"`
	Labels   []string          `json:"labels,omitempty"`
	Timeout  string            `json:"timeout,omitempty"`
	Revision string            `json:"revision,omitempty"`

	Sandbox *ShownServerSandbox `json:"sandbox,omitempty"`

	Credentials string `json:"credentials,omitempty"`
	Idle        string `json:"idle,omitempty"`
}

// ShownOAuth is the printable form of an OAuth.
type ShownOAuth struct {
	ClientID     string   `json:"client_id,omitempty"`
	ClientSecret string   `json:"client_secret,omitempty"`
	Issuer       string   `json:"issuer,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	RedirectPort int      `json:"redirect_port,omitempty"`
}

const hidden = "<redacted>"

// redactMap returns the values of a map with everything hidden except references to variables.
func redactMap(n *node) map[string]string {
	out := map[string]string{}
	for _, f := range n.fields {
		out[f.key.text] = hideText(f.value.text)
	}
	return out
}

// hideText redacts a text, except references to variables and the scheme of a credential.
func hideText(s string) string {
	scheme, rest, ok := strings.Cut(s, " ")
	if ok && slices.Contains([]string{"Bearer", "bearer", "Basic", "Token", "token"}, scheme) {
		return scheme + " " + hideText(rest)
	}
	if s == "" {
		return s
	}
	if !strings.HasPrefix(s, "${") || strings.Count(s, "${") != 1 || strings.IndexByte(s, '}') != len(s)-1 {
		return hidden
	}
	if name, def, ok := strings.Cut(s, ":-"); ok && def != "}" {
		return name + ":-" + hidden + "}"
	}
	return s
}

// shownArgs returns the arguments with secrets redacted.
func shownArgs(n *node) []string {
	out := make([]string, 0, len(n.list))
	next := false
	for _, e := range n.list {
		s := e.text
		flag, value, has := strings.Cut(s, "=")
		switch {
		case next:
			s = hideText(s)
		case has && secretName(flag):
			s = flag + "=" + hideText(value)
		case strings.Contains(s, "://"):
			s = shownURL(e)
		default: // a header, whatever its flag: Authorization: Bearer ...
			if name, value, ok := strings.Cut(s, ":"); ok && secretName(name) {
				s = name + ": " + hideText(strings.TrimSpace(value))
			}
		}
		next = strings.HasPrefix(e.text, "-") && !has && secretName(e.text)
		out = append(out, s)
	}
	return out
}

func secretName(flag string) bool {
	f := strings.ToLower(flag)
	return slices.ContainsFunc([]string{"token", "key", "secret", "passw", "credential", "auth", "header"},
		func(w string) bool { return strings.Contains(f, w) })
}

// shownURL returns a URL without credentials. It redacts user and password, the values of the
// query, and parts of the path that look like keys.
func shownURL(n *node) string {
	if n == nil {
		return ""
	}
	s, fragment, marked := strings.Cut(n.text, "#")
	if marked {
		return shownAddress(s) + "#" + hideText(fragment)
	}
	return shownAddress(s)
}

func shownAddress(s string) string {
	base, query, has := strings.Cut(s, "?")
	if i, j := strings.Index(base, "://"), strings.LastIndex(base, "@"); i >= 0 && j > i {
		base = base[:i+3] + hidden + base[j:]
	}
	base = shownPath(base)
	if !has {
		return base
	}
	parts := strings.Split(query, "&")
	for i, p := range parts {
		if k, v, ok := strings.Cut(p, "="); ok {
			parts[i] = k + "=" + hideText(v)
		} else {
			parts[i] = hideText(p)
		}
	}
	return base + "?" + strings.Join(parts, "&")
}

// announces lists path segments that are followed by a secret, whatever it looks like.
var announces = []string{"token", "key", "secret", "apikey", "api-key", "api_key"}

// shownPath redacts the parts of a URL's path that look like secrets. base has no query.
func shownPath(base string) string {
	from := strings.Index(base, "://") + 1
	if from > 0 {
		from += 2
	}
	parts := strings.Split(base[from:], "/")
	for i, p := range parts {
		switch {
		case i == 0, p == "", strings.Contains(p, "${"): // the host; variables are shown by name
		case secret.LooksRandom(p), slices.Contains(announces, strings.ToLower(parts[i-1])):
			parts[i] = hidden
		}
	}
	return base[:from] + strings.Join(parts, "/")
}
