package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/engineproc"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/child"
	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A driver is a kind of sandbox, and how to make its driver.
type driver struct {
	name string
	tier tool.Tier
	make func(config.Sandbox, engine) (closingDriver, error)
}

type closingDriver interface {
	sandbox.Driver
	io.Closer
}

// An engine says how this program becomes a process around the embedded engine.
type engine struct {
	command []string // its arguments; none: it can't, and the engine runs in this process, as its Missing says
	log     *slog.Logger
}

// The kinds of sandboxes: one line each.
var drivers = []driver{
	{"wasm", tool.WASM, embedded},
}

// embedded makes the driver of the embedded engine, in processes of its own unless the
// configuration has that off.
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

// EngineCommand is the argument by which this program becomes a process around the embedded engine,
// before its main begins.
const EngineCommand = engineproc.Command

// Engine is that process, in a program whose command for it is another one (Config.Engine): args
// are what came after it. It returns when the process that began it is gone.
func Engine(args []string) error { return engineproc.Main(args) }

// newDriver makes the driver of the weakest tier that is at least the one asked for.
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

// Sandboxes says what each kind of sandbox can do on this host.
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

// capability says what a kind of sandbox can do.
func capability(ctx context.Context, kind driver, made sandbox.Driver) api.Capability {
	caps, err := made.Probe(ctx)
	if err != nil {
		return api.Capability{Driver: kind.name, Tier: kind.tier.String(), Reason: err.Error(), Runtimes: []string{}}
	}
	return api.Capability{Driver: kind.name, Tier: caps.Tier.String(), Engine: caps.Engine, Runtimes: caps.Runtimes, Details: caps.Details, Missing: caps.Missing}
}
