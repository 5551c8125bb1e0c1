package mcp

import (
	"math/rand/v2"
	"time"
)

// The breaker's numbers.
const (
	breakAfter  = 5 // failures of calls in a row
	breakLonger = time.Minute
)

// A breaker refuses calls for a while after many have failed in a row for reasons of the connection, then lets one
// through to see. It is not safe for concurrent use.
type breaker struct {
	failures int       // in a row
	until    time.Time // calls are refused before; zero when closed
	pause    time.Duration
	trying   bool // a call was let through to see
	last     string
}

// allow says whether a call may be made now; if not, when to ask again.
func (b *breaker) allow(now time.Time) (ok bool, wait time.Duration) {
	switch {
	case b.until.IsZero():
		return true, 0
	case now.Before(b.until):
		return false, b.until.Sub(now)
	case b.trying:
		return false, time.Second
	}
	b.trying = true
	return true, 0
}

// succeeded notes that a call got through. It says whether that changed anything.
func (b *breaker) succeeded() bool {
	changed := b.failures >= breakAfter
	*b = breaker{}
	return changed
}

// failed notes that a call did not get through. It says whether the breaker opened, which it does for first and then ever
// longer.
func (b *breaker) failed(now time.Time, why string, first time.Duration) bool {
	b.failures++
	b.trying = false
	b.last = why
	if b.failures < breakAfter {
		return false
	}
	b.pause = min(max(2*b.pause, first), breakLonger)
	b.until = now.Add(b.pause)
	return true
}

// undecided notes that a call ended without telling anything of the connection.
func (b *breaker) undecided() { b.trying = false }

// bad says whether calls fail often.
func (b *breaker) bad() bool { return b.failures >= breakAfter }

// The numbers of coming back.
const (
	quickRetry = 100 * time.Millisecond
	firstRetry = time.Second
	lastRetry  = time.Minute
	signInWait = 5 * time.Minute
	longEnough = 30 * time.Second // a connection that lived so long was a good one
)

// retryDelay is how long to wait before attempt n, counted from 1 since the last good connection: hardly at all for the
// first, then ever longer, never all at the same moment.
func retryDelay(n int) time.Duration {
	d := quickRetry
	if n > 1 {
		d = min(firstRetry<<min(n-2, 10), lastRetry)
	}
	return d - d/4 + rand.N(d/2)
}
