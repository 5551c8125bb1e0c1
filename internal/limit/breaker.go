package limit

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// What a Breaker takes for a failure, and how it acts on it.
const (
	// failures in a row are as many as an upstream may have before calls are kept away from it.
	failures = 8
	// firstRest and longestRest are for how long they are, at first and, doubling, at most.
	firstRest   = 2 * time.Second
	longestRest = time.Minute
	// repeats is how often one call may fail in the same way before it is not made again for
	// repeatRest.
	repeats    = 10
	repeatRest = time.Minute
	// remembered is how many failing calls a Breaker keeps in mind.
	remembered = 4096
)

// A Breaker keeps calls away from what fails: from an upstream that has not answered for a while,
// except for one call now and then that tries whether it is back; and from a tool that gave the
// same error to the same call many times in a row, which a program in a loop would go on asking. An
// error that the upstream answered is an answer.
//
// Calls of one principal that are not answered keep only that principal's calls away: they may be
// what the upstream can't answer. Calls of others must fail as often, with no answer to anybody in
// between, before they are refused too. It is safe for concurrent use.
type Breaker struct {
	now func() time.Time

	mu        sync.Mutex
	upstreams map[string]*circuit
	calls     map[[sha256.Size]byte]*loop
}

// A circuit is how an upstream has done since it answered last.
type circuit struct {
	first       string // principal of the first call that it did not answer
	own, others streak // calls of that principal; of everybody else
}

// A streak is calls in a row that were not answered.
type streak struct {
	failed int
	rest   time.Duration
	until  time.Time // no call is sent before, except one
	trying bool
	last   string // what the last one failed with
}

// of returns the streak that decides on calls of a principal.
func (u *circuit) of(principal string) *streak {
	if principal == u.first && u.others.failed < failures {
		return &u.own
	}
	return &u.others
}

// A loop is how one call of a principal has done.
type loop struct {
	failed int
	error  string
	at     time.Time
}

// NewBreaker makes a Breaker. now may be nil.
func NewBreaker(now func() time.Time) *Breaker {
	if now == nil {
		now = time.Now
	}
	return &Breaker{now: now, upstreams: map[string]*circuit{}, calls: map[[sha256.Size]byte]*loop{}}
}

// Allow reports why a call is not to be made; else done is told how it ended.
func (b *Breaker) Allow(c *tool.Call) (done func(*tool.Result, error), err error) {
	id := identity(c)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if l := b.calls[id]; l != nil && l.failed >= repeats {
		if wait := l.at.Add(repeatRest).Sub(now); wait > 0 {
			return nil, &tool.Error{
				Kind: tool.Limit, Unsent: true, RetryAfter: wait,
				Msg: fmt.Sprintf("%s failed %d times in a row with these arguments (%s): change the call, or try again in %s", c.Tool.Path(), l.failed, l.error, span(wait)),
			}
		}
		l.failed = repeats - 1 // once more
	}
	var trial *streak
	if u := b.upstreams[c.Tool.Upstream]; u != nil {
		if s := u.of(c.Principal.ID); s.failed >= failures {
			if wait := s.until.Sub(now); wait > 0 || s.trying {
				return nil, s.refused(c, max(wait, time.Second))
			}
			s.trying, trial = true, s
		}
	}
	return func(r *tool.Result, err error) { b.done(c, id, trial, r, err) }, nil
}

// refused is the error of a call that is not sent.
func (s *streak) refused(c *tool.Call, wait time.Duration) error {
	return &tool.Error{
		Kind: tool.Unavailable, Unsent: true, RetryAfter: wait,
		Msg: fmt.Sprintf("%s was not sent: upstream %s did not answer %d calls in a row, and is left alone for now; try again in %s (the last of those calls: %s)",
			c.Tool.Path(), c.Tool.Upstream, s.failed, span(wait), s.last),
	}
}

// done notes how a call ended.
func (b *Breaker) done(c *tool.Call, id [sha256.Size]byte, trial *streak, r *tool.Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial != nil {
		trial.trying = false
	}
	e := tool.AsError(err)
	if e != nil && (e.Kind == tool.Canceled || e.Unsent) || e == nil && r == nil { // the upstream had no say in it
		return
	}
	now := b.now()
	b.note(id, reason(r, e), now)
	if e == nil || e.Answered || e.Kind != tool.Unavailable && e.Kind != tool.Timeout {
		delete(b.upstreams, c.Tool.Upstream) // it answers
		return
	}
	u := b.upstreams[c.Tool.Upstream]
	if u == nil {
		u = &circuit{first: c.Principal.ID, own: streak{rest: firstRest}, others: streak{rest: firstRest}}
		b.upstreams[c.Tool.Upstream] = u
	}
	s := u.of(c.Principal.ID)
	s.last, _, _ = strings.Cut(e.Msg, "; whether ") // that was about the last call, not about this one
	if trial == s {
		s.rest = min(2*s.rest, longestRest)
	}
	if s.failed++; s.failed >= failures {
		s.until = now.Add(s.rest)
	}
}

// note notes a failure of a call, or that it went well: no reason. b.mu is held.
func (b *Breaker) note(id [sha256.Size]byte, reason string, now time.Time) {
	l := b.calls[id]
	switch {
	case reason == "":
		delete(b.calls, id)
		return
	case l == nil:
		if len(b.calls) >= remembered {
			for k, l := range b.calls { // the oldest are not worth an order of their own
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

// reason is why a call failed; empty when it did not, or when its failure says nothing of the call.
func reason(r *tool.Result, e *tool.Error) string {
	text := ""
	switch {
	case e != nil && (e.Kind == tool.Limit || e.Kind == tool.Denied || e.Kind == tool.Unavailable || e.Kind == tool.Timeout):
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

// identity is that of a call, whoever's execution makes it: who, what, with which arguments.
func identity(c *tool.Call) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %s", c.Principal.ID, c.Tool.Path(), c.Arguments))
}
