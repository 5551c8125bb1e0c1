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
// through to see. Failures of one principal's calls keep only that principal's away; those of others must fail as often before
// they are refused. It is not safe for concurrent use.
type breaker struct {
	first       string // principal of the first of the failures in a row
	own, others streak // of its calls; of everybody else's
	last        string
}

// A streak is failures in a row.
type streak struct {
	failures int
	until    time.Time // calls are refused before; zero when closed
	pause    time.Duration
	trying   bool // a call was let through to see
}

// of returns the streak that decides on calls of a principal.
func (b *breaker) of(principal string) *streak {
	if principal == b.first && b.others.failures < breakAfter {
		return &b.own
	}
	return &b.others
}

// allow says whether a principal's call may be made now; if not, when to ask again.
func (b *breaker) allow(now time.Time, principal string) (ok bool, wait time.Duration) {
	s := b.of(principal)
	switch {
	case s.until.IsZero():
		return true, 0
	case now.Before(s.until):
		return false, s.until.Sub(now)
	case s.trying:
		return false, time.Second
	}
	s.trying = true
	return true, 0
}

// succeeded notes that a call got through. It says whether that changed anything.
func (b *breaker) succeeded() bool {
	changed := b.bad()
	*b = breaker{}
	return changed
}

// failed notes that a principal's call did not get through. It says whether the breaker opened, which it does for first and then ever
// longer.
func (b *breaker) failed(now time.Time, principal, why string, first time.Duration) bool {
	if b.own.failures == 0 && b.others.failures == 0 {
		b.first = principal
	}
	s := b.of(principal)
	s.failures++
	s.trying = false
	b.last = why
	if s.failures < breakAfter {
		return false
	}
	s.pause = min(max(2*s.pause, first), breakLonger)
	s.until = now.Add(s.pause)
	return true
}

// undecided notes that a call ended without telling anything of the connection.
func (b *breaker) undecided() { b.own.trying, b.others.trying = false, false }

// bad says whether calls fail often.
func (b *breaker) bad() bool { return b.own.failures >= breakAfter || b.others.failures >= breakAfter }

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
