//go:build !linux

package wasm

import "time"

// cpuClockName describes the clock that limits a guest's CPU time.
const cpuClockName = "wall time of the guest's entries"

// missing lists the protections that this platform lacks.
var missing = []string{"a clock of the guest's own CPU time: the time that its entries take stands in, so a busy " +
	"host shortens it"}

// A cpuClock measures the time since its creation. On this system a thread's CPU time can't be read
// from another thread, so a guest is also charged for time in which others run.
type cpuClock time.Time

func threadClock() cpuClock { return cpuClock(time.Now()) }

func (c cpuClock) read() time.Duration { return time.Since(time.Time(c)) }
