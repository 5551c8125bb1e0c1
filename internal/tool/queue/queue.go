// Package queue divides resources that all principals share: execution slots, for which programs
// queue (Fair), and any other limited resource (Shares). It also limits concurrency in order of
// arrival (Turns).
package queue

import (
	"context"
	"slices"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Fair queue limits the number of concurrent executions. Slots are shared as in Shares, with a
// reserve if there are at least eight. Waiting principals take turns, so that a principal with a
// hundred programs doesn't delay the only program of another.
type Fair struct {
	max int // maximum number of waiting executions

	mu      sync.Mutex
	under   *Shares
	waiting map[string][]*waiter // by principal, in order of arrival
	turn    []string             // waiting principals; the next one in turn is first
	length  int
}

// A waiter is an execution that waits for a slot.
type waiter struct {
	done chan struct{} // closed when it has a slot, or when err is set
	err  error
	must bool // it had a slot before, and is never rejected
}

// New returns a queue with slots slots, for which at most waiting executions can wait.
func New(slots, waiting int) *Fair {
	return &Fair{max: waiting, under: newShares("executions", "under way", int64(slots), int64(slots/spare)),
		waiting: map[string][]*waiter{}}
}

// Enter waits for a slot until ctx is done. If the error is nil, the caller must call Leave.
func (q *Fair) Enter(ctx context.Context, principal string) error {
	return q.wait(ctx, principal, false)
}

func (q *Fair) wait(ctx context.Context, principal string, must bool) error {
	q.mu.Lock()
	if q.under.Acquire(principal, 1) == nil {
		q.mu.Unlock()
		return nil
	}
	if q.length >= q.max && !must {
		if err := q.room(principal); err != nil {
			q.mu.Unlock()
			return err
		}
	}
	w := &waiter{done: make(chan struct{}), must: must}
	if len(q.waiting[principal]) == 0 {
		q.turn = append(q.turn, principal)
	}
	q.waiting[principal] = append(q.waiting[principal], w)
	q.length++
	q.mu.Unlock()
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.forget(principal, w):
	case w.err == nil: // the slot arrived at the same time: pass it on
		q.leave(principal)
	}
	return context.Cause(ctx)
}

// room rejects the newest waiting execution of the principal with the most, if that principal has
// more than twice as many as the given one would have. Otherwise it returns the error with which
// the given principal is rejected. q.mu is held.
func (q *Fair) room(principal string) error {
	greediest, most := principal, 2*(len(q.waiting[principal])+1)
	for p, all := range q.waiting {
		if len(all) > most {
			greediest, most = p, len(all)
		}
	}
	all := q.waiting[greediest]
	if greediest == principal {
		if len(all) > 0 && len(all)*len(q.waiting) >= q.length {
			return tool.Over("queue", "%d programs are waiting to run already, and your share of the queue is used "+
				"up (%d are yours): wait for yours to end", q.length, len(all))
		}
		return tool.Over("queue",
			"%d programs are waiting to run already, in the gateway's queue (%d are yours): try again later",
			q.length, len(all))
	}
	for i := len(all) - 1; i >= 0; i-- {
		w := all[i]
		if w.must {
			continue
		}
		w.err = tool.Over("queue", "%d programs are waiting to run already, and yours are the most (%d): this one "+
			"made room for another's, run it again when yours have ended", q.length, len(all))
		q.forget(greediest, w)
		close(w.done)
		return nil
	}
	return tool.Over("queue", "%d programs are waiting to run already, in the gateway's queue: try again later",
		q.length)
}

// Rejoin is like Enter, for an execution that had a slot before. It is not rejected if the queue is
// full.
func (q *Fair) Rejoin(ctx context.Context, principal string) error {
	return q.wait(ctx, principal, true)
}

// Leave releases a slot of principal.
func (q *Fair) Leave(principal string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.leave(principal)
}

// Load returns how many executions are under way, and how many wait.
func (q *Fair) Load() (under, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	used, _ := q.under.Load()
	return int(used), q.length
}

// leave releases a slot, and assigns free slots to the waiting principals in turn. q.mu is held.
func (q *Fair) leave(principal string) {
	q.under.Release(principal, 1)
	for q.next() {
	}
}

// next assigns a slot to the first principal in turn that may have one, and reports whether it
// assigned one. q.mu is held.
func (q *Fair) next() bool {
	for _, p := range q.turn {
		if q.under.Acquire(p, 1) != nil {
			continue
		}
		w := q.waiting[p][0]
		q.forget(p, w)
		if len(q.waiting[p]) > 0 { // its next turn comes after those of the others
			q.turn = append(slices.DeleteFunc(q.turn, func(o string) bool { return o == p }), p)
		}
		close(w.done)
		return true
	}
	return false
}

// forget removes w and reports whether it was still waiting. q.mu is held.
func (q *Fair) forget(principal string, w *waiter) bool {
	i := slices.Index(q.waiting[principal], w)
	if i < 0 {
		return false
	}
	q.waiting[principal] = slices.Delete(q.waiting[principal], i, i+1)
	q.length--
	if len(q.waiting[principal]) == 0 {
		delete(q.waiting, principal)
		q.turn = slices.DeleteFunc(q.turn, func(p string) bool { return p == principal })
	}
	return true
}
