package executor

import (
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A pending holds the calls that wait for a person's decision. The execution's total time limit is
// paused while there are any. It isn't safe for concurrent use,
// except for wait.
type pending struct {
	by    map[int]*tool.Hold // by index of the call
	most  int                // maximum number of concurrent calls
	wait  signal             // sent when the program waits only for people
	total *time.Timer        // ends the execution; may be nil
	ends  time.Time          // when total expires
	left  time.Duration      // remaining time of total while it is paused
	since time.Time          // when it was paused
}

func newPending(most int) pending {
	return pending{most: most, wait: make(signal, 1)}
}

// addHold records that the n-th call waits for a person.
func (p *pending) addHold(n int, hold *tool.Hold, now time.Time) {
	if len(p.by) > 0 {
		p.by[n] = hold
		return
	}
	p.by = map[int]*tool.Hold{n: hold}
	if p.total != nil && p.total.Stop() {
		p.left, p.since = max(time.Until(p.ends), time.Millisecond), now
	}
}

// removeHold records that the n-th call no longer waits for a person. If it was the last one that
// did, the total time limit continues, and removeHold returns when it was paused.
func (p *pending) removeHold(n int) (since time.Time) {
	if delete(p.by, n); len(p.by) == 0 && p.left > 0 {
		p.ends = time.Now().Add(p.left)
		p.total.Reset(p.left)
		p.left, since = 0, p.since
	}
	return since
}

// anyHold returns one of the pending decisions, or nil if there are none.
func (p *pending) anyHold() *tool.Hold {
	for _, h := range p.by {
		return h
	}
	return nil
}

// blockAll reports whether nothing but decisions can continue a program with so many outstanding
// calls: all of them wait for people, or as many as may run concurrently, which block the others.
func (p *pending) blockAll(outstanding int) bool {
	n := len(p.by)
	return n > 0 && (n >= outstanding || n == p.most)
}

// A signal wakes one of those who receive from it. It is safe for concurrent use.
type signal chan struct{}

// send wakes one who waits, now or later.
func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// A relay reports to the execution that a run is part of when the run starts or stops waiting for
// people.
type relay struct {
	mu     sync.Mutex    // state.shift holds it, too, to report states in order; locked before state.mu
	outer  tool.Observer // of the planned execution's call; nil: no one is notified
	passed bool          // outer was last notified of a pending decision
}

// passChange notifies outer when decisions become pending, and when none is any more. some is one
// of them, or nil. y.mu is held.
func (y *relay) passChange(some *tool.Hold) {
	if waits := some != nil; y.outer != nil && waits != y.passed {
		y.passed = waits
		y.outer.OnHold(some)
	}
}
