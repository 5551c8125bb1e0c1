package daemon

import (
	"context"
	"io"

	"github.com/biplane-dev/biplane/api"
	"github.com/biplane-dev/biplane/internal/sandbox"
	"github.com/biplane-dev/biplane/internal/sandbox/wasm"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A driver is a kind of sandbox, and how to make its driver.
type driver struct {
	name string
	tier tool.Tier
	make func(SandboxSettings) (closingDriver, error)
}

type closingDriver interface {
	sandbox.Driver
	io.Closer
}

// The kinds of sandboxes: one line each.
var drivers = []driver{
	{"wasm", tool.WASM, func(SandboxSettings) (closingDriver, error) { return wasm.New(wasm.Config{}) }},
}

// newDriver makes the driver of the weakest tier that is at least the one asked for.
func newDriver(s SandboxSettings) (closingDriver, error) {
	for _, d := range drivers {
		if d.tier >= s.Tier {
			made, err := d.make(s)
			if err != nil {
				return nil, tool.Errorf(tool.Unavailable, "sandbox %s: %w", d.name, err)
			}
			return made, nil
		}
	}
	return nil, tool.Errorf(tool.Unavailable, "no sandbox here is of tier %s", s.Tier)
}

// Sandboxes says what each kind of sandbox can do on this host.
func Sandboxes(ctx context.Context) []api.Capability {
	out := make([]api.Capability, 0, len(drivers))
	for _, d := range drivers {
		out = append(out, capability(ctx, d))
	}
	return out
}

func capability(ctx context.Context, d driver) api.Capability {
	c := api.Capability{Driver: d.name, Tier: d.tier.String(), Runtimes: []string{}}
	made, err := d.make(SandboxSettings{})
	if err != nil {
		c.Reason = tool.AsError(err).Msg
		return c
	}
	defer made.Close()
	caps, err := made.Probe(ctx)
	if err != nil {
		c.Reason = err.Error()
		return c
	}
	c.Tier, c.Engine, c.Runtimes, c.Details = caps.Tier.String(), caps.Engine, caps.Runtimes, caps.Details
	return c
}
