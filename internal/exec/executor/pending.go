package executor

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// Calls for which policy requires a person's decision wait at the gateway like any slow call, and
// the program is suspended meanwhile. This file handles their effect on an execution: it reports
// that it waits, answers immediately, and its deadlines are paused.

// A pending holds the calls that wait for a person's decision. The execution's total time limit is
// paused while there are any. It isn't safe for concurrent use, except
// for wait.
type pending struct {
	holds         map[int]*tool.Hold // by index of the call
	maxConcurrent int                // maximum number of concurrent calls
	signal        signal             // sent when the program waits only for people
	totalTimer    *time.Timer        // ends the execution; may be nil
	ends          time.Time          // when totalTimer expires
	remaining     time.Duration      // time that remains while totalTimer is paused
	pausedAt      time.Time          // when it was paused
}

func newPending(most int) pending {
	return pending{maxConcurrent: most, signal: make(signal, 1)}
}

// addHold records that the n-th call waits for a person.
func (p *pending) addHold(n int, hold *tool.Hold, now time.Time) {
	if len(p.holds) > 0 {
		p.holds[n] = hold
		return
	}
	p.holds = map[int]*tool.Hold{n: hold}
	if p.totalTimer != nil && p.totalTimer.Stop() {
		p.remaining, p.pausedAt = max(time.Until(p.ends), time.Millisecond), now
	}
}

// removeHold records that the n-th call no longer waits for a person. If it was the last one that
// did, the total time limit continues, and removeHold returns when it was paused.
func (p *pending) removeHold(n int) (since time.Time) {
	if delete(p.holds, n); len(p.holds) == 0 && p.remaining > 0 {
		p.ends = time.Now().Add(p.remaining)
		p.totalTimer.Reset(p.remaining)
		p.remaining, since = 0, p.pausedAt
	}
	return since
}

// anyHold returns one of the pending decisions, or nil if there are none.
func (p *pending) anyHold() *tool.Hold {
	for _, h := range p.holds {
		return h
	}
	return nil
}

// blockAll reports whether nothing but decisions can continue a program with so many outstanding
// calls: all of them wait for people, or as many as may run concurrently, which block the others.
func (p *pending) blockAll(outstanding int) bool {
	n := len(p.holds)
	return n > 0 && (n >= outstanding || n == p.maxConcurrent)
}

// A signal wakes one of those who receive from it. It is safe for concurrent use.
type signal chan struct{}

// send wakes one receiver, now or later.
func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// A holdReporter reports to the execution that a run is part of when the run starts or stops
// waiting for people.
type holdReporter struct {
	mu       sync.Mutex    // state.shift holds it, too, to report states in order; locked before state.mu
	outer    tool.Observer // of the planned execution's call; nil: no one is notified
	reported bool          // outer was last notified of a pending decision
}

// report notifies outer when decisions become pending, and when none is pending any longer. some is
// one of them, or nil. r.mu is held.
func (r *holdReporter) report(some *tool.Hold) {
	if waits := some != nil; r.outer != nil && waits != r.reported {
		r.reported = waits
		r.outer.OnHold(some)
	}
}

// heldPatience is how long a program must have waited only for people before it reports this and is
// suspended. Calls that it makes at about the same time are thus presented together.
const heldPatience = 100 * time.Millisecond

// A heldCall is a call that waits for a person.
type heldCall struct {
	*tool.Hold
	tool, args string
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
	about := r.id
	if len(held) == 1 {
		about = held[0].Request
	}
	if page = r.x.cfg.Control.ApprovalPage(about); page != "" {
		page += " or "
	}
	const most = 20
	if more := len(calls) - most; more > 0 {
		calls = append(calls[:most], fmt.Sprintf("- and %d more", more))
	}
	if behind > 0 {
		calls = append(calls, fmt.Sprintf("- and then on %d more, which are asked about as these are decided on",
			behind))
	}
	return fmt.Sprintf("The program waits for a person, who decides on:\n%s\nTell the user: %sbiplane approvals "+
		"approve %s (or deny, or show). Then call resume with {\"execution\": %q}; don't run the program again.",
		strings.Join(calls, "\n"), page, r.id, r.id)
}
