package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/limit"
	"github.com/biplane-dev/biplane/internal/policy"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/usage"
)

// Settings are what a configuration file says, checked, with what it leaves out filled in.
type Settings struct {
	File      string        // the file, absolute; empty when there is none
	Sum       string        // SHA-256 of its text, in hexadecimal
	Warnings  []Problem     // what was read, and has no effect
	Servers   []Server      // in the order of the file
	Mode      string        // "code", "direct" or "auto"
	Policy    string        // "ask-for-writes" (the default), "read-only", "open", or a folder as it was written
	PolicyDir string        // that folder, absolute; empty where there is none
	Tools     []policy.Rule // what is said of tools and of upstreams
	Listen    string        // host:port for serve
	Auth      *AuthSettings // nil: nobody signs in
	TLS       TLSSettings
	StartWait time.Duration
	Sandbox   SandboxSettings
	Sessions  SessionSettings
	Audit     AuditSettings
	Approvals ApprovalSettings
	Privacy   PrivacySettings
	Limits    []limit.Rule
	Journal   JournalSettings
	Usage     UsageSettings
	Prices    *usage.Prices // nil: usage is not priced
	Network   NetworkSettings

	hidden   []string                     // values of variables of the environment that may be secret
	waitSaid bool                         // StartWait is of the file
	parts    map[string][sha256.Size]byte // what the file's parts are, by their names
}

// SandboxSettings bound what one program may use.
type SandboxSettings struct {
	Tier         tool.Tier
	Memory       int64 // bytes
	CPU          time.Duration
	OutputTokens int    // of what a program gives to the agent
	Calls        int    // that one program may make
	Concurrency  int    // calls of one program under way at once
	Process      string // how locked down the process around the embedded engine must be: "" as far as the system lets it
}

// What Process may be besides "".
const (
	ProcessStrict = "strict" // entirely, or no program runs
	ProcessOff    = "off"    // there is none: the engine runs in this process
)

// DefaultSettings are the settings of an empty configuration.
func DefaultSettings() *Settings {
	return &Settings{
		Mode: "code", Policy: "ask-for-writes", Listen: "127.0.0.1:8420", StartWait: 5 * time.Second,
		Sandbox: SandboxSettings{Tier: tool.WASM, Memory: 256 << 20, CPU: 10 * time.Second, OutputTokens: 6000, Calls: 1000, Concurrency: 128},
		Journal: JournalSettings{Keep: 7 * 24 * time.Hour, Bytes: 1 << 30},
		Usage:   UsageSettings{Keep: 400 * 24 * time.Hour, Hours: 14 * 24 * time.Hour},
	}
}

// FindConfig says which file is the configuration: named if it isn't empty, else what $BIPLANE_CONFIG names, else
// ./biplane.yaml, else ./.mcp.json, else biplane.yaml in biplane's folder of the user's configuration folder. It is
// empty when there is none.
func FindConfig(named string) (string, error) {
	if named == "" {
		named = os.Getenv("BIPLANE_CONFIG")
	}
	if named != "" {
		return filepath.Abs(named)
	}
	places := []string{"biplane.yaml", ".mcp.json"}
	if dir := userConfigFolder(); dir != "" {
		places = append(places, filepath.Join(dir, "biplane", "biplane.yaml"))
	}
	for _, p := range places {
		if fi, err := os.Stat(p); err == nil && !fi.IsDir() {
			return filepath.Abs(p)
		}
	}
	return "", nil
}

func userConfigFolder() string {
	if d := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(d) {
		return d
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".config")
}

// DataFolder says where state lives: named if it isn't empty, else $XDG_DATA_HOME/biplane, else
// ~/.local/share/biplane.
func DataFolder(named string) (string, error) {
	if named != "" {
		return filepath.Abs(named)
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "biplane"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", tool.Errorf(tool.Invalid, "no home folder for the data: give one with --data-dir: %w", err)
	}
	return filepath.Join(home, ".local", "share", "biplane"), nil
}

// LoadConfig finds the configuration as FindConfig does, and reads it. What is wrong in the file is a *ConfigError
// inside an error of kind tool.Invalid. Without a file the settings are the default ones.
func LoadConfig(named string) (*Settings, error) {
	path, err := FindConfig(named)
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	if path == "" {
		return DefaultSettings(), nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, tool.Errorf(tool.Invalid, "configuration %s is not there", path)
	} else if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, configBytes+1))
	if err != nil {
		return nil, tool.Errorf(tool.Invalid, "configuration: %w", err)
	}
	return ParseConfig(path, text, environ)
}

// ParseConfig reads the text of the configuration file at path. env looks up environment variables.
func ParseConfig(path string, text []byte, env func(string) (string, bool)) (*Settings, error) {
	s := DefaultSettings()
	sum := sha256.Sum256(text)
	s.File, s.Sum = path, hex.EncodeToString(sum[:])
	root, problem := parse(path, text)
	if problem != nil {
		return nil, configError(path, []Problem{*problem})
	}
	if root == nil {
		return s, nil
	}
	s.parts = digests(root)
	r := &reader{env: env}
	r.settings(root, s)
	if len(r.problems) > 0 {
		return nil, configError(path, r.problems)
	}
	s.Warnings, s.hidden = sorted(r.warnings), r.hidden
	return s, nil
}

func configError(path string, ps []Problem) error {
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, path); err == nil && !strings.HasPrefix(rel, "..") {
			path = rel
		}
	}
	e := &ConfigError{File: path, Problems: sorted(ps)}
	return &tool.Error{Kind: tool.Invalid, Msg: e.Error(), Err: e}
}

func (r *reader) settings(root *node, s *Settings) {
	later := func(key string) func(*node) {
		return func(n *node) {
			if n.kind != nullNode && len(n.list)+len(n.fields) > 0 {
				r.wrong(n, "%s is not available yet in this build: only mcpServers are sources of tools", key)
			}
		}
	}
	var listen *node
	r.object(root, "the configuration", key{
		"$schema":    func(*node) {},
		"mcpServers": func(n *node) { s.Servers = r.servers(n, filepath.Dir(s.File)) },
		"openapi":    later("openapi"),
		"folders":    later("folders"),
		"mode":       func(n *node) { s.Mode = r.oneOf(n, "mode", "code", "direct", "auto") },
		"policy":     func(n *node) { r.policy(n, s) },
		"tools":      func(n *node) { s.Tools = r.toolRules(n) },
		"listen":     func(n *node) { listen, s.Listen = n, r.text(n, "listen") },
		"auth":       func(n *node) { s.Auth = r.auth(n) },
		"tls":        func(n *node) { s.TLS = r.tls(n, filepath.Dir(s.File)) },
		"start_wait": func(n *node) { s.StartWait, s.waitSaid = r.duration(n, "start_wait", 0, 5*time.Minute), true },
		"sandbox":    func(n *node) { r.sandbox(n, &s.Sandbox) },
		"sessions":   func(n *node) { r.sessions(n, &s.Sessions) },
		"audit":      func(n *node) { r.audit(n, &s.Audit, filepath.Dir(s.File)) },
		"approvals":  func(n *node) { r.approvals(n, &s.Approvals) },
		"privacy":    func(n *node) { r.privacy(n, &s.Privacy) },
		"limits":     func(n *node) { s.Limits = r.limits(n) },
		"journal":    func(n *node) { r.journal(n, &s.Journal) },
		"usage":      func(n *node) { r.usage(n, &s.Usage) },
		"prices":     func(n *node) { s.Prices = r.prices(n) },
		"network":    func(n *node) { r.network(n, &s.Network) },
	})
	for _, u := range s.Servers {
		if len(u.Labels) > 0 {
			s.Tools = append(s.Tools, policy.Rule{Upstream: u.Name, Labels: u.Labels})
		}
	}
	r.exposed(listen, s)
}

func (r *reader) sandbox(n *node, s *SandboxSettings) {
	r.object(n, "sandbox", key{
		"tier": func(n *node) {
			t, err := tool.ParseTier(r.text(n, "sandbox.tier"))
			switch {
			case err != nil:
				r.wrong(n, "sandbox.tier: %s", err)
			case t != tool.WASM:
				r.wrong(n, "sandbox.tier %s is not available yet in this build: only wasm is", t)
			default:
				s.Tier = t
			}
		},
		"memory":        func(n *node) { s.Memory = r.size(n, "sandbox.memory", 8<<20, 4<<30) },
		"cpu":           func(n *node) { s.CPU = r.duration(n, "sandbox.cpu", 10*time.Millisecond, time.Hour) },
		"output_tokens": func(n *node) { s.OutputTokens = r.count(n, "sandbox.output_tokens", 100, 1_000_000) },
		"calls":         func(n *node) { s.Calls = r.count(n, "sandbox.calls", 1, 1_000_000) },
		"concurrency":   func(n *node) { s.Concurrency = r.count(n, "sandbox.concurrency", 1, 1000) },
		"process": func(n *node) {
			if s.Process = r.oneOf(n, "sandbox.process", "auto", ProcessStrict, ProcessOff); s.Process == "auto" {
				s.Process = ""
			}
		},
	})
}

func (r *reader) count(n *node, what string, low, high int64) int {
	text := r.text(n, what)
	v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
	if err != nil {
		r.wrong(n, "%s must be a whole number, not %q", what, clip(text))
		return int(low)
	}
	if v < low || v > high {
		r.wrong(n, "%s must be from %d to %d, not %d", what, low, high, v)
		return int(low)
	}
	return int(v)
}

var sizeUnits = []struct {
	name string
	n    float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// size reads a number of bytes with its unit: "256MiB".
func (r *reader) size(n *node, what string, low, high int64) int64 {
	text := strings.TrimSpace(r.text(n, what))
	for _, u := range sizeUnits {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || math.IsNaN(v) || v < 0 {
			break
		}
		if v *= u.n; v < float64(low) || v > float64(high) {
			r.wrong(n, "%s must be from %s to %s, not %s", what, FormatSize(low), FormatSize(high), text)
			return low
		}
		return int64(v)
	}
	r.wrong(n, "%s must be a size with a unit, like 256MiB (B, KiB, MiB, GiB, KB, MB or GB), not %q", what, clip(text))
	return low
}

// FormatSize writes bytes as size reads them.
func FormatSize(n int64) string {
	for _, u := range []struct {
		name string
		n    int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.n && n%u.n == 0 {
			return fmt.Sprintf("%d%s", n/u.n, u.name)
		}
	}
	return fmt.Sprintf("%dB", n)
}

// duration reads a time with its unit: "10s".
func (r *reader) duration(n *node, what string, low, high time.Duration) time.Duration {
	text := r.text(n, what)
	d, err := time.ParseDuration(text)
	if err != nil {
		r.wrong(n, "%s must be a time with a unit, like 10s or 500ms, not %q", what, clip(text))
		return low
	}
	if d < low || d > high {
		r.wrong(n, "%s must be from %s to %s, not %s", what, low, high, d)
		return low
	}
	return d
}
