package daemon

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/biplane-dev/biplane/internal/base/resident"
)

// idleTime is the time without calls after which memory is released.
const idleTime = 30 * time.Second

// releaseMemory releases memory that is not needed now: when the start is complete, and whenever
// calls were followed by a time without any.
func (d *Daemon) releaseMemory(ctx context.Context) {
	select {
	case <-d.upstreams.settled:
	case <-ctx.Done():
		return
	}
	d.warm.work.Wait()
	d.releaseCode()
	t := time.NewTicker(idleTime)
	defer t.Stop()
	for seen, released := d.audit.CountAdditions(), true; ; {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		n := d.audit.CountAdditions()
		if n == seen && !released {
			debug.FreeOSMemory()
			d.releaseCode()
		}
		seen, released = n, n == seen
	}
}

func (d *Daemon) releaseCode() {
	if err := resident.ReleaseCode(); err != nil {
		d.log.Debug("code not released from memory", "err", err)
	}
}
