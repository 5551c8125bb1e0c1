package mcp

import (
	"context"
	"sync"
)

// workers are the goroutines of a transport: they share a ctx, none begins after halt, and halt waits for them.
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

// spawn runs f unless we are stopping.
func (w *workers) spawn(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	w.wg.Go(f)
	return true
}

// halt ends ctx and waits for all; first: it was the first time.
func (w *workers) halt() (first bool) {
	w.mu.Lock()
	first = !w.stopped
	w.stopped = true
	w.mu.Unlock()
	w.cancel()
	w.wg.Wait()
	return first
}
