package executor

import (
	"math"
	"sync"
	"time"
)

// A clock measures the time that a program uses for itself. It is paused while a call is
// outstanding. It also has the program's own timer. It is safe for concurrent use.
type clock struct {
	mu      sync.Mutex    // guards the fields below
	limit   time.Duration // the time that the program may use
	left    time.Duration // what was left of limit at since, or when the clock was paused
	running bool
	since   time.Time
	alarm   *time.Timer // expires when left is used up; nil: the program has not started
	wake    *time.Timer // the program's own timer
	due     time.Time   // when wake expires; zero: it isn't set
	stray   *time.Timer // ends a guest that continues after its program; may be nil
}

func newClock(limit time.Duration) clock { return clock{limit: limit, left: limit} }

// refillTime makes the whole limit available again.
func (c *clock) refillTime() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = c.limit
}

// chargeTime leaves what remains of the limit after used. Something always remains.
func (c *clock) chargeTime(used time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = max(c.limit-used, 1)
}

// startTiming starts the clock. Each function is called in a separate goroutine: expire when the
// time may be used up, wake when the program's timer has expired.
func (c *clock) startTiming(expire, wake func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.since = true, time.Now()
	c.alarm = time.AfterFunc(c.left, expire)
	c.wake = time.AfterFunc(math.MaxInt64, wake)
}

// pauseTiming pauses a running clock.
func (c *clock) pauseTiming() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running {
		c.running = false
		c.left -= time.Since(c.since)
		c.alarm.Stop()
	}
}

// resumeTiming continues a clock that was started.
func (c *clock) resumeTiming() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alarm != nil {
		c.running, c.since = true, time.Now()
		c.alarm.Reset(max(c.left, 0))
	}
}

// hasExpired reports whether the time is used up. The alarm may have expired at the moment when the
// clock was paused or resumed.
func (c *clock) hasExpired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return false
	}
	if left := c.left - time.Since(c.since); left > 0 {
		c.alarm.Reset(left)
		return false
	}
	return true
}

// setTimer sets the program's timer to expire after wait. The program has a single one.
func (c *clock) setTimer(wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Now().Add(wait)
	c.wake.Reset(wait)
}

// stopTimer stops the program's timer.
func (c *clock) stopTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wake.Stop()
	c.due = time.Time{}
}

// forgetTimer records that the program's timer has expired.
func (c *clock) forgetTimer() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Time{}
}

// untilTimer returns how long the program's timer still runs. It reports false if it isn't set.
func (c *clock) untilTimer(now time.Time) (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.due.Sub(now), !c.due.IsZero()
}

// straying is how long a guest may continue after its program has sent its last message.
const straying = 50 * time.Millisecond

// limitStray calls end unless the clock is stopped within straying.
func (c *clock) limitStray(end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stray = time.AfterFunc(straying, end)
}

// stopTiming stops the clock and its timers at the end of the program.
func (c *clock) stopTiming() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range []*time.Timer{c.alarm, c.wake, c.stray} {
		if t != nil {
			t.Stop()
		}
	}
	c.running = false
}
