package daemon

import (
	"context"
	"slices"
	"time"

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

// NoticeExpiries notifies people of what expires soon after now.
func (d *Daemon) NoticeExpiries(ctx context.Context, now time.Time) {
	people{d}.noticeExpiries(ctx, now)
}

// NewExpiries returns an empty memory of expiries.
func NewExpiries() *expiries { return newExpiries() }

// LostSignIn is lostSignIn.
func (e *expiries) LostSignIn(upstream, state string) bool { return e.lostSignIn(upstream, state) }
