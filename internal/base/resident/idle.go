package resident

import (
	"sync/atomic"
	"time"
)

// A Releaser releases memory that an idle process doesn't need.
type Releaser interface{ ReleaseMemory() }

// An IdleNotifier calls a Releaser when a process has become idle: once after each time of
// activity. While nothing happens, it doesn't wake the process. Its zero value is not usable.
type IdleNotifier struct {
	after   time.Duration
	memory  Releaser
	timer   *time.Timer
	noted   atomic.Uint64 // number of activities
	waiting atomic.Bool   // the timer runs
	seen    atomic.Uint64 // value of noted at the last check
	closed  atomic.Bool
}

// NewIdleNotifier returns an IdleNotifier that calls m when no activity was noted for about the
// time after. Its calls don't overlap.
func NewIdleNotifier(after time.Duration, m Releaser) *IdleNotifier {
	i := &IdleNotifier{after: after, memory: m}
	i.timer = time.AfterFunc(time.Hour, i.checkIdle)
	i.timer.Stop()
	return i
}

// NoteActivity notes an activity. A nil IdleNotifier does nothing.
func (i *IdleNotifier) NoteActivity() {
	if i == nil {
		return
	}
	i.noted.Add(1)
	if !i.waiting.Load() && !i.closed.Load() && i.waiting.CompareAndSwap(false, true) {
		i.timer.Reset(i.after)
	}
}

// checkIdle waits on if there was activity since the last check, and releases memory otherwise.
func (i *IdleNotifier) checkIdle() {
	if n := i.noted.Load(); n != i.seen.Swap(n) && !i.closed.Load() {
		i.timer.Reset(i.after)
		return
	}
	if !i.closed.Load() {
		i.memory.ReleaseMemory()
	}
	i.waiting.Store(false)
	if i.noted.Load() != i.seen.Load() { // an activity that saw the timer run
		i.NoteActivity()
	}
}

// StopWaiting ends the use of i. A release that has begun may still run.
func (i *IdleNotifier) StopWaiting() {
	if i != nil {
		i.closed.Store(true)
		i.timer.Stop()
	}
}
