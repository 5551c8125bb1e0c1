package config

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/biplane-dev/biplane/internal/control/catalog"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Server is a configured MCP server, in the format of agents' clients.
type Server struct {
	Name     string
	Type     string // "stdio", "http" (Streamable HTTP, with fallback) or "sse" (the legacy transport)
	Revision string // newest MCP revision to speak with it; empty: the newest known
	Disabled bool
	Timeout  time.Duration            // of one call; 0: the default
	Timeouts map[string]time.Duration // of calls of single tools, by exact name

	Command string
	Args    []string
	Env     map[string]string // added to Environ
	Environ []string          // the environment that it inherits from, in the form of os.Environ
	Dir     string            // absolute

	URL     string
	Headers map[string]string
	OAuth   OAuth

	// Sandbox is the sandbox that a server with a Command runs in; nil: it is a child process.
	Sandbox *ServerSandbox

	Labels  []string  // of all its tools: see policy.Labels
	Narrow  Narrowing // selects its visible tools
	Secrets []string  // names of the secrets that it refers to, sorted; see Config.ReadServer
	// Personal means that each principal uses it with their own secrets or sign-in (credentials:
	// person).
	Personal bool
	Idle     time.Duration // how long a principal's connection is kept without calls; 0: the default
	shown    ShownServer

	Descriptions // its own
}

// OAuth configures sign-in to a server, where its metadata is not enough.
type OAuth struct {
	ClientID     string // as registered there, or the https URL of a client metadata document
	ClientSecret string
	// the only authorization server to use; required with ClientSecret, at the latest at sign-in
	Issuer       string
	Scopes       []string // instead of the scopes that the server requests
	RedirectPort int      // 0: any free port
}

// Shown returns the printable form.
func (s *Server) Shown() ShownServer { return s.shown }

// The limits of a call timeout.
const (
	minTimeout = 100 * time.Millisecond
	maxTimeout = 24 * time.Hour
)

// foreign lists keys of other clients that have no meaning here. They are accepted with a warning,
// so that a client's own file works.
var (
	foreign = []string{
		"alwaysAllow", "autoApprove", "trust", // which calls a client makes without asking its user
		"description", "displayName", "icon", "name", "note", "source", "gallery", "version",
		"watchPaths", "dev", "chat.mcp.discovery.enabled", "inputs", "transportType", "startupTimeout",
		"tool_timeout_sec", "startup_timeout_sec",
	}
)

func (r *fileReader) readServers(n *node) []Server {
	var out []Server
	var keys []*node
	r.eachEntry(n, "mcpServers", func(k, v *node) {
		name := k.text
		switch {
		case name == "" || len(name) > 100 || strings.ContainsFunc(name, unicode.IsControl):
			r.addProblem(k, "mcpServers: invalid upstream name %q: use 1 to 100 characters", clipText(name))
		case name == tool.Own:
			r.addProblem(k, "mcpServers: the name biplane is reserved for biplane's own tools: choose another one; "+
				"if this entry starts biplane itself, remove it here, and keep it in the client's own file")
		default:
			if v.kind != mapNode {
				r.addProblem(v, "mcpServers.%s must be a map with a command or a url, not %s", name, v.kind)
				return
			}
			var s Server
			secrets := r.readEntry(func() { s = readServer(r.reader, name, k, v) })
			s.Secrets = secrets
			out = append(out, s)
			keys = append(keys, k)
		}
	})
	r.warnOfAlike(keys)
	return out
}

// warnOfAlike warns about upstreams whose names have the same spelling in programs, such as
// my-files and my_files. Programs then see names that are in no file.
func (r *fileReader) warnOfAlike(keys []*node) {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.text
	}
	spaces := catalog.Namespaces(slices.Compact(slices.Sorted(slices.Values(names))))
	for _, k := range keys {
		alone := catalog.Namespaces([]string{k.text})[k.text]
		if spaces[k.text] == alone {
			continue
		}
		var others []string
		for _, n := range names {
			if n != k.text && catalog.Namespaces([]string{n})[n] == alone {
				others = append(others, n)
			}
		}
		r.addWarning(k,
			"mcpServers.%s: programs spell it %s, because another upstream (%s) is also spelled %s: rename one of them",
			k.text, spaces[k.text], strings.Join(others, ", "), alone)
	}
}

// A serverReader reads the entry of one MCP server.
type serverReader struct {
	*reader
	s    Server
	what string // for errors: "mcpServers.files"
	at   *node  // its name

	// the values of its keys; nil: missing
	kind, url, command, oauth, idle *node
}

// readServer reads the entry of an MCP server, whose name is at.
func readServer(r *reader, name string, at, n *node) Server {
	e := &serverReader{reader: r, what: "mcpServers." + name, at: at,
		s: Server{Name: name, Environ: os.Environ(), Dir: r.dir, shown: ShownServer{Name: name}}}
	s := &e.s
	e.readObject(n, e.what, e.listKeys())
	checkServerSandbox(r, s, at)
	if e.command == nil || s.Command != "" {
		e.chooseTransport()
	}
	e.checkCredentials()
	s.shown.Disabled, s.shown.Type, s.shown.URL = s.Disabled, s.Type, shownURL(e.url)
	if s.Timeout > 0 {
		s.shown.Timeout = s.Timeout.String()
	}
	return e.s
}

// listKeys returns the keys of the entry.
func (r *serverReader) listKeys() key {
	s, what := &r.s, r.what
	known := key{
		"command": r.readCommand,
		"args": func(n *node) {
			s.Args, s.shown.Args = r.readTexts(n, what+".args"), shownArgs(n)
		},
		"env":       func(n *node) { s.Env, s.shown.Env = r.textMap(n, what+".env"), redactMap(n) },
		"cwd":       func(n *node) { s.Dir, s.shown.Dir = r.readDir(n, what+".cwd"), n.text },
		"url":       r.readURL,
		"serverUrl": r.readURL,
		"httpUrl":   func(n *node) { r.readURL(n); s.Type = "http" },
		"headers":   func(n *node) { s.Headers, s.shown.Headers = r.readHeaders(n, what), redactMap(n) },
		"oauth":     r.readOAuth,
		"type":      func(n *node) { r.kind = n },
		"transport": func(n *node) { r.kind = n },
		"revision": func(n *node) {
			s.Revision = r.oneOf(n, what+".revision", "2026-07-28", "2025-11-25")
			s.shown.Revision = n.text
		},
		"disabled": func(n *node) { s.Disabled = r.readBool(n, what+".disabled") },
		"enabled":  func(n *node) { s.Disabled = !r.readBool(n, what+".enabled") },
		"labels":   func(n *node) { s.Labels = r.readLabels(n, what); s.shown.Labels = s.Labels },
		"timeout":  func(n *node) { s.Timeout = r.readTimeout(n, what) },
		"credentials": func(n *node) {
			s.Personal = r.oneOf(n, what+".credentials", "shared", "person") == "person"
			s.shown.Credentials = n.text
		},
		"idle": func(n *node) {
			r.idle, s.Idle = n, r.readDuration(n, what+".idle", minTimeout, maxTimeout)
			s.shown.Idle = n.text
		},
		"timeouts": func(n *node) { s.Timeouts = r.readTimeouts(n, what+".timeouts") },
	}
	for _, k := range foreign {
		known[k] = func(n *node) { r.addWarning(n, "%s.%s has no effect here", what, k) }
	}
	known["observed_types"] = observedReader(r.reader, what+".observed_types", &s.Observed)
	known["definitions"] = func(n *node) { r.readDefinitions(n, what+".definitions", &s.Definitions) }
	known["sandbox"] = func(n *node) { readServerSandbox(r.reader, s, n, what+".sandbox") }
	r.readNarrowing(&s.Narrow, what, known)
	return known
}

func (r *serverReader) readCommand(n *node) {
	before := len(r.problems)
	r.command = n
	r.s.Command, r.s.shown.Command = r.readText(n, r.what+".command"), n.text
	if r.s.Command == "" && len(r.problems) == before {
		r.addProblem(n, "%s.command is empty", r.what)
	}
}

func (r *serverReader) readURL(n *node) {
	if r.url != nil {
		r.addProblem(n, "%s has two addresses", r.what)
	}
	r.url, r.s.URL = n, r.readText(n, r.what+".url")
}

// SignsIn reports whether users sign in to the server (OAuth): it is on the network, and has no
// other credentials that a sign-in would replace.
func (s *Server) SignsIn() bool {
	return s.URL != "" && !s.Authorization() && (!s.Personal || len(s.Secrets) == 0)
}

// checkCredentials checks the settings of a server that each principal uses with their own secrets
// or sign-in.
func (r *serverReader) checkCredentials() {
	s, what := &r.s, r.what
	switch {
	case !s.Personal && r.idle != nil:
		r.addProblem(r.idle, "%s.idle has no effect without credentials: person", what)
	case s.Personal && r.oauth != nil && len(r.secretNames) > 0:
		r.addProblem(r.oauth, "%s has credentials: person, with both secrets and sign-in (oauth): each principal "+
			"uses either; write a client_secret as an environment variable, like ${NAME}", what)
	case s.Personal && len(r.secretNames) == 0 && s.Authorization():
		r.addProblem(r.at, "%s has credentials: person, but its Authorization header is the same for all: write "+
			"${secret:NAME} in it, or remove it to have each principal sign in", what)
	case s.Personal && len(r.secretNames) == 0 && s.URL == "":
		r.addProblem(r.at, "%s has credentials: person, but refers to no secrets: write ${secret:NAME} in its env or "+
			"args", what)
	}
	if r.oauth != nil && (s.URL == "" || s.Authorization()) {
		r.addProblem(r.oauth,
			"%s.oauth requires a server with a url and without an Authorization header: remove one of them", what)
	}
}

// chooseTransport determines the type of the server, and checks that it has the required keys.
func (r *serverReader) chooseTransport() {
	s, what := &r.s, r.what
	switch {
	case s.Command == "" && r.url == nil:
		r.addProblem(r.at, "%s needs a command (a program to start) or a url (a server to connect to)", what)
		return
	case s.Command != "" && r.url != nil:
		r.addProblem(r.url, "%s has both a command and a url: remove one of them", what)
		return
	}
	if r.kind != nil {
		t := strings.ToLower(r.readText(r.kind, what+".type"))
		switch t {
		case "streamable-http", "streamablehttp", "streamable_http", "http":
			t = "http"
		case "sse", "stdio":
		case "local":
			t = "stdio"
		case "remote":
			t = "http"
		default:
			r.addProblem(r.kind, "%s.type is one of stdio, http, sse, not %q", what, clipText(t))
			return
		}
		s.Type = t
	}
	if s.Command != "" {
		if s.Type != "" && s.Type != "stdio" {
			r.addProblem(r.kind, "%s has a command: its type is stdio, not %s", what, s.Type)
		}
		s.Type = "stdio"
		if s.Headers != nil {
			r.addProblem(r.at,
				"%s has headers, which have no effect on a command: pass credentials to it in env", what)
		}
		return
	}
	if s.Type == "stdio" {
		r.addProblem(r.kind, "%s has a url: its type is http or sse, not stdio", what)
	}
	if s.Type == "" {
		s.Type = "http"
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		r.addProblem(r.url, "%s.url must be like https://host/mcp", what)
	}
	if s.Args != nil || s.Env != nil {
		r.addProblem(r.at,
			"%s has args or env, which have no effect on a url: pass credentials to the server in headers", what)
	}
}

func (r *reader) readDir(n *node, what string) string {
	d := r.readText(n, what)
	if !filepath.IsAbs(d) {
		d = filepath.Join(r.dir, d)
	}
	return d
}

func (r *reader) readHeaders(n *node, server string) map[string]string {
	h := r.textMap(n, server+".headers")
	for k, v := range h {
		if strings.ContainsAny(v, "\r\n") || http.CanonicalHeaderKey(k) == "" || strings.ContainsAny(k, " \t:") {
			r.addProblem(n, "%s.headers: %q can't be sent as a header", server, clipText(k))
		}
	}
	return h
}

// Authorization reports whether the configuration sets the Authorization header.
func (s *Server) Authorization() bool {
	for k := range s.Headers {
		if http.CanonicalHeaderKey(k) == "Authorization" {
			return true
		}
	}
	return false
}

// readOAuth reads the OAuth settings of the server.
func (r *serverReader) readOAuth(n *node) {
	r.oauth = n
	o, shown, what := &r.s.OAuth, &ShownOAuth{}, r.what+".oauth"
	var secretNode *node
	r.readObject(n, what, key{
		"client_id": func(n *node) { o.ClientID, shown.ClientID = r.readText(n, what+".client_id"), n.text },
		"client_secret": func(n *node) {
			secretNode, o.ClientSecret, shown.ClientSecret = n, r.readText(n, what+".client_secret"), hideText(n.text)
		},
		"issuer": func(n *node) {
			o.Issuer, shown.Issuer = r.readText(n, what+".issuer"), n.text
			if u, err := url.Parse(o.Issuer); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
				r.addProblem(n,
					"%s.issuer must be the address of an authorization server, like https://login.example.com", what)
			}
		},
		"scopes": func(n *node) {
			o.Scopes = r.readTexts(n, what+".scopes")
			for i, s := range o.Scopes {
				if s == "" || strings.ContainsFunc(s, func(c rune) bool {
					return c <= ' ' || c > '~' || c == '"' || c == '\\'
				}) {
					r.addProblem(n.list[i],
						"%s.scopes: invalid scope %q: write each scope as a separate text without spaces",
						what, clipText(s))
				}
			}
			shown.Scopes = o.Scopes
		},
		"redirect_port": func(n *node) {
			o.RedirectPort = r.readCount(n, what+".redirect_port", 1, 65535)
			shown.RedirectPort = o.RedirectPort
		},
	})
	if o.ClientSecret != "" && o.ClientID == "" {
		r.addProblem(secretNode, "%s.client_secret needs the client_id that it belongs to", what)
	}
	r.s.shown.OAuth = shown
}

// readTimeout reads a duration with a unit. Other clients write a number here, some in seconds and
// some in milliseconds.
func (r *reader) readTimeout(n *node, what string) time.Duration {
	if n.kind == numberNode {
		r.addWarning(n, "%s.timeout has no effect here without a unit: write 90s", what)
		return 0
	}
	return r.readDuration(n, what+".timeout", minTimeout, maxTimeout)
}
