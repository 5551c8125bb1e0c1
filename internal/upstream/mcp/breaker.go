package mcp

import (
	"math/rand/v2"
	"time"
)

// Parameters of the breaker.
const (
	breakAfter  = 5 // consecutive failures of calls
	breakLonger = time.Minute
)

// A breaker refuses calls for a while after many consecutive calls failed because of the
// connection. It then lets one call through as a probe. Failures of one principal's calls block
// only that principal. The calls of others must fail as often before they are refused. It is not
// safe for concurrent use.
type breaker struct {
	first       string // principal of the first of the consecutive failures
	own, others streak // of the calls of first; of everyone else's
	last        string
}

// A streak is a series of consecutive failures.
type streak struct {
	failures int
	until    time.Time // calls are refused until then; zero when closed
	pause    time.Duration
	trying   bool // a call was let through as a probe
}

// streakOf returns the streak that applies to calls of a principal.
func (b *breaker) streakOf(principal string) *streak {
	if principal == b.first && b.others.failures < breakAfter {
		return &b.own
	}
	return &b.others
}

// allowCall reports whether a principal may make a call now. If not, wait is the time until the
// next try.
func (b *breaker) allowCall(now time.Time, principal string) (ok bool, wait time.Duration) {
	s := b.streakOf(principal)
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

// recordSuccess records a successful call. It reports whether the breaker was open.
func (b *breaker) recordSuccess() bool {
	changed := b.isFailing()
	*b = breaker{}
	return changed
}

// recordFailure records a failed call of a principal. It reports whether the breaker opened. It
// opens for the duration first, and then for ever longer ones.
func (b *breaker) recordFailure(now time.Time, principal, why string, first time.Duration) bool {
	if b.own.failures == 0 && b.others.failures == 0 {
		b.first = principal
	}
	s := b.streakOf(principal)
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

// recordNoVerdict records that a call ended without telling anything about the connection.
func (b *breaker) recordNoVerdict() { b.own.trying, b.others.trying = false, false }

// isFailing reports whether calls fail often.
func (b *breaker) isFailing() bool {
	return b.own.failures >= breakAfter || b.others.failures >= breakAfter
}

// Parameters of reconnecting.
const (
	quickRetry = 100 * time.Millisecond
	firstRetry = time.Second
	lastRetry  = time.Minute
	signInWait = 5 * time.Minute
	longEnough = 30 * time.Second // a connection that lasted this long counts as good
)

// retryDelay returns the delay before attempt n, counted from 1 since the last good connection. It
// is short for the first attempt and then grows, with jitter.
func retryDelay(n int) time.Duration {
	d := quickRetry
	if n > 1 {
		d = min(firstRetry<<min(n-2, 10), lastRetry)
	}
	return d - d/4 + rand.N(d/2)
}
