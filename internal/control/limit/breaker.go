package limit

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
	"github.com/biplane-dev/biplane/internal/tool"
)

// Parameters of a Breaker.
const (
	// failures is how many calls in a row an upstream may fail before calls to it are blocked.
	failures = 8
	// firstRest and longestRest are the initial and the maximum time for which they are blocked; it
	// doubles each time.
	firstRest   = 2 * time.Second
	longestRest = time.Minute
	// repeats is how often a call may fail in the same way before it is blocked for repeatRest.
	repeats    = 10
	repeatRest = time.Minute
	// remembered is the maximum number of failing calls, and of failing network hosts, that a
	// Breaker remembers.
	remembered = 4096
)

// A Breaker blocks calls that are likely to fail. It blocks calls to an upstream that has not
// answered for a while, except for an occasional trial call. It also blocks a call that has
// received the same error from the tool many times in a row, which a program in a loop would
// repeat. An error returned by the upstream counts as an answer.
//
// Unanswered calls of one principal only block that principal's calls, since these calls may be the
// cause. Calls of others are only blocked after as many failures of their own, without any answer
// in between. Each network host counts separately. It is safe for concurrent use.
type Breaker struct {
	clock  *wallclock.Clock
	breaks BreakRecorder // nil: none

	mu        sync.Mutex
	upstreams map[string]*circuit // by circuitKey
	calls     map[[sha256.Size]byte]*loop
}

// A circuit is the state of an upstream since its last answer.
type circuit struct {
	first       string // principal of the first unanswered call
	own, others streak // calls of that principal; of all others
}

// A streak is a series of unanswered calls.
type streak struct {
	failed int
	rest   time.Duration
	until  time.Time // no call is sent before, except a trial
	trying bool
}

// streakOf returns the streak that decides whether a principal's calls are allowed.
func (u *circuit) streakOf(principal string) *streak {
	if principal == u.first && u.others.failed < failures {
		return &u.own
	}
	return &u.others
}

// A loop is the failure history of one call of a principal.
type loop struct {
	failed int
	error  string // not shown: no policy has removed fields from it
	at     time.Time
}

// NewBreaker returns a new Breaker. A nil clock is the system's.
func NewBreaker(clock *wallclock.Clock) *Breaker {
	return &Breaker{clock: clock, upstreams: map[string]*circuit{}, calls: map[[sha256.Size]byte]*loop{}}
}

// Allow returns an error if the call must not be made. Otherwise the caller must pass the call's
// result to done. host is the network host that the call connects to, or empty.
func (b *Breaker) Allow(c *tool.Call, host string) (done func(*tool.Result, error), err error) {
	id := callIdentity(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if l := b.calls[id]; l != nil && l.failed >= repeats {
		if wait := l.at.Add(repeatRest).Sub(now); wait > 0 {
			return nil, &tool.Error{
				Kind: tool.Limit, Unsent: true, RetryAfter: wait,
				Msg: fmt.Sprintf(
					"%s failed %d times in a row with these arguments, in the same way: change the call, or "+
						"retry in %s", c.Tool.Path(), l.failed, formatSpan(wait)),
			}
		}
		l.failed = repeats - 1 // allow another attempt
	}
	var trial *streak
	key := circuitKey(c, host)
	if u := b.upstreams[key]; u != nil {
		if s := u.streakOf(c.Principal.ID); s.failed >= failures {
			if wait := s.until.Sub(now); wait > 0 || s.trying {
				return nil, s.refusedError(c, host, max(wait, time.Second))
			}
			s.trying, trial = true, s
		}
	}
	a := attempt{c, host, key, id, trial}
	return func(r *tool.Result, err error) { b.recordResult(a, r, err) }, nil
}

// An attempt is a call that was allowed.
type attempt struct {
	call  *tool.Call
	host  string
	key   string // of its circuit
	id    [sha256.Size]byte
	trial *streak // that it ends if it is answered; nil: it is no trial
}

// circuitKey returns the key of a call's circuit. An upstream with personal credentials has one for
// each principal: the failures of others, whose credentials may be invalid, don't count.
func circuitKey(c *tool.Call, host string) string {
	switch {
	case host != "":
		return hostPrefix + host
	case c.Tool.Personal:
		return c.Tool.Upstream + "\x00" + c.Principal.ID
	}
	return c.Tool.Upstream
}

// hostPrefix begins the keys of network hosts. No upstream's name begins with it.
const hostPrefix = "\x00"

// openCircuit adds the circuit of an attempt that was not answered. Programs choose the hosts, so
// their number is limited. b.mu is held.
func (b *Breaker) openCircuit(a attempt) *circuit {
	if a.host != "" && len(b.upstreams) >= remembered {
		for key := range b.upstreams { // in any order: tracking the oldest is not worth it
			if strings.HasPrefix(key, hostPrefix) {
				delete(b.upstreams, key)
				break
			}
		}
	}
	u := &circuit{first: a.call.Principal.ID, own: streak{rest: firstRest}, others: streak{rest: firstRest}}
	b.upstreams[a.key] = u
	return u
}

// refusedError returns the error of a call that is not sent. It doesn't quote the error of an
// earlier one: that may be another principal's, and no policy has removed fields from it.
func (s *streak) refusedError(c *tool.Call, host string, wait time.Duration) error {
	what := "upstream " + c.Tool.Upstream
	if host != "" {
		what = "the host " + host
	}
	return &tool.Error{
		Kind: tool.Unavailable, Unsent: true, RetryAfter: wait,
		Msg: fmt.Sprintf("%s was not sent: %s failed to answer %d calls in a row, so calls to it are paused; try "+
			"again in %s", c.Tool.Path(), what, s.failed, formatSpan(wait)),
	}
}

// recordResult records the result of a call.
func (b *Breaker) recordResult(a attempt, r *tool.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.trial != nil {
		a.trial.trying = false
	}
	e := tool.AsError(err)
	if e != nil && (e.Kind == tool.Canceled || e.Unsent) || e == nil && r == nil { // unrelated to the upstream
		return
	}
	now := b.clock.Now()
	b.noteFailure(a.id, failureReason(r, e), now)
	if e == nil || e.Answered || e.Kind != tool.Unavailable && e.Kind != tool.Timeout {
		delete(b.upstreams, a.key) // the upstream answers
		return
	}
	u := b.upstreams[a.key]
	if u == nil {
		u = b.openCircuit(a)
	}
	s := u.streakOf(a.call.Principal.ID)
	if a.trial == s {
		s.rest = min(2*s.rest, longestRest)
	}
	if s.failed++; s.failed >= failures {
		s.until = now.Add(s.rest)
	}
	if s.failed == failures && b.breaks != nil && a.host == "" { // no one here keeps a host running
		b.breaks.NoteBreak(a.call.Tool.Upstream)
	}
}

// noteFailure records a failure of a call, or its success if reason is empty. b.mu is held.
func (b *Breaker) noteFailure(id [sha256.Size]byte, reason string, now time.Time) {
	l := b.calls[id]
	switch {
	case reason == "":
		delete(b.calls, id)
		return
	case l == nil:
		if len(b.calls) >= remembered {
			for k, l := range b.calls { // in any order: tracking the oldest is not worth it
				if delete(b.calls, k); l.at.Before(now.Add(-repeatRest)) || len(b.calls) < remembered/2 {
					break
				}
			}
		}
		l = &loop{}
		b.calls[id] = l
	case l.error != reason || now.Sub(l.at) > 10*repeatRest:
		l.failed = 0
	}
	l.failed++
	l.error, l.at = reason, now
}

// failureReason returns why a call failed. It is empty if the call succeeded, or if the failure is
// unrelated to the call.
func failureReason(r *tool.Result, e *tool.Error) string {
	text := ""
	switch {
	case e != nil && (e.Kind == tool.Limit || e.Kind == tool.Denied || e.Kind == tool.Unavailable ||
		e.Kind == tool.Timeout):
		return ""
	case e != nil:
		text = e.Msg
	case r.IsError:
		text = "the tool reports an error"
		if len(r.Content) > 0 {
			text = string(r.Content[0])
		}
	default:
		return ""
	}
	if len(text) > 120 {
		text = strings.ToValidUTF8(text[:120], "") + "…"
	}
	return text
}

// callIdentity returns a hash of a call's principal, tool and arguments, the same for all
// executions.
func callIdentity(c *tool.Call) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %s", c.Principal.ID, c.Tool.Path(), c.Arguments))
}
