package executor

import (
	"github.com/biplane-dev/biplane/internal/tool"
)

// enterSession waits for the program's turn in its session.
func (r *run) enterSession(name string) (err error) {
	wait, err := r.place.joinQueue(r.ctx, func() (turn, error) { return r.x.live.Join(r.principal.ID, name) })
	if err != nil {
		return err
	}
	if r.machine.hold, err = wait(r.ctx); err != nil {
		return err
	}
	r.taint.setSession(r.machine.hold)
	if err = r.taint.carry(tool.Joined(r.taint.labels.All(), r.machine.hold.Labels())); err == nil && r.place.wait == nil {
		err = r.machine.hold.Room(r.ctx) // before its calls are made; it is checked again on saving
	}
	if err != nil {
		r.machine.hold.Release()
		return err
	}
	return nil
}
