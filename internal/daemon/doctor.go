package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/control/identity"
	"github.com/biplane-dev/biplane/internal/control/registry"
	"github.com/biplane-dev/biplane/internal/store"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/pin"
)

// A Check is the result of one of Doctor's checks.
type Check struct {
	Part   string `json:"part"` // "configuration", "data folder", "sandbox wasm", "upstreams"
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Needed bool   `json:"needed"` // Biplane can't work without it
	Detail string `json:"detail"`
}

// DoctorConfig configures Doctor.
type DoctorConfig struct {
	Config  string // the value of --config
	DataDir string
	Key     string // as in Config
	Version string
	Engine  []string // as in Config
	Probe   bool     // also try to escape from the engine's process
	Log     *slog.Logger
}

// Doctor checks everything that Biplane needs on this host. It reads the configuration, opens the
// data folder, and connects to the upstreams. In every kind of sandbox it runs programs that try to
// escape or to exceed their limits. With Probe it also makes the attempts of a program that has
// taken over its engine's process.
func Doctor(ctx context.Context, c DoctorConfig) []Check {
	s, checks := checkConfig(c.Config)
	checks = append(checks, checkFolder(ctx, c)...)
	e := newEngine(c.Engine, c.Log, s)
	checks = append(checks, checkSandboxes(ctx, drivers, s, e)...)
	checks = append(checks, checkRunning(ctx, c)...)
	if c.Probe {
		checks = append(checks, checkEscapes(ctx, e)...)
	}
	if s == nil {
		return append(checks, Check{Part: "upstreams", Name: "all", Detail: "not tried: the configuration is invalid"})
	}
	checks = append(checks, checkPeople(ctx, s)...)
	checks = append(checks, checkRegistry(ctx, c, s)...)
	checks = append(checks, checkRecord(ctx, c, s)...)
	return append(checks, checkUpstreams(ctx, c, s)...)
}

func checkConfig(named string) (*config.Config, []Check) {
	check := Check{Part: "configuration", Name: "file", Needed: true}
	s, err := config.Load(named, StrongestTier())
	switch {
	case err != nil:
		check.Detail = tool.AsError(err).Msg
		return nil, []Check{check}
	case s.File == "":
		check.Detail = "none found, so there are no upstream tools; create ./biplane.yaml, or pass a file with --config"
	default:
		check.Detail = fmt.Sprintf("%s: %s, mode %s", s.File, countServers(len(s.Servers))+countAPIs(s), s.Mode)
	}
	check.OK = true
	checks := []Check{check}
	for _, w := range s.Warnings {
		checks = append(checks, Check{Part: check.Part, Name: fmt.Sprintf("line %d", w.Line), Detail: w.Message})
	}
	return s, append(checks, checkPolicy(s), checkLock(s))
}

// checkPeople asks the OpenID provider at which people sign in, if the configuration names one.
func checkPeople(ctx context.Context, s *config.Config) []Check {
	if s.Auth == nil || s.Auth.Provider == nil {
		return nil
	}
	check := Check{Part: "configuration", Name: "sign-in"}
	c := providerConfig(s.Auth.Provider, s.Auth, nil)
	c.Secret = nil
	said, err := identity.CheckProvider(ctx, *c)
	check.OK, check.Detail = err == nil, said
	if err != nil {
		check.Detail = fmt.Sprintf("people can't sign in at %s: %v", s.Auth.Provider.Issuer.Issuer, err)
	} else {
		check.Detail += "; register the redirect " + c.Redirect
	}
	return []Check{check}
}

// checkRegistry reads the list of approved servers, if the configuration names one.
func checkRegistry(ctx context.Context, c DoctorConfig, s *config.Config) []Check {
	if s.Registry.Source == "" {
		return nil
	}
	check := Check{Part: "configuration", Name: "registry", Needed: s.Registry.Only}
	source := s.Registry.DescribeSource(c.DataDir)
	if _, err := os.Stat(c.DataDir); err != nil {
		source.Folder = "" // it is created when needed
	}
	list, err := registry.OpenList(ctx, source)
	if err != nil {
		check.Detail = tool.AsError(err).Msg
		return []Check{check}
	}
	check.OK = list.Problem == ""
	check.Detail = fmt.Sprintf("%s: %s approved", list.DescribeList(), text.Count(len(list.Servers), "server"))
	if list.Signer == "" {
		check.Detail += ", unsigned"
	} else {
		check.Detail += ", signed by " + list.Signer
	}
	if !list.Expires.IsZero() {
		check.Detail += ", until " + list.Expires.UTC().Format(time.DateOnly)
	}
	if list.Problem != "" {
		check.Detail += "; this is the list that was accepted last, because of " + list.Problem
	}
	if !s.Registry.Only {
		check.Detail += "; other servers are started, too (registry.only)"
	}
	return []Check{check}
}

// checkLock reads the lock file of definitions.
func checkLock(s *config.Config) Check {
	check := Check{Part: "configuration", Name: "definitions"}
	if s.Definitions.Lock == "" {
		check.OK, check.Detail = true, "not pinned: changes of tools' definitions are not noticed (definitions)"
		return check
	}
	check.Needed = true
	f, err := pin.OpenFile(s.Definitions.Lock)
	if err != nil {
		check.Detail = tool.AsError(err).Msg
		return check
	}
	lock, err := f.ReadLock()
	if err != nil {
		check.Detail = tool.AsError(err).Msg
		return check
	}
	n := 0
	for _, pins := range lock.Servers {
		n += len(pins)
	}
	check.OK, check.Detail = true, fmt.Sprintf("%s: %s pinned", f.FilePath(), text.Count(n, "tool"))
	return check
}

// checkPolicy loads the policies and describes them.
func checkPolicy(s *config.Config) Check {
	check := Check{Part: "configuration", Name: "policy", Needed: true}
	e, err := s.Engine()
	if err != nil {
		check.Detail = tool.AsError(err).Msg
		return check
	}
	check.OK = true
	switch {
	case s.PolicyDir != "" && e.Len() == 0:
		check.Detail = s.PolicyDir + " has no .cedar file: every call is denied"
	case s.PolicyDir != "":
		check.Detail = fmt.Sprintf("%s: policies: %d", s.PolicyDir, e.Len())
	case e.Name() == "open":
		check.Detail = "open: every call of every tool is allowed"
	case e.Name() == "ask-for-writes":
		check.Detail = "ask-for-writes: tools that only read are allowed, all others wait for a person"
	default:
		check.Detail = e.Name() + ": calls that it doesn't permit are denied"
	}
	return check
}

// checkFolder opens the data folder and writes to it, unless a running process owns it.
func checkFolder(ctx context.Context, c DoctorConfig) []Check {
	check := Check{Part: "data folder", Name: "store", Needed: true}
	if _, err := os.Stat(c.DataDir); os.IsNotExist(err) {
		check.OK, check.Detail = true, c.DataDir+" doesn't exist yet; it is created when needed"
		return []Check{check}
	}
	s, err := store.Open(ctx, store.Config{Path: c.DataDir, Owner: store.Owner{Version: c.Version},
		Prepare: func() error { return checkKey(c.DataDir, c.Key) }})
	if owner, ok := FindOwner(err); ok {
		check.OK, check.Detail = true, fmt.Sprintf("%s, in use by process %d", c.DataDir, owner.PID)
		return []Check{check}
	}
	if err != nil {
		check.Detail = tool.AsError(err).Msg
		return []Check{check}
	}
	executions := checkExecutions(ctx, s)
	if err := s.Close(); err != nil {
		check.Detail = tool.AsError(err).Msg
		return []Check{check}
	}
	check.OK, check.Detail = true, c.DataDir+", can be written"
	return []Check{check, executions}
}

// checkExecutions reports how many executions a previous process left unfinished.
func checkExecutions(ctx context.Context, s *store.Store) Check {
	check := Check{Part: "data folder", Name: "executions"}
	open, err := s.Executions(nil).Open(ctx) // the records are not sealed: no key is needed
	switch n := len(open); {
	case err != nil:
		check.Detail = tool.AsError(err).Msg
		return check
	case n == 0:
		check.Detail = "all have ended"
	case n == 1:
		check.Detail = "1 is unfinished and not running: it resumes or ends when biplane serve, mcp or run starts"
	default:
		check.Detail = fmt.Sprintf(
			"%d are unfinished and not running: they resume or end when biplane serve, mcp or run starts", n)
	}
	check.OK = true
	return check
}

// checkUpstreams connects to the upstreams, through the running process or one started here.
func checkUpstreams(ctx context.Context, c DoctorConfig, s *config.Config) []Check {
	const part = "upstreams"
	if len(s.ListSources()) == 0 {
		return []Check{{Part: part, Name: "none", OK: true, Detail: "the configuration names no mcpServers"}}
	}
	at, err := Attach(ctx, Config{Settings: s, DataDir: c.DataDir, Key: c.Key, Version: c.Version,
		Engine: c.Engine, Log: c.Log})
	if err != nil {
		return []Check{{Part: part, Name: "all", Detail: "not tried: " + tool.AsError(err).Msg}}
	}
	defer at.Close()
	ups, err := at.Client.Upstreams(ctx)
	if err != nil {
		return []Check{{Part: part, Name: "all", Detail: tool.AsError(err).Msg}}
	}
	checks := make([]Check, 0, len(ups))
	for _, u := range ups {
		checks = append(checks, checkUpstream(part, u))
		for _, b := range u.Broken {
			checks = append(checks, Check{Part: part, Name: u.Name + "." + b.Tool, Detail: "left out: " + b.Reason})
		}
		for _, n := range u.Definitions {
			checks = append(checks, checkDefinition(n))
		}
	}
	return checks
}

// checkDefinition describes a notice about the definition of a tool.
func checkDefinition(n api.DefinitionNotice) Check {
	check := Check{Part: "definitions", Name: n.Path}
	var says []string
	switch n.Change {
	case "new":
		says = append(says, "new")
	case "changed":
		says = append(says, "changed since it was accepted")
	}
	for _, f := range n.Findings {
		says = append(says, f.Kind+" in "+f.Where+": "+f.Text)
	}
	if n.Quarantined {
		says = append(says, "quarantined until it is accepted: see `biplane tools`")
	}
	check.Detail = strings.Join(says, "; ")
	return check
}

func checkUpstream(part string, u api.Upstream) Check {
	check := Check{Part: part, Name: u.Name, OK: u.State == string(tool.Ready), Detail: u.State}
	if check.OK {
		protocol := u.Protocol
		if slices.Contains([]string{"stdio", "http", "sse"}, u.Type) {
			protocol = "MCP " + protocol
		}
		parts := []string{u.State, text.Count(u.Tools, "tool"), u.Server, protocol}
		check.Detail = strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
		if u.Sandbox != nil {
			check.Detail += ", " + u.Sandbox.DescribeSandbox()
		}
		return check
	}
	if u.Reason != "" {
		check.Detail += ": " + u.Reason
	}
	if n := len(u.Stderr); n > 0 {
		check.Detail += "; it last wrote: " + strings.TrimSpace(u.Stderr[n-1])
	}
	return check
}

// countAPIs describes the numbers of APIs and folders, if there are any.
func countAPIs(s *config.Config) (out string) {
	folders := 0
	for _, a := range s.APIs {
		if _, ok := a.(*config.Folder); ok {
			folders++
		}
	}
	if n := len(s.APIs) - folders; n > 0 {
		out = ", " + text.Count(n, "API")
	}
	if folders > 0 {
		out += ", " + text.Count(folders, "folder")
	}
	return out
}

func countServers(n int) string {
	if n == 1 {
		return "1 MCP server"
	}
	return fmt.Sprintf("%d MCP servers", n)
}
