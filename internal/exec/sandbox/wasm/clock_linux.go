package wasm

import (
	"time"

	"golang.org/x/sys/unix"
)

// cpuClockName describes the clock that limits a guest's CPU time.
const cpuClockName = "CPU time of the guest's thread"

// missing lists the protections that this platform lacks.
var missing []string

// A cpuClock measures the CPU time of one thread. Any thread of the process may read it.
type cpuClock int32

// threadClock returns the clock of the calling thread. The caller must have locked its goroutine to
// it.
func threadClock() cpuClock {
	// The kernel's encoding of a thread's clock: the complement of its ID, then "per thread" and
	// "scheduler time".
	return cpuClock(int32(^unix.Gettid())<<3 | 4 | 2)
}

// read returns the thread's CPU time.
func (c cpuClock) read() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(c), &ts); err != nil {
		return 0 // the thread has ended: its entry is over, and the result unused
	}
	return time.Duration(ts.Nano())
}
