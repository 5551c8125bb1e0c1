package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/image"
	"github.com/biplane-dev/biplane/internal/tool"
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
	filling int                   // sandboxes that are being started
	used    map[poolKey]time.Time // when a sandbox was last created
}

// A poolKey identifies sandboxes that can be exchanged before a program has run in them.
type poolKey struct {
	spec  sandbox.Spec // without its owner
	image string       // Lease.ContentID
}

// A warmBox is a sandbox that waits.
type warmBox struct {
	*box
	of     poolKey
	expire *time.Timer
}

// maxKinds is the number of specs of which the last use is kept: a gateway has one for each
// language.
const maxKinds = 16

// claimBox returns a sandbox that was started ahead, or nil if there is none. If such sandboxes are
// used often, it has another one started.
func (d *Driver) claimBox(spec sandbox.Spec, lease *image.Lease) *box {
	spec.Owner = ""                                               // a sandbox belongs to the first that claims it
	if d.cfg.Warm == 0 || lease != nil && len(lease.Mounts) > 0 { // an owner's volumes are mounted at the start
		return nil
	}
	key := poolKey{spec, lease.ContentID()}
	d.mu.Lock()
	defer d.mu.Unlock()
	last, again := d.pool.used[key]
	if d.pool.used == nil || len(d.pool.used) >= maxKinds {
		d.pool.used = map[poolKey]time.Time{}
	}
	d.pool.used[key] = time.Now()
	often := again && time.Since(last) < warmUse || lease != nil && len(lease.Warm) > 0
	if often && !d.closed && len(d.pool.ready)+d.pool.filling <= d.cfg.Warm {
		d.pool.filling++
		d.fills.Go(func() { d.startAhead(key) })
	}
	for i, w := range d.pool.ready {
		if w.of != key || !w.expire.Stop() {
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
func (d *Driver) startAhead(key poolKey) {
	var b *box
	var err error
	if availableMemory() >= warmMemory {
		b, err = d.createAhead(key)
	}
	if err != nil {
		d.cfg.Log.Debug("sandbox not started ahead", "error", err)
	}
	d.mu.Lock()
	d.pool.filling--
	d.mu.Unlock()
	if b != nil {
		d.addWarm(key, b)
	}
}

// addWarm adds a sandbox to the pool. If that is full, it closes the sandbox.
func (d *Driver) addWarm(key poolKey, b *box) {
	d.mu.Lock()
	full := d.closed || len(d.pool.ready) >= d.cfg.Warm
	if !full {
		w := &warmBox{box: b, of: key}
		w.expire = time.AfterFunc(warmTime, func() { d.expireWarm(w) })
		d.pool.ready = append(d.pool.ready, w)
	}
	d.mu.Unlock()
	if full {
		d.closeWarm(b)
	}
}

// createAhead starts a sandbox. It fails if the image has been replaced.
func (d *Driver) createAhead(key poolKey) (*box, error) {
	lease, err := d.useImage(key.spec)
	if err != nil {
		return nil, err
	}
	path, err := d.checkInterpreter(key.spec.Runtime, lease)
	if err == nil && lease.ContentID() != key.image {
		err = tool.Errorf(tool.Conflict, "image %q was replaced", key.spec.Image)
	}
	if err != nil {
		return nil, errors.Join(err, lease.EndUse())
	}
	b := &box{d: d, spec: key.spec, image: lease, libraries: d.findLibraries(d.closing, key.spec, path, lease)}
	b, err = d.startKept(d.closing, b, path)
	python := key.spec.Runtime == "python" && lease != nil && len(lease.Warm) > 0
	if err != nil || !python && !needsCompiler(key.spec.Runtime) {
		return b, err
	}
	var modules []string
	if python {
		modules = lease.Warm
	}
	if err := b.prepareGuest(modules, startTime); err != nil {
		return nil, errors.Join(fmt.Errorf("import modules ahead: %w", err), b.Close())
	}
	return b, nil
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
