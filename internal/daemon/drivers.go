package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/engineproc"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A driver is a kind of sandbox with the constructor of its sandbox.Driver.
type driver struct {
	name string
	tier tool.Tier
	make func(config.Sandbox, engine) (closingDriver, error)
}

type closingDriver interface {
	sandbox.Driver
	io.Closer
}

// An engine configures how this program runs as the process around the embedded engine, and which
// images other sandboxes use.
type engine struct {
	command []string // its arguments; if empty, the engine runs in this process and its Missing says so
	images  *image.Store
	log     *slog.Logger
	network sandbox.Network // of sandboxes that are processes; nil: they have none
	// libraries is a folder for compiled libraries of programs' languages; empty: none are kept
	libraries string
}

// drivers lists the kinds of sandboxes, cheapest first. A program runs in the first that its policy
// allows and that runs its language.
var drivers = []driver{
	{"wasm", tool.WASM, newEmbeddedDriver},
	{"process", tool.Process, newProcessDriver},
}

// newEmbeddedDriver returns the driver of the embedded engine, which runs in separate processes
// unless the configuration turns that off.
func newEmbeddedDriver(s config.Sandbox, e engine) (closingDriver, error) {
	if s.Process == config.ProcessOff || len(e.command) == 0 {
		engineproc.Ahead().Close()
		if s.Process == config.ProcessStrict {
			return nil, errors.New(
				"sandbox.process is strict, and this program can't start processes around its engine")
		}
		return wasm.New(wasm.Config{})
	}
	return child.New(child.Config{Command: e.command, Begun: engineproc.Ahead(),
		Strict: s.Process == config.ProcessStrict, Log: e.log})
}

// warmSandboxes is the maximum number of process sandboxes that are started ahead. That begins with
// the second program in ten minutes.
const warmSandboxes = 2

// newProcessDriver returns the driver of process sandboxes. It starts nothing until a program needs
// one.
func newProcessDriver(s config.Sandbox, e engine) (closingDriver, error) {
	if s.NoHostPackages {
		return nil, errors.New("sandbox.host_packages is false in the configuration")
	}
	return process.New(process.Config{Warm: warmSandboxes, NodeModules: s.NodeModules, Images: e.images, Log: e.log,
		Network: e.network, Libraries: e.libraries})
}

// EngineCommand is the argument that makes this program a process around the embedded engine before
// its main starts.
const EngineCommand = engineproc.Command

// Engine runs that process in a program that uses another command for it (Config.Engine). args are
// the arguments after the command. It returns when the parent process is gone.
func Engine(args []string) error { return engineproc.Main(args) }

// StrongestTier returns the strongest tier of the kinds of sandboxes.
func StrongestTier() tool.Tier {
	return slices.MaxFunc(drivers, func(a, b driver) int { return cmp.Compare(a.tier, b.tier) }).tier
}

// sandboxes holds the drivers of a process.
type sandboxes struct {
	kinds   []sandbox.Kind // one per row of the table
	open    []io.Closer
	own     *owned.Sandboxes // of principals
	servers *sandboxServers  // their MCP servers
	// previews opens their ports to browsers; nil: they are off.
	previews *previews
}

// newSandboxes creates the drivers of a table, without those of a weaker tier than the
// configuration requires. The other kinds say why they have no driver.
func newSandboxes(table []driver, s config.Sandbox, e engine) (*sandboxes, error) {
	all := &sandboxes{}
	var errs []error
	for _, d := range table {
		k := sandbox.Kind{Name: d.name, Tier: d.tier}
		if d.tier < s.Tier {
			k.Err = fmt.Errorf("sandbox.tier in the configuration requires %s or stronger", s.Tier)
		} else if made, err := d.make(s, e); err != nil {
			k.Err, errs = err, append(errs, fmt.Errorf("sandbox %s: %w", d.name, err))
		} else {
			k.Driver, all.open = made, append(all.open, made)
		}
		all.kinds = append(all.kinds, k)
	}
	switch {
	case len(all.open) > 0:
		return all, nil
	case len(errs) > 0:
		return nil, tool.Errorf(tool.Unavailable, "%w", errors.Join(errs...))
	}
	return nil, tool.Errorf(tool.Unavailable, "no sandbox here is of tier %s or stronger", s.Tier)
}

// Close closes the drivers.
func (s *sandboxes) Close() error {
	var errs []error
	if s.servers != nil {
		errs = append(errs, s.servers.closeAll())
	}
	if s.own != nil {
		errs = append(errs, s.own.CloseAll())
	}
	for _, d := range s.open {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// Sandboxes describes each kind of sandbox on this host.
func (d *Daemon) Sandboxes(ctx context.Context) []api.Capability {
	out := make([]api.Capability, 0, len(d.sandboxes.kinds))
	for _, k := range d.sandboxes.kinds {
		out = append(out, describeKind(ctx, k))
	}
	return out
}

// describeKind describes a kind of sandbox.
func describeKind(ctx context.Context, k sandbox.Kind) api.Capability {
	var caps sandbox.Capabilities
	err := k.Err
	if k.Driver != nil {
		caps, err = k.Driver.Probe(ctx)
	}
	if err != nil {
		return api.Capability{Driver: k.Name, Tier: k.Tier.String(), Reason: err.Error(), Runtimes: []string{}}
	}
	return api.Capability{Driver: k.Name, Tier: caps.Tier.String(), Engine: caps.Engine, Runtimes: caps.Runtimes,
		Details: caps.Details, Missing: caps.Missing, Unavailable: caps.Unavailable}
}
