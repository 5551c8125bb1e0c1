package executor

import (
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// largeWork is the size of a program or result, in bytes, above which the host's work on it waits
// for a turn.
const largeWork = 64 << 10

// work calls f, which processes size bytes for the program. If size is large, it waits for a turn,
// but not after the program has ended.
func (r *run) work(size int, f func()) {
	if turns := r.x.cfg.Turns; turns != nil && size > largeWork && turns.Enter(r.ctx, r.principal.ID) == nil {
		defer turns.Leave(r.principal.ID)
	}
	began := time.Now()
	defer func() { r.worked(time.Since(began)) }()
	f()
}

// hostTime is the maximum time that the host spends on one program, unless Limits.CPU is longer.
const hostTime = 10 * time.Second

// worked adds to the host time of the program, and ends the program if it exceeds the limit.
func (r *run) worked(d time.Duration) {
	if most := max(hostTime, r.x.cfg.Limits.CPU); time.Duration(r.host.Add(int64(d))) > most {
		r.cancel(tool.Over("cpu", "biplane has worked on the program's calls for %v: pass less data at a time, or make smaller programs", most))
	}
}
