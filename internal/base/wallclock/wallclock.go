// Package wallclock returns the current time: the system's, or one that a test sets.
package wallclock

import (
	"sync"
	"time"
)

// A Clock returns the current time. The nil Clock is the system's clock, and so is the zero Clock
// until it is advanced. It is safe for concurrent use.
type Clock struct {
	mu    sync.Mutex
	fixed time.Time     // the time of a clock that stands still; zero: it follows the system's clock
	ahead time.Duration // how far the clock has been advanced
	step  time.Duration // how far each reading advances it
}

// At returns a clock that stands still at t.
func At(t time.Time) *Clock { return &Clock{fixed: t} }

// Stepping returns a clock that stands still at t, but for each reading, which first advances it by
// step.
func Stepping(t time.Time, step time.Duration) *Clock { return &Clock{fixed: t, step: step} }

// Now returns the current time.
func (c *Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += c.step
	now := c.fixed
	if now.IsZero() {
		now = time.Now()
	}
	return now.Add(c.ahead)
}

// Set stops the clock at t.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed, c.ahead = t, 0
}

// Advance moves the clock forward by d, or back if d is negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}
