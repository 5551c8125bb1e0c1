package child

import (
	"context"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// spareDelay is the delay between taking the spare process and starting the next one, so that
	// the program that took it goes first.
	spareDelay = 500 * time.Millisecond
	// busyTime is how long a new owner waits for a process when the maximum number is running.
	busyTime = 10 * time.Second
	// readyTime is how long a process may take to report that it is armed, or to complete any
	// operation other than a Run.
	readyTime = 30 * time.Second
)

// begin starts a process. The caller holds mu, and the driver is not closed.
func (d *Driver) begin() *process {
	p := newProcess(d)
	d.all[p] = true
	d.work.Go(func() {
		p.run()
		d.removeProcess(p)
	})
	return p
}

// removeProcess removes a process that has ended.
func (d *Driver) removeProcess(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, p)
	if d.current[p.owner] == p {
		delete(d.current, p.owner)
	}
	if d.spare == p {
		d.spare = nil // the next one is started on demand: this one may have failed permanently
	}
	d.change()
}

// change wakes the goroutines that wait for a process. The caller holds mu.
func (d *Driver) change() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// any returns any running process, or starts one.
func (d *Driver) any(ctx context.Context) (*process, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, errClosedDriver
	}
	p := d.spare
	if p == nil {
		for q := range d.all {
			p = q
			break
		}
	}
	if p == nil {
		d.spare = d.begin()
		p = d.spare
	}
	d.mu.Unlock()
	return p, p.awaitReady(ctx)
}

var errClosedDriver = &tool.Error{Kind: tool.Unavailable, Msg: "the sandboxes are closed: Biplane is stopping"}

// of returns the process for the owner's next sandbox. The caller must release it.
func (d *Driver) of(ctx context.Context, owner string) (*process, error) {
	p, err := d.claim(ctx, owner)
	if err != nil {
		return nil, err
	}
	if err := p.awaitReady(ctx); err != nil {
		d.release(p)
		return nil, err
	}
	return p, nil
}

func (d *Driver) claim(ctx context.Context, owner string) (*process, error) {
	var late <-chan time.Time
	for {
		d.mu.Lock()
		if d.closed {
			d.mu.Unlock()
			return nil, errClosedDriver
		}
		if p := d.find(owner); p != nil {
			p.acquire()
			d.mu.Unlock()
			return p, nil
		}
		changed := d.changed
		d.mu.Unlock()
		if late == nil {
			t := time.NewTimer(busyTime)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-changed:
		case <-d.idled:
		case <-ctx.Done():
			return nil, fmt.Errorf("make a sandbox: %w", context.Cause(ctx))
		case <-late:
			return nil, tool.Errorf(tool.Unavailable, "all %d engine processes are in use by others: try again later",
				d.cfg.Most)
		}
	}
}

// find returns the owner's process, or starts one. It returns nil if too many are running. The
// caller holds mu.
func (d *Driver) find(owner string) *process {
	p := d.current[owner]
	if p != nil && p.usable() {
		if p.countServed() < d.cfg.Served {
			return p
		}
		p.retire() // it ends with its last sandbox
	}
	switch {
	case d.spare != nil && d.spare.usable():
		p, d.spare = d.spare, nil
	case len(d.all) < d.cfg.Most || d.evict():
		p = d.begin()
	default:
		return nil
	}
	p.owner = owner
	d.current[owner] = p
	d.want()
	return p
}

// want schedules the start of a spare process. The caller holds mu.
func (d *Driver) want() {
	if d.wanted != nil {
		return
	}
	d.work.Add(1)
	d.wanted = time.AfterFunc(spareDelay, func() {
		defer d.work.Done()
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wanted = nil
		if !d.closed && d.spare == nil && len(d.all) < d.cfg.Most {
			d.spare = d.begin()
		}
	})
}

// evict kills the process that has been idle longest, and reports whether there was one. The caller
// holds mu.
func (d *Driver) evict() bool {
	var oldest *process
	var since time.Time
	for p := range d.all {
		if t, idle := p.idleSince(); idle && (oldest == nil || t.Before(since)) {
			oldest, since = p, t
		}
	}
	if oldest == nil {
		return false
	}
	oldest.kill("was ended for another owner's")
	delete(d.all, oldest) // it no longer counts, though it ends a moment later
	return true
}

// release releases a process that was returned by Driver.of.
func (d *Driver) release(p *process) {
	p.release()
}

// idle ends p if it has been idle for Config.Idle.
func (d *Driver) idle(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, idle := p.idleSince(); idle && d.current[p.owner] == p {
		delete(d.current, p.owner)
		p.kill("was idle")
	}
}
