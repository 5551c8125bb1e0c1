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

// Calls that policy leaves to a person wait at the door like any slow call, and the program is
// suspended around them. What is here is what they are to an execution: it says that it waits,
// answers at once, and its deadlines stand still.

// holds are the calls that wait for a person. Its fields are guarded by run.mu, but for the last
// ones.
type holds struct {
	by    map[int]*tool.Hold // by the number of the call
	most  int                // calls that may be under way at once
	wait  chan struct{}      // has a token when the program waits for nothing but people
	total *time.Timer        // ends the execution
	left  time.Duration      // what it had left when the first of by began to wait
	since time.Time          // when that was, by Config.Now
	ends  time.Time          // when total goes off

	// Guarded by run.shifting.
	outer  func(*tool.Hold) // told that some of by wait, or, with nil, that none does; nil: nobody wants to know
	passed bool             // it was told that some do
}

// tell has one who asks about the program look whether it waits for nothing but people.
func (h *holds) tell() {
	select {
	case h.wait <- struct{}{}:
	default:
	}
}

// within has outer be told whether the run waits for people, from now on.
func (r *run) within(outer func(*tool.Hold)) {
	r.shifting.Lock()
	defer r.shifting.Unlock()
	r.holds.outer = outer
	r.passOn()
}

// passOn tells outer. r.shifting is held.
func (r *run) passOn() {
	if r.holds.outer == nil {
		return
	}
	var some *tool.Hold
	r.mu.Lock()
	for _, some = range r.holds.by {
		break
	}
	r.mu.Unlock()
	if waits := some != nil; waits != r.holds.passed {
		r.holds.passed = waits
		r.holds.outer(some)
	}
}

// bounded notes the timer that ends the execution after d.
func (r *run) bounded(total *time.Timer, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.holds.total, r.holds.ends = total, time.Now().Add(d)
}

// held notes that the n-th call waits for a person, or, with nil, that it no longer does.
func (r *run) held(n int, hold *tool.Hold) {
	var since time.Time
	r.shift(func() {
		h := &r.holds
		switch {
		case hold != nil && len(h.by) == 0:
			h.by = map[int]*tool.Hold{n: hold}
			if h.total != nil && h.total.Stop() {
				h.left, h.since = max(time.Until(h.ends), time.Millisecond), r.x.cfg.Now()
			}
		case hold != nil:
			h.by[n] = hold
		default:
			if delete(h.by, n); len(h.by) == 0 && h.left > 0 {
				h.ends = time.Now().Add(h.left)
				h.total.Reset(h.left)
				h.left, since = 0, h.since
			}
		}
	})
	if !since.IsZero() {
		r.log.Stood(since)
	}
}

// heldPatience is how long a program must have waited for nothing but people before it says so, and
// is suspended: calls that it makes together are asked about together.
const heldPatience = 100 * time.Millisecond

// heldOnly reports whether the program waits for nothing but people: each of its calls does, or as
// many as may be under way at once, for which the others wait. r.mu is held.
func (r *run) heldOnly() bool {
	n := len(r.holds.by)
	return n > 0 && (n >= r.outstanding || n == r.holds.most) && !r.leaves()
}

// leaves reports whether the program has said its last word: what it didn't wait for is given up
// soon, whether people have decided or not. A plan is asked about after that. r.mu is held.
func (r *run) leaves() bool {
	return r.end != nil && (!r.planning() || r.plan.whole == nil)
}

// onlyHeld is heldOnly for whoever doesn't hold r.mu.
func (r *run) onlyHeld() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heldOnly()
}

// A heldCall is one that waits for a person.
type heldCall struct {
	*tool.Hold
	tool, args string
}

// heldCalls gives the calls that wait for people as they are now, in their order, and how many wait
// for these.
func (r *run) heldCalls() (calls []heldCall, behind int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaves() || r.plan != nil && r.plan.by != nil { // that one says what it waits for
		return nil, 0
	}
	for _, n := range slices.Sorted(maps.Keys(r.holds.by)) {
		c := &r.exec.Calls[n]
		calls = append(calls, heldCall{r.holds.by[n], c.Tool, c.Args})
	}
	if n := len(calls); n == r.holds.most {
		behind = r.outstanding - n
	}
	return calls, behind
}

// waitingText says what a program waits for people for; empty when it doesn't.
func (r *run) waitingText() string {
	held, behind := r.heldCalls()
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

// programDigest names a program's text, SHA-256 in hexadecimal.
func programDigest(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])
}
