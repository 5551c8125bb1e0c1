package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/serve/mcpserver"
	"github.com/biplane-dev/biplane/internal/tool"
)

// sandboxFolder is the folder for the files of principals' own sandboxes, in the data folder.
const sandboxFolder = "sandboxes"

// newOwnSandboxes returns the sandboxes of principals. They run in the first kind of sandbox that
// can serve commands.
func (d assembly) newOwnSandboxes(n sandbox.Network, door tool.Caller) *owned.Sandboxes {
	cfg := owned.Config{Dir: filepath.Join(d.cfg.DataDir, sandboxFolder), Store: d.store.OpenSandboxes(d.key, d.log),
		Limits: d.cfg.Settings.Sandbox.Own, Log: d.log,
		Egress: owned.Egress{Network: n, Hosts: d.policies, Door: door}}
	cfg.Driver, cfg.Unable = d.sandboxes.findMachineDriver()
	if d.sandboxes.previews = newPreviews(d.Daemon, d.key); d.sandboxes.previews != nil {
		cfg.Previews = d.sandboxes.previews
	}
	return owned.NewSandboxes(cfg)
}

// findMachineDriver returns the first driver that makes machines, or why there is none.
func (s *sandboxes) findMachineDriver() (sandbox.MachineDriver, error) {
	why := errors.New("this build has no kind of sandbox for them")
	for _, k := range s.kinds {
		if m, ok := k.Driver.(sandbox.MachineDriver); ok {
			return m, nil
		}
		if k.Tier >= tool.Process && k.Err != nil {
			why = k.Err
		}
	}
	return nil, why
}

// addSandboxTools adds the tools of sandboxes.
func (t table) addSandboxTools(s *owned.Sandboxes) table {
	for _, def := range owned.ListTools() {
		t[def.Name] = tool.CallerFunc(s.CallTool)
	}
	return t
}

// sandboxServers has the MCP servers of sandboxes. Each is created with its first request.
type sandboxServers struct {
	d    *Daemon
	door tool.Caller

	mu     sync.Mutex
	by     map[string]*mcpserver.Server // by the sandbox's ID
	closed bool

	closing sync.WaitGroup // of servers whose sandboxes have ended
}

func newSandboxServers(d *Daemon, door tool.Caller) *sandboxServers {
	return &sandboxServers{d: d, door: door, by: map[string]*mcpserver.Server{}}
}

// ServeSandbox implements httpapi.Sandboxes.
func (s *sandboxServers) ServeSandbox(w http.ResponseWriter, r *http.Request, p tool.Principal, name string) {
	id, err := s.d.sandboxes.own.FindSandbox(r.Context(), p, name)
	if err != nil {
		s.closeServer(name)
		http.Error(w, tool.AsError(err).Msg, http.StatusNotFound)
		return
	}
	srv := s.openServer(id)
	if srv == nil {
		http.Error(w, "biplane is stopping", http.StatusServiceUnavailable)
		return
	}
	srv.Handler().ServeHTTP(w, r)
}

// sandboxServerLimits are far lower than those of the gateway's own server: a principal may have
// several sandboxes, with a server each.
var sandboxServerLimits = mcpserver.Limits{
	Memory: 16 << 20, Requests: 128, Calls: 64, Sessions: 32, Subscriptions: 64, Tasks: 64,
}

// openServer returns the server of a sandbox, or nil if it is too late.
func (s *sandboxServers) openServer(id string) *mcpserver.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	srv := s.by[id]
	if srv == nil {
		for old, ended := range s.by {
			if !s.d.sandboxes.own.HasSandbox(old) {
				delete(s.by, old)
				s.closing.Go(func() { s.reportClose(old, ended) })
			}
		}
		srv = mcpserver.New(mcpserver.Config{
			Door: tool.CallerFunc(sandboxDoor{s.door, id}.callSandbox), Builtin: owned.ToolsOfOne(),
			Filter: sandboxFilter{s.d.policies, s.d},
			Endpoint: mcpserver.Endpoint{Instructions: "These tools work in one sandbox, " + id +
				": an isolated Linux system. /workspace has its files, which are kept. It has no network, or " +
				"only reaches the hosts that policy permits."},
			Version: s.d.cfg.Version, Log: s.d.log, Principal: principalOf, AnyHost: s.d.cfg.Settings.AnyHost(),
			Limits: sandboxServerLimits,
		})
		s.by[id] = srv
	}
	return srv
}

// cutPrincipal closes everything that a principal has open at the servers.
func (s *sandboxServers) cutPrincipal(principal string) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.by))
	s.mu.Unlock()
	for _, srv := range all {
		srv.Cut(principal)
	}
}

// closeServer closes the server of a sandbox that has ended, if there is one.
func (s *sandboxServers) closeServer(id string) {
	s.mu.Lock()
	srv := s.by[id]
	if srv != nil && s.d.sandboxes.own.HasSandbox(id) { // of another principal
		srv = nil
	}
	if srv != nil {
		delete(s.by, id)
	}
	s.mu.Unlock()
	if srv != nil {
		s.reportClose(id, srv)
	}
}

// reportClose closes a server, and logs a failure.
func (s *sandboxServers) reportClose(id string, srv *mcpserver.Server) {
	if err := srv.Close(); err != nil {
		s.d.log.Warn("MCP server of a sandbox not closed", "sandbox", id, "error", err)
	}
}

// closeAll closes all servers.
func (s *sandboxServers) closeAll() error {
	s.mu.Lock()
	s.closed = true
	all := s.by
	s.by = nil
	s.mu.Unlock()
	var errs []error
	for _, srv := range all {
		errs = append(errs, srv.Close())
	}
	s.closing.Wait()
	return errors.Join(errs...)
}

// A sandboxDoor passes the calls of a sandbox's MCP server to the gateway: with the full name of
// the tool, and with the sandbox as an argument.
type sandboxDoor struct {
	door tool.Caller
	id   string
}

// callSandbox calls a tool of the sandbox.
func (s sandboxDoor) callSandbox(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	name := strings.TrimPrefix(c.Path, tool.Own+".")
	known := false
	for _, t := range owned.ToolsOfOne() {
		known = known || t.Name == name
	}
	if !known {
		return nil, tool.NotSent(tool.Errorf(tool.NotFound, "a sandbox has no tool %s", tool.VisibleLine(name)))
	}
	args := map[string]json.RawMessage{}
	if len(c.Arguments) > 0 {
		if err := json.Unmarshal(c.Arguments, &args); err != nil {
			return nil, tool.NotSent(tool.Errorf(tool.Invalid, "the arguments are invalid: %w", err))
		}
	}
	if _, ok := args["sandbox"]; ok {
		return nil, tool.NotSent(tool.Errorf(tool.Invalid, "these tools have no argument sandbox"))
	}
	args["sandbox"] = json.RawMessage(`"` + s.id + `"`)
	raw, err := tool.Marshal(args)
	if err != nil {
		return nil, err
	}
	full := *c
	full.Path, full.Arguments = tool.Own+"."+tool.SandboxPrefix+name, raw
	return s.door.Call(ctx, &full)
}

// A sandboxFilter shows the tools of a sandbox's MCP server that policy shows.
type sandboxFilter struct {
	policies *policies
	d        *Daemon
}

// ShowsTool implements mcpserver.Filter.
func (f sandboxFilter) ShowsTool(ctx context.Context, p tool.Principal, t *tool.Tool) bool {
	e := f.d.catalog.View().Entry(tool.Own, tool.SandboxPrefix+t.Name)
	return e != nil && f.policies.ShowsTool(ctx, p, e.Tool)
}
