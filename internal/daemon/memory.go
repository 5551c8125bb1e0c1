package daemon

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/biplane-dev/biplane/internal/base/resident"
)

// idleTime is about the time without calls after which memory is released.
const idleTime = 2 * time.Second

// spareHeap allocates memory that is never touched, so it only uses address space. The garbage
// collector counts it as live, and waits for 16 MB more garbage before it runs. With a small heap
// it would run every few milliseconds under load: this saves about a tenth of a call's CPU time.
// It runs once in a process, before other work, so that the memory is fresh from the system. A
// process for one command does without: the allocation itself starts the collector.
var spareHeap = sync.OnceValue(func() []byte { return make([]byte, 16<<20) })

// releaseAfterStart waits until the start is complete, and releases memory that only it needed.
func (d *Daemon) releaseAfterStart(ctx context.Context) {
	select {
	case <-d.upstreams.settled:
	case <-ctx.Done():
		return
	}
	d.warm.work.Wait()
	d.policies.calls.NoteActivity()
	releaseCode(d.log)
}

// idleMemory is the memory that is not needed between calls.
type idleMemory struct{ log *slog.Logger }

// ReleaseMemory implements resident.Releaser.
func (m idleMemory) ReleaseMemory() {
	debug.FreeOSMemory()
	releaseCode(m.log)
}

func releaseCode(log *slog.Logger) {
	code, err := resident.FindCode()
	if err == nil {
		err = code.ReleasePages()
	}
	if err != nil {
		log.Debug("code not released from memory", "err", err)
	}
}
