package store

import (
	"cmp"
	"context"
	"sync"
)

// A pending is a write that was queued, and that somebody may wait for. It is safe for concurrent
// use.
type pending struct {
	w    *writer
	r    *write
	wait func() error
}

// later queues a write, which is done all or none, without waiting for it.
func (w *writer) later(r *write) *pending {
	r.result, r.later = make(chan error, 1), true
	p := &pending{w, r, sync.OnceValue(func() error {
		select {
		case err := <-r.result:
			return err
		default:
		}
		select {
		case w.hurry <- struct{}{}: // what it finds open is committed
		default: // it is hurrying
		}
		return <-r.result
	})}
	w.order.Lock()
	defer w.order.Unlock()
	if r.entry != nil {
		r.ahead = w.ahead.note(r.entry)
	}
	if err := w.queueUp(r); err != nil {
		w.ahead.hole(r.entry)
		w.ahead.done([]uint64{r.ahead}, false, false, err)
		r.result <- err
	}
	return p
}

// Safe sees to it that the death of this process doesn't take it back: mostly by one write to a
// file, else it waits.
func (p *pending) Safe() error {
	if p.r.entry != nil && p.w.ahead.secure() == nil {
		return nil
	}
	return p.wait()
}

// Hurry has it safe soon. It doesn't wait.
func (p *pending) Hurry() {
	select {
	case p.w.soon <- struct{}{}:
	default: // it is under way
	}
}

// Wait waits until it is committed.
func (p *pending) Wait() error { return p.wait() }

// Sync waits until the disk has it, and all that was written before it: mostly in the file beside
// the database.
func (p *pending) Sync() error {
	if p.r.entry != nil && p.w.ahead.sync(p.r.ahead) == nil && !p.w.ahead.holed(p.r.entry) {
		return nil
	}
	err := p.w.onDisk(context.Background())
	return cmp.Or(p.wait(), err)
}
