package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/engineproc"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
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

// An engine configures how this program becomes a process around the embedded engine.
type engine struct {
	command []string // its arguments; if empty, the engine runs in this process and its Missing says so
	log     *slog.Logger
}

// drivers lists the kinds of sandboxes, one per line.
var drivers = []driver{
	{"wasm", tool.WASM, embedded},
}

// embedded returns the driver of the embedded engine, which runs in separate processes unless the
// configuration turns that off.
func embedded(s config.Sandbox, e engine) (closingDriver, error) {
	if s.Process == config.ProcessOff || len(e.command) == 0 {
		engineproc.Ahead().Close()
		if s.Process == config.ProcessStrict {
			return nil, errors.New("sandbox.process is strict, and this program can't start processes around its engine")
		}
		return wasm.New(wasm.Config{})
	}
	return child.New(child.Config{Command: e.command, Begun: engineproc.Ahead(), Strict: s.Process == config.ProcessStrict, Log: e.log})
}

// EngineCommand is the argument that makes this program a process around the embedded engine before
// its main starts.
const EngineCommand = engineproc.Command

// Engine runs that process in a program that uses another command for it (Config.Engine). args are
// the arguments after the command. It returns when the parent process is gone.
func Engine(args []string) error { return engineproc.Main(args) }

// newDriver returns the driver of the weakest tier that is at least the required one.
func newDriver(s config.Sandbox, e engine) (made closingDriver, kind string, err error) {
	for _, d := range drivers {
		if d.tier >= s.Tier {
			made, err := d.make(s, e)
			if err != nil {
				return nil, "", tool.Errorf(tool.Unavailable, "sandbox %s: %w", d.name, err)
			}
			return made, d.name, nil
		}
	}
	return nil, "", tool.Errorf(tool.Unavailable, "no sandbox here is of tier %s", s.Tier)
}

// Sandboxes returns what each kind of sandbox can do on this host.
func (d *Daemon) Sandboxes(ctx context.Context) []api.Capability {
	out := make([]api.Capability, 0, len(drivers))
	for _, kind := range drivers {
		c := api.Capability{Driver: kind.name, Tier: kind.tier.String(), Reason: "not in use", Runtimes: []string{}}
		if kind.name == d.kind {
			c = capability(ctx, kind, d.driver)
		}
		out = append(out, c)
	}
	return out
}

// capability returns what a kind of sandbox can do.
func capability(ctx context.Context, kind driver, made sandbox.Driver) api.Capability {
	caps, err := made.Probe(ctx)
	if err != nil {
		return api.Capability{Driver: kind.name, Tier: kind.tier.String(), Reason: err.Error(), Runtimes: []string{}}
	}
	return api.Capability{Driver: kind.name, Tier: caps.Tier.String(), Engine: caps.Engine, Runtimes: caps.Runtimes, Details: caps.Details, Missing: caps.Missing}
}
