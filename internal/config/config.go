// Package config reads the configuration: YAML, or JSON with comments, written for Biplane or for
// an agent's client. Parse parses the text, then expands environment variables, checks every key
// and value, and fills in defaults. It reports all errors at once, each with line and column. A
// daemon is built from the resulting Config. The size, depth and number of values are limited, and
// secrets are never shown.
package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/control/limit"
	"github.com/biplane-dev/biplane/internal/control/policy"
	"github.com/biplane-dev/biplane/internal/control/registry"
	"github.com/biplane-dev/biplane/internal/control/usage"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Config holds the checked values of a configuration file, with defaults for those it omits.
type Config struct {
	Origin
	Endpoints
	Upstreams
	Listening

	Warnings  []Problem     // settings without effect
	Policy    string        // "ask-for-writes" (the default), "read-only", "open", or a folder as written in the file
	PolicyDir string        // absolute path of that folder; empty if there is none
	Tools     []policy.Rule // settings of tools and upstreams
	Auth      *Auth         // nil: no sign-in
	StartWait time.Duration
	Sandbox   Sandbox
	Sessions  Sessions
	Audit     Audit
	Approvals Approvals
	Privacy   Privacy
	Limits    []limit.Rule
	Journal   Journal
	Usage     Usage
	Prices    *usage.Prices // nil: usage is not priced
	Network   Network
	Reports

	Descriptions

	Secrets       Secrets
	StartWaitSaid bool // StartWait is set in the file
}

// Upstreams are the configured sources of tools.
type Upstreams struct {
	Servers  []Server // in the order of the file
	APIs     []API    // the upstreams of other kinds, by kind
	Registry Registry // decides which upstreams may be started
	files    []localFile
}

// An Origin identifies the text that a Config was read from.
type Origin struct {
	File string // absolute path; empty if there is no file
	Sum  string // SHA-256 of the text, in hexadecimal
	// digests of the file's parts by name, before variables are expanded
	Parts map[string][sha256.Size]byte
}

// Default returns the Config of an empty file.
func Default() *Config {
	return &Config{
		Endpoints: Endpoints{Mode: "code"}, Policy: "ask-for-writes", Listening: Listening{Listen: "127.0.0.1:8420"},
		StartWait: 5 * time.Second,
		Sandbox: Sandbox{Tier: tool.WASM, Memory: 256 << 20, CPU: 10 * time.Second, OutputTokens: 6000, Calls: 1000,
			Concurrency: 128},
		Upstreams: Upstreams{Registry: Registry{Public: registry.PublicAddress}},
		Reports:   Reports{Telemetry: Telemetry{Sample: 1}},
		Journal:   Journal{Keep: 7 * 24 * time.Hour, Bytes: 1 << 30},
		Usage:     Usage{Keep: 400 * 24 * time.Hour, Hours: 14 * 24 * time.Hour},
	}
}

// Load finds the configuration like Find, and reads it. Errors in the file are an *Error inside an
// error of kind tool.Invalid. If there is no file, Load returns Default. strongest is the strongest
// tier of the sandboxes of this build.
func Load(named string, strongest tool.Tier) (*Config, error) {
	path, err := Find(named)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	if path == "" {
		c := Default()
		c.Sandbox.Strongest = strongest
		c.Telemetry.setEnvironment(os.LookupEnv)
		return c, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.Invalid, "configuration %s does not exist", path)
	} else if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, configBytes+1))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	return Parse(path, text, os.LookupEnv, strongest)
}

// Parse parses the text of the configuration file at path. env looks up environment variables.
// strongest is the strongest tier of the sandboxes of this build.
func Parse(path string, text []byte, env func(string) (string, bool), strongest tool.Tier) (*Config, error) {
	c := Default()
	c.Sandbox.Strongest = strongest
	sum := sha256.Sum256(text)
	c.File, c.Sum = path, hex.EncodeToString(sum[:])
	root, problem := parseFile(path, text)
	if problem != nil {
		return nil, configError(path, []Problem{*problem})
	}
	if root == nil {
		c.Telemetry.setEnvironment(env)
		return c, nil
	}
	c.Parts = partDigests(root)
	r := &fileReader{reader: &reader{env: env, dir: filepath.Dir(path)}, c: c}
	r.readConfig(root)
	c.Telemetry.setEnvironment(env)
	if len(r.problems) > 0 {
		return nil, configError(path, r.problems)
	}
	c.files = r.files
	c.Warnings, c.Secrets.Variables = sortProblems(r.warnings), r.hidden
	c.Secrets.keepFile(root, r.reader)
	return c, nil
}

func configError(path string, ps []Problem) error {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
			path = rel
		}
	}
	e := &Error{File: path, Problems: sortProblems(ps)}
	return &tool.Error{Kind: tool.Invalid, Msg: e.Error(), Err: e}
}

// A fileReader reads a configuration file, part by part, into a Config.
type fileReader struct {
	*reader
	c      *Config
	listen *node // the key's value; nil: it is missing
}

func (r *fileReader) readConfig(root *node) {
	c := r.c
	known := key{
		"$schema":    func(*node) {},
		"mcpServers": func(n *node) { c.Servers = r.readServers(n) },
		"mode":       func(n *node) { c.Mode = r.oneOf(n, "mode", "code", "direct", "auto") },
		"policy":     func(n *node) { r.readPolicy(n) },
		"profiles":   func(n *node) { c.Profiles = readProfiles(r.reader, n) },
		"tools":      func(n *node) { c.Tools = r.toolRules(n) },
		"listen":     func(n *node) { r.listen, c.Listen = n, r.readText(n, "listen") },
		"auth":       func(n *node) { c.Auth = r.readAuth(n) },
		"tls":        func(n *node) { c.TLS = r.readTLS(n) },

		"trusted_proxies": func(n *node) { c.Proxies = readProxies(r.reader, n) },
		"start_wait": func(n *node) {
			c.StartWait, c.StartWaitSaid = r.readDuration(n, "start_wait", 0, 5*time.Minute), true
		},
		"sandbox":   func(n *node) { r.readSandbox(n) },
		"sandboxes": func(n *node) { readOwnSandboxes(r.reader, n, &c.Sandbox.Own) },
		"sessions":  func(n *node) { r.readSessions(n) },
		"audit":     func(n *node) { r.readAudit(n) },
		"approvals": func(n *node) { r.readApprovals(n) },
		"privacy":   func(n *node) { r.readPrivacy(n) },
		"limits":    func(n *node) { c.Limits = r.readLimits(n) },
		"journal":   func(n *node) { r.readJournal(n) },
		"usage":     func(n *node) { r.readUsage(n) },
		"prices":    func(n *node) { c.Prices = r.readPrices(n) },
		"network":   func(n *node) { r.readNetwork(n) },
		"telemetry": func(n *node) { readTelemetry(r.reader, n, &c.Telemetry) },
		"registry":  func(n *node) { readRegistry(r.reader, n, &c.Registry) },
		"secrets":   func(n *node) { r.readSecrets(n) },
	}
	known["notify"] = func(n *node) { readNotify(r.reader, n, &c.Notify) }
	known["observed_types"] = observedReader(r.reader, "observed_types", &c.Observed)
	known["definitions"] = func(n *node) { r.readDefinitions(n, "definitions", &c.Definitions) }
	for part := range apiKinds {
		known[part] = func(n *node) { c.APIs = append(c.APIs, r.readAPIs(n, part)...) }
	}
	r.readObject(root, "the configuration", known)
	for _, s := range c.ListSources() {
		if len(s.Labels) > 0 {
			c.Tools = append(c.Tools, policy.Rule{Upstream: s.Name, Labels: s.Labels})
		}
	}
	c.findLock()
	r.checkUpstreamNames(root)
	r.checkExposure()
}
