package daemon

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/egress"
	"github.com/biplane-dev/biplane/internal/exec/hosted"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/traffic"
	"github.com/biplane-dev/biplane/internal/tool"
	"github.com/biplane-dev/biplane/internal/upstream/mcp"
)

// hostedFolder is the folder with the files of servers in sandboxes, in the data folder.
const hostedFolder = "servers"

// temporaryFolder is the folder of the files that end with their server, in hostedFolder.
const temporaryFolder = "temporary"

// A hosting runs MCP servers in sandboxes.
type hosting struct {
	driver sandbox.MachineDriver // nil: none can be created, for the reason in unable
	unable error
	folder string
	cfg    config.Network
	memory *hosted.Memory
	log    *slog.Logger

	mu   sync.Mutex
	used map[string]int // servers with files that run, by the names of their folders

	// set once the gateway exists, before servers start
	hosts traffic.Hosts
	door  tool.Caller
}

// newHosting returns the host of MCP servers in sandboxes.
func newHosting(d *Daemon) *hosting {
	h := &hosting{folder: filepath.Join(d.cfg.DataDir, hostedFolder), cfg: d.cfg.Settings.Network,
		memory: hosted.NewMemory(d.cfg.Settings.Sandbox.Own, nil), used: map[string]int{}, log: d.log}
	h.driver, h.unable = d.sandboxes.findMachineDriver()
	if err := hosted.RemoveLeft(filepath.Join(h.folder, temporaryFolder)); err != nil {
		d.log.Warn("files of servers that have ended not removed", "error", err)
	}
	return h
}

// A launcher starts the server of one upstream. It is an mcp.Launcher.
type launcher struct {
	upstreams *upstreams
	server    *config.Server
	client    *egress.Client // nil: the server has no network
}

// newLauncher returns what starts a server in a sandbox; nil: it is a child process.
func (u *upstreams) newLauncher(c *config.Server) mcp.Launcher {
	if c.Sandbox == nil {
		return nil
	}
	l := &launcher{upstreams: u, server: c}
	if h := u.hosting; len(c.Sandbox.Network) > 0 {
		l.client = egress.New(egress.Config{Private: h.cfg.Private, Version: u.version,
			Authorities: h.cfg.Authorities, Inserted: c.Sandbox.Secrets, Secrets: u.secrets})
	}
	return l
}

// LaunchServer implements mcp.Launcher.
func (l *launcher) LaunchServer(ctx context.Context) (mcp.Launched, error) {
	h, c := l.upstreams.hosting, l.server
	if h.driver == nil {
		return nil, tool.Errorf(tool.Unavailable, "sandboxes can't be created here: %w", h.unable)
	}
	if missing := h.driver.ListMissing(); len(missing) > 0 {
		l.upstreams.log.Warn("this host lacks protections for the sandbox of a server", "upstream", c.Name, "missing",
			missing)
	}
	b := c.Sandbox
	cfg := hosted.Config{Name: c.Name, Driver: h.driver, Command: append([]string{c.Command}, c.Args...),
		Env: c.ListVariables(), Dir: c.WorkFolder(), Image: b.Image, Mounts: b.Mounts, Log: l.upstreams.log,
		Parent: filepath.Join(h.folder, temporaryFolder), Memory: h.memory,
		Limits: hosted.Limits{Memory: b.Memory, Processes: b.Processes, Disk: b.Disk, Standby: b.Standby}}
	name := ""
	if !c.Personal { // otherwise each principal's server has files of its own, which end with it
		name = serverFolder(c.Name)
		cfg.Folder = filepath.Join(h.folder, name)
	}
	if l.client != nil {
		cfg.Gate = &hosted.Gate{Hosts: h.hosts, Door: h.door, Client: l.client, Reach: b.Network,
			Grantor: c.NameGrantor(), Network: newSandboxNetwork(h.cfg, b.Secrets, l.upstreams.log)}
	}
	if err := h.beginUse(name, c.Name); err != nil {
		return nil, err
	}
	cfg.Files = serverFiles{h, name}
	s, err := hosted.NewHost(cfg).StartServer(ctx)
	if err != nil {
		h.endUse(name)
		return nil, err
	}
	return s, nil
}

// describeSandbox describes the sandbox that an upstream runs in; nil: none.
func (u *upstreams) describeSandbox(s *source) *api.ServerSandbox {
	c, ok := s.entry.(config.Server)
	if !ok || c.Sandbox == nil {
		return nil
	}
	out := &api.ServerSandbox{Tier: tool.Process.String(), Image: c.Sandbox.Image,
		Network: slices.Clone(c.Sandbox.Network)}
	if u.hosting.driver != nil {
		out.Missing = u.hosting.driver.ListMissing()
	}
	return out
}
