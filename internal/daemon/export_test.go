package daemon

import (
	"slices"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/config"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// AddDriver adds a kind of sandbox to those of the table.
func (c *Config) AddDriver(name string, tier tool.Tier, create func() (sandbox.Driver, error)) {
	c.drivers = append(slices.Clone(drivers), driver{name, tier, func(config.Sandbox, engine) (closingDriver, error) {
		d, err := create()
		if err != nil {
			return nil, err
		}
		return d.(closingDriver), nil
	}})
}

// SetClock sets the clock of executions and sessions.
func (c *Config) SetClock(clock *wallclock.Clock) { c.clock = clock }
