package mcp

import (
	"context"
	"sync"
)

// A workers is the set of goroutines of a transport. They share a ctx. None starts after haltAll,
// which waits for them.
type workers struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	stopped bool
}

func newWorkers() *workers {
	w := &workers{}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// spawnWorker runs f in a goroutine, unless haltAll was called.
func (w *workers) spawnWorker(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	w.wg.Go(f)
	return true
}

// haltAll cancels ctx and waits for all goroutines. It reports whether this was the first call.
func (w *workers) haltAll() (first bool) {
	w.mu.Lock()
	first = !w.stopped
	w.stopped = true
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
	return first
}
