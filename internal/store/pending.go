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
	once sync.Once // sets err
	err  error     // the result of the write
}

// enqueueWrite queues a write, all or nothing, without waiting for it.
func (w *writer) enqueueWrite(r *write) *pending {
	r.result, r.later = make(chan error, 1), true
	p := &pending{w: w, r: r}
	w.order.Lock()
	defer w.order.Unlock()
	if r.entry != nil {
		r.ahead = w.ahead.addEntry(r.entry)
	}
	if err := w.queue.queueUp(r); err != nil {
		w.ahead.addHole(r.entry)
		w.ahead.removeDone([]uint64{r.ahead}, false, false, err)
		r.result <- err
	}
	return p
}

// Safe returns once the write survives the death of this process. Usually that needs one write to
// the write-ahead file; otherwise it waits for the commit.
func (p *pending) Safe() error {
	if p.r.entry != nil && p.w.ahead.writePending() == nil {
		return nil
	}
	return p.Wait()
}

// Hurry requests that the write is made safe soon. It doesn't wait.
func (p *pending) Hurry() {
	select {
	case p.w.soon <- struct{}{}:
	default: // already requested
	}
}

// Wait waits until the write is committed.
func (p *pending) Wait() error {
	p.once.Do(func() { p.err = p.awaitResult() })
	return p.err
}

func (p *pending) awaitResult() error {
	select {
	case err := <-p.r.result:
		return err
	default:
	}
	select {
	case p.w.hurry <- struct{}{}: // commit the open transaction
	default: // a commit is already requested
	}
	return <-p.r.result
}

// Sync waits until the write, and everything written before it, is on the disk, usually in the
// write-ahead file.
func (p *pending) Sync() error {
	if p.r.entry != nil && p.w.ahead.syncEntry(p.r.ahead) == nil && !p.w.ahead.hasHole(p.r.entry) {
		return nil
	}
	err := p.w.onDisk(context.Background())
	return cmp.Or(p.Wait(), err)
}
