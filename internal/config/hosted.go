package config

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
)

// A ServerSandbox configures the sandbox that an MCP server runs in. Zero fields mean the defaults.
type ServerSandbox struct {
	Image     string
	Network   []string        // hosts that the server may reach, in lower case
	Secrets   []egress.Secret // inserted into its requests
	Mounts    []string        // files and folders of the host that it can read, absolute
	Memory    int64
	Processes int
	Disk      int64
	Standby   time.Duration // negative: never
}

// ShownServerSandbox is the printable form of a ServerSandbox.
type ShownServerSandbox struct {
	Image   string   `json:"image,omitempty"`
	Network []string `json:"network,omitempty"`
	Secrets []string `json:"secrets,omitempty"` // names of the placeholders
	Mounts  []string `json:"mounts,omitempty"`
}

// readServerSandbox reads the sandbox of a server.
func readServerSandbox(r *reader, s *Server, n *node, what string) {
	b := &ServerSandbox{}
	s.Sandbox = b
	r.readObject(n, what, key{
		"image": func(n *node) {
			if b.Image = r.readText(n, what+".image"); image.CheckName(b.Image) != nil {
				r.addProblem(n, "%s.image: invalid name %q: write the name of an image", what, clipText(b.Image))
			}
		},
		"network": func(n *node) { b.Network = r.readHosts(n, what+".network") },
		"secrets": func(n *node) { b.Secrets = readNetworkSecrets(r, n, what+".secrets") },
		"mounts": func(n *node) {
			for _, path := range r.readTexts(n, what+".mounts") {
				b.Mounts = append(b.Mounts, filepath.Clean(r.resolvePath(path)))
			}
		},
		"memory":    func(n *node) { b.Memory = r.readSize(n, what+".memory", 16<<20, 1<<40) },
		"processes": func(n *node) { b.Processes = r.readCount(n, what+".processes", 16, 10_000) },
		"disk":      func(n *node) { b.Disk = r.readSize(n, what+".disk", 1<<20, 1<<40) },
		"standby": func(n *node) {
			if n.text == "never" {
				b.Standby = -1
				return
			}
			b.Standby = r.readDuration(n, what+".standby", time.Second, 24*time.Hour)
		},
	})
	s.shown.Sandbox = &ShownServerSandbox{Image: b.Image, Network: b.Network, Mounts: b.Mounts}
	for _, one := range b.Secrets {
		s.shown.Sandbox.Secrets = append(s.shown.Sandbox.Secrets, one.Name)
	}
}

// checkServerSandbox checks what the sandbox of a server must agree with.
func checkServerSandbox(r *reader, s *Server, at *node) {
	b, what := s.Sandbox, "mcpServers."+s.Name+".sandbox"
	if b == nil {
		return
	}
	if s.Command == "" {
		r.addProblem(at, "%s: a sandbox is for a server with a command: one with a url runs elsewhere", what)
	}
	if s.Personal && len(b.Secrets) > 0 {
		r.addProblem(at, "%s.secrets are the same for all, and the server has credentials: person: write "+
			"${secret:NAME} in its env", what)
	}
	if s.shown.Dir != "" && !slices.ContainsFunc(b.Mounts, func(m string) bool {
		return s.Dir == m || strings.HasPrefix(s.Dir, m+string(filepath.Separator))
	}) {
		r.addProblem(at, "%s: cwd is not in the sandbox: add it to mounts, or remove it; then it is /workspace", what)
	}
	for _, one := range b.Secrets {
		if s.Env[one.Name] != "" {
			r.addProblem(at, "%s.secrets.%s: env has this variable, too: remove one of them", what, one.Name)
		}
		for _, host := range one.Hosts {
			if !slices.Contains(b.Network, host) {
				r.addProblem(at, "%s.secrets.%s: %s is not in %s.network: add it", what, one.Name, host, what)
			}
		}
	}
}

// NameGrantor returns the name of what grants hosts to a server in a sandbox.
func (s *Server) NameGrantor() string { return "mcpServers." + s.Name + ".sandbox" }

// ListVariables returns the configured environment variables of a server: NAME=value, sorted.
func (s *Server) ListVariables() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		out = append(out, name+"="+s.Env[name])
	}
	return out
}

// WorkFolder returns the folder that a server in a sandbox works in; empty: /workspace.
func (s *Server) WorkFolder() string {
	if s.shown.Dir == "" {
		return ""
	}
	return s.Dir
}
