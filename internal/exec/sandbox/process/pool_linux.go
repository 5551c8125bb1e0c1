package process

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

const (
	// warmUse is how recently a kind of sandbox must have been created before for one to be started
	// ahead.
	warmUse = 10 * time.Minute
	// warmTime is how long a sandbox that was started ahead waits for its program.
	warmTime = 5 * time.Minute
	// warmMemory is how much memory must be available to start a sandbox ahead, in bytes.
	warmMemory = 1 << 30
)

// A pool has sandboxes that were started ahead: their agents wait for a program. Each is for one
// program or session, and has run nothing before. Driver.mu guards it.
type pool struct {
	ready   []*warmBox
	filling int                        // sandboxes that are being started
	used    map[sandbox.Spec]time.Time // when a sandbox was last created, without its owner
}

// A warmBox is a sandbox that waits.
type warmBox struct {
	*box
	of     sandbox.Spec // as it was asked for
	expire *time.Timer
}

// maxKinds is the number of specs of which the last use is kept: a gateway has one for each
// language.
const maxKinds = 16

// claimBox returns a sandbox that was started ahead, or nil if there is none. If such sandboxes are
// used often, it has another one started.
func (d *Driver) claimBox(spec sandbox.Spec) *box {
	spec.Owner = "" // a sandbox belongs to the first that claims it
	if d.cfg.Warm == 0 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	last, again := d.pool.used[spec]
	if d.pool.used == nil || len(d.pool.used) >= maxKinds {
		d.pool.used = map[sandbox.Spec]time.Time{}
	}
	d.pool.used[spec] = time.Now()
	if again && time.Since(last) < warmUse && !d.closed && len(d.pool.ready)+d.pool.filling <= d.cfg.Warm {
		d.pool.filling++
		d.fills.Go(func() { d.startAhead(spec) })
	}
	for i, w := range d.pool.ready {
		if w.of != spec || !w.expire.Stop() {
			continue
		}
		d.pool.ready = append(d.pool.ready[:i:i], d.pool.ready[i+1:]...)
		if w.ThawGuest() == nil { // it has not ended
			return w.box
		}
		d.fills.Go(func() { d.closeWarm(w.box) })
		break
	}
	return nil
}

// CountWarm returns the number of sandboxes that were started ahead and wait.
func (d *Driver) CountWarm() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.pool.ready)
}

// startAhead starts a sandbox, and adds it to the pool if there is room.
func (d *Driver) startAhead(spec sandbox.Spec) {
	var b *box
	path, err := d.checkInterpreter(spec.Runtime)
	if err == nil && availableMemory() >= warmMemory {
		b, err = d.createBox(context.Background(), spec, path)
	}
	if err != nil {
		d.cfg.Log.Debug("sandbox not started ahead", "error", err)
	}
	d.mu.Lock()
	d.pool.filling--
	full := b != nil && (d.closed || len(d.pool.ready) >= d.cfg.Warm)
	if b != nil && !full {
		w := &warmBox{box: b, of: spec}
		w.expire = time.AfterFunc(warmTime, func() { d.expireWarm(w) })
		d.pool.ready = append(d.pool.ready, w)
	}
	d.mu.Unlock()
	if full {
		d.closeWarm(b)
	}
}

// expireWarm closes a sandbox that no program has claimed for long.
func (d *Driver) expireWarm(w *warmBox) {
	d.mu.Lock()
	for i := range d.pool.ready {
		if d.pool.ready[i] == w {
			d.pool.ready = append(d.pool.ready[:i:i], d.pool.ready[i+1:]...)
			break
		}
	}
	closed := d.closed
	d.mu.Unlock()
	if !closed { // Close closes it
		d.closeWarm(w.box)
	}
}

func (d *Driver) closeWarm(b *box) {
	if err := b.Close(); err != nil {
		d.cfg.Log.Warn("sandbox not closed", "error", err)
	}
}

// stopTimers empties the pool. The caller closes its sandboxes.
func (p *pool) stopTimers() {
	for _, w := range p.ready {
		w.expire.Stop()
	}
	p.ready = nil
}

// availableMemory returns the memory that the system has for new processes, in bytes, or 0 if
// unknown.
func availableMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}
