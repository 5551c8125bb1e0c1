package executor

import (
	"context"

	"github.com/biplane-dev/biplane/internal/exec/session/live"
)

// A turn waits until a program may use its session.
type turn = func(context.Context) (*live.Hold, error)

// A place is a program's place in the order in which one client sent programs to a session: they
// join the session's queue in the order in which they were sent. The zero place has no
// predecessors.
type place struct {
	wait  turn            // set if the program joined the queue before it started
	come  <-chan struct{} // closed when the predecessors have joined; nil: there are none
	leave func()          // lets the successors join; may be nil
}

// joinQueue waits for the predecessors, joins the session's queue and lets the successors join. If
// the program is in the queue already, it only returns its turn.
func (p *place) joinQueue(ctx context.Context, queue func() (turn, error)) (turn, error) {
	if p.wait != nil {
		return p.wait, nil
	}
	defer p.releaseNext()
	if p.come != nil {
		select {
		case <-p.come:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return queue()
}

// releaseNext lets the successors join.
func (p *place) releaseNext() {
	if p.leave != nil {
		p.leave()
	}
}
