package executor

import (
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// largeWork is how many bytes of a program, or of a result, are so many that the host's work on
// them waits for a turn.
const largeWork = 64 << 10

// work computes f, about so many bytes, for the program. If they are many, it waits for a turn; no
// longer than the program lasts.
func (r *run) work(size int, f func()) {
	if turns := r.x.cfg.Turns; turns != nil && size > largeWork && turns.Enter(r.ctx, r.principal.ID) == nil {
		defer turns.Leave(r.principal.ID)
	}
	began := time.Now()
	defer func() { r.worked(time.Since(began)) }()
	f()
}

// hostTime is for how long the host may compute for one program, if the program itself may not
// compute for longer.
const hostTime = 10 * time.Second

// worked counts what the host has computed for the program, which ends when that is too much.
func (r *run) worked(d time.Duration) {
	if most := max(hostTime, r.x.cfg.Limits.CPU); time.Duration(r.host.Add(int64(d))) > most {
		r.cancel(tool.Over("cpu", "biplane has worked on the program's calls for %v: pass less data at a time, or make smaller programs", most))
	}
}
