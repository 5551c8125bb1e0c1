package executor

import "sync"

// A watchers notifies the watchers of a run about its changes. It is safe for concurrent use.
type watchers struct {
	mu   sync.Mutex
	next chan struct{} // closed on a change; nil: no one is watching
}

// notifyAll notifies the watchers of a change.
func (w *watchers) notifyAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next != nil {
		close(w.next)
		w.next = nil
	}
}

// nextChange returns a channel that is closed at the next change.
func (w *watchers) nextChange() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.next == nil {
		w.next = make(chan struct{})
	}
	return w.next
}
