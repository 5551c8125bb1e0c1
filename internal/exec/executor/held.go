package executor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Calls for which policy requires a person's decision wait at the gateway like any slow call, and
// the program is suspended meanwhile. This file handles their effect on an execution: it reports
// that it waits, answers immediately, and its deadlines are paused.

// setOuter sets outer, which is called from now on when the run starts or stops waiting for people.
func (s *state) setOuter(outer func(*tool.Hold)) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	s.relay.outer = outer
	s.passHold()
}

// passHold reports a change of what the run waits for. s.relay.mu is held.
func (s *state) passHold() {
	s.mu.Lock()
	some := s.pending.anyHold()
	s.mu.Unlock()
	s.relay.passChange(some)
}

// boundTotal stores the timer that ends the execution after d.
func (s *state) boundTotal(total *time.Timer, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending.total, s.pending.ends = total, time.Now().Add(d)
}

// setHold records that the n-th call waits for a person, or, if hold is nil, that it no longer
// does.
func (s *state) setHold(n int, hold *tool.Hold) {
	var since time.Time
	s.shift(func() {
		if hold != nil {
			s.pending.addHold(n, hold, s.x.cfg.Now())
		} else {
			since = s.pending.removeHold(n)
		}
	})
	if !since.IsZero() {
		s.history.Stood(since)
	}
}

// heldPatience is how long a program must have waited only for people before it reports this and is
// suspended. Calls that it makes at about the same time are thus presented together.
const heldPatience = 100 * time.Millisecond

// heldOnly reports whether the program waits only for people: all of its outstanding calls do, or
// as many as may run concurrently, which block the others. s.mu is held.
func (s *state) heldOnly() bool {
	return s.pending.blockAll(s.table.outstanding) && !s.isLeaving()
}

// isLeaving reports whether the program has sent its last message. Calls that it didn't await are
// soon abandoned, decided or not. A plan is proposed only after that. s.mu is held.
func (s *state) isLeaving() bool {
	return s.end != nil && (!s.isPlanning() || s.plan.whole == nil)
}

// waitsForPeople is heldOnly for callers that don't hold s.mu.
func (s *state) waitsForPeople() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heldOnly()
}

// A heldCall is a call that waits for a person.
type heldCall struct {
	*tool.Hold
	tool, args string
}

// heldCalls returns the calls that currently wait for people, in order, and the number of calls
// queued behind them.
func (s *state) heldCalls() (calls []heldCall, behind int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isLeaving() || s.plan != nil && s.plan.by != nil { // the run that carries out the plan reports what it waits for
		return nil, 0
	}
	for _, n := range slices.Sorted(maps.Keys(s.pending.by)) {
		c := &s.exec.Calls[n]
		calls = append(calls, heldCall{s.pending.by[n], c.Tool, c.Args})
	}
	if n := len(calls); n == s.pending.most {
		behind = s.table.outstanding - n
	}
	return calls, behind
}

// waitingText describes the decisions that the program waits for, or returns the empty string if it
// waits for none.
func (r *run) waitingText() string {
	held, behind := r.state.heldCalls()
	if len(held) == 0 {
		return ""
	}
	r.hideArgs(held)
	whole := r.planShown()
	var calls []string
	for _, c := range held {
		if whole != "" {
			calls = append(calls, "- "+r.plan.planText(c.Hold, whole))
			continue
		}
		calls = append(calls, fmt.Sprintf("- %s %s (request %s: %s)", c.tool, c.args, c.Request, c.Reason))
	}
	page := ""
	if r.x.cfg.Page != nil {
		about := r.id
		if len(held) == 1 {
			about = held[0].Request
		}
		if page = r.x.cfg.Page(about); page != "" {
			page += " or "
		}
	}
	const most = 20
	if more := len(calls) - most; more > 0 {
		calls = append(calls[:most], fmt.Sprintf("- and %d more", more))
	}
	if behind > 0 {
		calls = append(calls, fmt.Sprintf("- and then on %d more, which are asked about as these are decided on", behind))
	}
	return fmt.Sprintf("The program waits for a person, who decides on:\n%s\nTell the user: %sbiplane approvals approve %s (or deny, or show). Then call resume with {\"execution\": %q}; don't run the program again.",
		strings.Join(calls, "\n"), page, r.id, r.id)
}

// programDigest returns the SHA-256 of a program's text, in hexadecimal.
func programDigest(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}
