package child

import (
	"context"
	"fmt"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

const (
	// spareDelay is how long after one process was taken the next spare is begun: the program that took it goes first.
	spareDelay = 500 * time.Millisecond
	// busyTime is how long a new owner waits for a process when there are as many as there may be.
	busyTime = 10 * time.Second
	// readyTime is how long a process has to say that it is armed, and to do anything that isn't a Run.
	readyTime = 30 * time.Second
)

// begin begins a process. The caller holds mu, and the driver is not closed.
func (d *Driver) begin() *process {
	p := newProcess(d)
	d.all[p] = true
	d.work.Go(func() {
		p.run()
		d.ended(p)
	})
	return p
}

// ended forgets a process that has ended.
func (d *Driver) ended(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, p)
	if d.current[p.owner] == p {
		delete(d.current, p.owner)
	}
	if d.spare == p {
		d.spare = nil // the next one is begun when it is needed: this one may have failed for good
	}
	d.change()
}

// change wakes those who wait for a process. The caller holds mu.
func (d *Driver) change() {
	close(d.changed)
	d.changed = make(chan struct{})
}

// any gives some process.
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
	return p, p.wait(ctx)
}

var errClosedDriver = &tool.Error{Kind: tool.Unavailable, Msg: "the sandboxes are closed: Biplane is stopping"}

// of gives the process in which the owner's next sandbox is made, and holds it until release.
func (d *Driver) of(ctx context.Context, owner string) (*process, error) {
	p, err := d.claim(ctx, owner)
	if err != nil {
		return nil, err
	}
	if err := p.wait(ctx); err != nil {
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
			p.hold()
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
			return nil, tool.Errorf(tool.Unavailable, "all %d engine processes are in use by others: try again later", d.cfg.Most)
		}
	}
}

// find finds or begins the owner's process. It gives nil when there are too many. The caller holds mu.
func (d *Driver) find(owner string) *process {
	p := d.current[owner]
	if p != nil && p.usable() {
		if p.served() < d.cfg.Served {
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

// want begins a spare process soon. The caller holds mu.
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

// evict ends the process that has been idle longest, and reports whether there is one. The caller holds mu.
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
	oldest.end("was ended for another owner's")
	delete(d.all, oldest) // it counts no more, though it takes a moment to end
	return true
}

// release lets go of a process that of gave.
func (d *Driver) release(p *process) {
	p.letGo()
}

// idle hears that p has no sandbox left, for as long as it may wait for one.
func (d *Driver) idle(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, idle := p.idleSince(); idle && d.current[p.owner] == p {
		delete(d.current, p.owner)
		p.end("was idle")
	}
}
