// Package queue says whose turn it is: of principals that want to run programs, fairly (Fair), and of those that want one thing, in the
// order in which they came (Turns).
package queue

import (
	"context"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A Fair queue bounds how many executions are under way. Where they wait, principals take turns, so that one with a
// hundred programs doesn't keep another's only one waiting.
type Fair struct {
	slots int // under way at most
	max   int // waiting at most

	mu      sync.Mutex
	free    int
	waiting map[string][]chan struct{} // by principal, in order of arrival
	turn    []string                   // principals that wait, whose turn is next first
	length  int
}

// New makes a queue of so many slots, for which so many may wait at most.
func New(slots, waiting int) *Fair {
	return &Fair{slots: slots, max: waiting, free: slots, waiting: map[string][]chan struct{}{}}
}

// Enter waits for a slot until ctx is done. A nil error means that Leave must follow.
func (q *Fair) Enter(ctx context.Context, principal string) error {
	return q.wait(ctx, principal, false)
}

func (q *Fair) wait(ctx context.Context, principal string, must bool) error {
	q.mu.Lock()
	if q.free > 0 {
		q.free--
		q.mu.Unlock()
		return nil
	}
	if q.length >= q.max && !must {
		q.mu.Unlock()
		return tool.Over("queue", "%d programs are waiting to run already: try again later", q.length)
	}
	c := make(chan struct{})
	if len(q.waiting[principal]) == 0 {
		q.turn = append(q.turn, principal)
	}
	q.waiting[principal] = append(q.waiting[principal], c)
	q.length++
	q.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.forget(principal, c) {
		q.next() // the slot came at the same moment: pass it on
	}
	return context.Cause(ctx)
}

// Rejoin is Enter for what had a slot before: it is not refused for the number of those that wait.
func (q *Fair) Rejoin(ctx context.Context, principal string) error {
	return q.wait(ctx, principal, true)
}

// Leave gives the slot back.
func (q *Fair) Leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next()
}

// Load says how many are under way, and how many wait.
func (q *Fair) Load() (under, waiting int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots - q.free, q.length
}

// next hands a free slot to whoever's turn it is. q.mu is held.
func (q *Fair) next() {
	if len(q.turn) == 0 {
		q.free++
		return
	}
	p := q.turn[0]
	q.turn = q.turn[1:]
	first := q.waiting[p][0]
	if rest := q.waiting[p][1:]; len(rest) > 0 {
		q.waiting[p] = rest
		q.turn = append(q.turn, p)
	} else {
		delete(q.waiting, p)
	}
	q.length--
	close(first)
}

// forget takes c out and reports whether it was still waiting. q.mu is held.
func (q *Fair) forget(principal string, c chan struct{}) bool {
	for i, w := range q.waiting[principal] {
		if w != c {
			continue
		}
		q.waiting[principal] = append(q.waiting[principal][:i], q.waiting[principal][i+1:]...)
		q.length--
		if len(q.waiting[principal]) == 0 {
			delete(q.waiting, principal)
			for j, p := range q.turn {
				if p == principal {
					q.turn = append(q.turn[:j], q.turn[j+1:]...)
					break
				}
			}
		}
		return true
	}
	return false
}
