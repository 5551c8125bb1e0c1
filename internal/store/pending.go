package store

import (
	"cmp"
	"context"
	"sync"
)

// A pending is a queued write that callers may wait for. It is safe for concurrent use.
type pending struct {
	w    *writer
	r    *write
	wait func() error
}

// enqueueWrite queues a write, all or nothing, without waiting for it.
func (w *writer) enqueueWrite(r *write) *pending {
	r.result, r.later = make(chan error, 1), true
	p := &pending{w, r, sync.OnceValue(func() error {
		select {
		case err := <-r.result:
			return err
		default:
		}
		select {
		case w.hurry <- struct{}{}: // commit the open transaction
		default: // a commit is already requested
		}
		return <-r.result
	})}
	w.order.Lock()
	defer w.order.Unlock()
	if r.entry != nil {
		r.ahead = w.ahead.addEntry(r.entry)
	}
	if err := w.queueUp(r); err != nil {
		w.ahead.addHole(r.entry)
		w.ahead.removeDone([]uint64{r.ahead}, false, false, err)
		r.result <- err
	}
	return p
}

// Safe returns once the write survives the death of this process. Usually that takes one write to
// the write-ahead file; otherwise it waits for the commit.
func (p *pending) Safe() error {
	if p.r.entry != nil && p.w.ahead.writePending() == nil {
		return nil
	}
	return p.wait()
}

// Hurry requests that the write is made safe soon. It doesn't wait.
func (p *pending) Hurry() {
	select {
	case p.w.soon <- struct{}{}:
	default: // already requested
	}
}

// Wait waits until the write is committed.
func (p *pending) Wait() error { return p.wait() }

// Sync waits until the write, and everything written before it, is on the disk, usually in the
// write-ahead file.
func (p *pending) Sync() error {
	if p.r.entry != nil && p.w.ahead.syncEntry(p.r.ahead) == nil && !p.w.ahead.hasHole(p.r.entry) {
		return nil
	}
	err := p.w.onDisk(context.Background())
	return cmp.Or(p.wait(), err)
}
