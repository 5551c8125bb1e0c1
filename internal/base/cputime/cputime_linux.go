package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// readThread returns the processor time of the thread: see clock_gettime(2).
func readThread() (time.Duration, bool) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()), true
}
