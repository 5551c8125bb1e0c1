package executor

import (
	"context"

	"github.com/biplane-dev/biplane/internal/exec/session/live"
	"github.com/biplane-dev/biplane/internal/tool"
)

// enterSession waits for the program's turn in its session.
func (r *run) enterSession(name string) (err error) {
	wait := r.wait
	if wait == nil {
		if wait, err = r.join(name); err != nil {
			return err
		}
	}
	if r.hold, err = wait(r.ctx); err != nil {
		return err
	}
	if err = r.carries(tool.Joined(r.labels.All(), r.hold.Labels())); err == nil && r.wait == nil {
		err = r.hold.Room(r.ctx) // before its calls are made; it is checked again on saving
	}
	if err != nil {
		r.hold.Release()
		return err
	}
	return nil
}

// join takes the program's place in its session's queue, after the programs that were sent before
// it.
func (r *run) join(name string) (wait func(context.Context) (*live.Hold, error), err error) {
	defer r.leavePlace()
	if r.come != nil {
		select {
		case <-r.come:
		case <-r.ctx.Done():
			return nil, context.Cause(r.ctx)
		}
	}
	return r.x.live.Join(r.principal.ID, name)
}

func (r *run) leavePlace() {
	if r.leave != nil {
		r.leave()
	}
}
