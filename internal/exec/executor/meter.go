package executor

import (
	"sync/atomic"
	"time"

	"github.com/biplane-dev/biplane/internal/base/cputime"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A meter measures the CPU time of a program, and the time that the host spends on it.
type meter struct {
	*env
	cpu  time.Duration // of completed Runs
	host atomic.Int64  // nanoseconds
}

// total returns the CPU time of the program and the time of the host.
func (m *meter) total() time.Duration { return m.cpu + time.Duration(m.host.Load()) }

// addCPU adds the CPU time of a completed Run.
func (m *meter) addCPU(d time.Duration) { m.cpu += d }

// resetCPU forgets the CPU time of Runs.
func (m *meter) resetCPU() { m.cpu = 0 }

// remaining returns what is left of a limit of CPU time, which is at least a millisecond: the
// driver reports that a limit is exceeded. It returns 0, the default, before the first Run.
func (m *meter) remaining(limit time.Duration) time.Duration {
	if m.cpu == 0 {
		return 0
	}
	return max(limit-m.cpu, time.Millisecond)
}

// doWork calls f, which processes size bytes for the program. If size is large, it waits for a
// turn, but not after the program has ended.
func (m *meter) doWork(size int, f func()) {
	timed := func() {
		end := cputime.StartTimer()
		defer func() { m.addHostTime(end()) }()
		f()
	}
	if err := m.x.cfg.Turns.DoWork(m.ctx, m.principal.ID, size, timed); err != nil {
		timed()
	}
}

// hostTime is the maximum processor time that the host spends on one program, unless Limits.CPU is
// longer.
const hostTime = 10 * time.Second

// addHostTime adds to the host time of the program, and ends the program if it exceeds the limit.
func (m *meter) addHostTime(d time.Duration) {
	if most := max(hostTime, m.x.cfg.Limits.CPU); time.Duration(m.host.Add(int64(d))) > most {
		m.cancel(tool.Over("cpu",
			"biplane has worked on the program's calls for %v: pass less data at a time, or make smaller programs",
			most))
	}
}

// CPU returns the CPU time of the program and of the program that carried out its plan, including
// the host's work for both.
func (r *run) CPU() time.Duration { return r.meter.total() }
