// Package cputime measures the processor time of a piece of work. Unlike the time on the clock, it
// doesn't grow while other work has the processor.
package cputime

import (
	"runtime"
	"time"
)

// StartTimer begins to measure the processor time of the calling goroutine. The returned function
// ends the measurement and returns the time since then. It must be called once, by the same
// goroutine: until then, the goroutine keeps its thread. Where the system doesn't count by thread,
// the time on the clock is returned.
func StartTimer() (end func() time.Duration) {
	runtime.LockOSThread()
	began, ok := readThread()
	if !ok {
		runtime.UnlockOSThread()
		clock := time.Now()
		return func() time.Duration { return time.Since(clock) }
	}
	return func() time.Duration {
		defer runtime.UnlockOSThread()
		ended, _ := readThread()
		return max(0, ended-began)
	}
}
