package wasm

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuClockName says what bounds the CPU time of a guest.
const cpuClockName = "CPU time of the guest's thread"

// missing are the protections that this platform lacks.
var missing []string

// A cpuClock tells how much CPU time one thread has used. Any thread of the process may read it.
type cpuClock int32

// threadClock is the clock of the calling thread; the caller has locked its goroutine to it.
func threadClock() cpuClock {
	// The kernel's encoding of a clock of one thread: the complement of its id, then "per thread" and "scheduler time".
	return cpuClock(int32(^unix.Gettid())<<3 | 4 | 2)
}

// read gives the CPU time that the thread has used.
func (c cpuClock) read() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(c), &ts); err != nil {
		return 0 // the thread is gone: its entry is over, and nobody asks any more
	}
	return time.Duration(ts.Nano())
}
