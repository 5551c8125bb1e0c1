//go:build !linux

package wasm

import "time"

// cpuClockName says what bounds the CPU time of a guest.
const cpuClockName = "wall time of the guest's entries"

// missing are the protections that this platform lacks.
var missing = []string{"a clock of the guest's own CPU time: the time that its entries take stands in, so a busy host shortens it"}

// A cpuClock tells how much time has passed since it was made: the CPU time of one thread can't be read from another
// on this system, so that a guest pays for the time in which its neighbours run.
type cpuClock time.Time

func threadClock() cpuClock { return cpuClock(time.Now()) }

func (c cpuClock) read() time.Duration { return time.Since(time.Time(c)) }
