package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// WarmImage starts a sandbox of an image ahead, claims it to measure that, and starts another one,
// which waits. If the pool is full, sandboxes of other specs make room.
func (d *Driver) WarmImage(ctx context.Context, spec sandbox.Spec) (out sandbox.Warmth, err error) {
	spec.Owner = ""
	lease, err := d.useImage(spec)
	if err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, lease.EndUse()) }()
	switch _, err := d.checkInterpreter(spec.Runtime, lease); {
	case err != nil:
		return out, err
	case d.cfg.Warm == 0:
		return out, tool.Errorf(tool.Unavailable, "no sandboxes are started ahead here")
	case lease != nil && len(lease.Mounts) > 0:
		return out, tool.Errorf(tool.Invalid, "image %q has folders or volumes, which are those of a program's "+
			"principal: its sandboxes aren't started ahead", spec.Image)
	}
	key := poolKey{spec, lease.ContentID()}
	began := time.Now()
	if err := d.fillPool(ctx, key); err != nil {
		return out, err
	}
	out.Start, out.For = time.Since(began), warmTime
	began = time.Now()
	if b := d.claimBox(spec, lease); b != nil { // else a program has claimed it
		err := b.awaitIdle()
		out.Claim = time.Since(began)
		if err := errors.Join(err, b.Close()); err != nil {
			return out, fmt.Errorf("claim a sandbox of image %q: %w", spec.Image, err)
		}
	}
	if err := d.fillPool(ctx, key); err != nil {
		return out, err
	}
	out.Ready = d.countReady(key)
	return out, nil
}

// fillPool starts a sandbox ahead, unless one waits.
func (d *Driver) fillPool(ctx context.Context, key poolKey) error {
	if d.countReady(key) > 0 {
		return nil
	}
	if availableMemory() < warmMemory {
		return tool.Errorf(tool.Unavailable, "this host has less than 1 GiB of memory left, so no sandbox is started "+
			"ahead: stop something, or wait")
	}
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return errDriverClosed
	}
	made := make(chan error, 1)
	d.fills.Go(func() {
		b, err := d.createAhead(key)
		switch {
		case err != nil:
		case d.countReady(key) > 0: // claimBox had one started meanwhile
			d.closeWarm(b)
		default:
			d.makeRoom()
			d.addWarm(key, b)
		}
		made <- err
	})
	d.mu.Unlock()
	select {
	case err := <-made:
		return err
	case <-ctx.Done(): // the sandbox is kept when it is ready
		return context.Cause(ctx)
	}
}

// makeRoom closes the sandbox that waits longest, if the pool is full.
func (d *Driver) makeRoom() {
	d.mu.Lock()
	var oldest *warmBox
	if len(d.pool.ready) >= d.cfg.Warm && d.pool.ready[0].expire.Stop() {
		oldest = d.pool.ready[0]
		d.pool.ready = d.pool.ready[1:]
	}
	d.mu.Unlock()
	if oldest != nil {
		d.closeWarm(oldest.box)
	}
}

// countReady returns the number of sandboxes that wait and are alike.
func (d *Driver) countReady(key poolKey) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.pool.ready {
		if w.of == key {
			n++
		}
	}
	return n
}

// awaitIdle waits until the agent answers. It is called before the first Run.
func (b *box) awaitIdle() error {
	ctx, cancel := context.WithTimeout(b.d.closing, startTime)
	defer cancel()
	defer context.AfterFunc(ctx, b.killProcess)()
	if err := b.sendFrame(frameEnd, nil); err != nil {
		return err
	}
	kind, _, err := b.readFrame()
	if err == nil && kind != frameIdle {
		err = fmt.Errorf("the agent of the sandbox sent %q", kind)
	}
	return err
}
