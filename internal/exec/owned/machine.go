package owned

import (
	"context"
	"fmt"
	"sync"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// machines start and end the processes of sandboxes.
type machines struct {
	boxes
	guards sync.WaitGroup // of the files of running sandboxes
}

// startMachine starts the processes of a sandbox. Its turn is held.
func (ms *machines) startMachine(ctx context.Context, b *box) (sandbox.Machine, error) {
	if ms.cfg.Driver == nil {
		return nil, tool.Errorf(tool.Unavailable, "sandboxes can't run here: %w", ms.cfg.Unable)
	}
	if err := ms.makeRoom(b); err != nil {
		return nil, err
	}
	defer func() {
		ms.mu.Lock()
		defer ms.mu.Unlock()
		b.starts = false
	}()
	spec := sandbox.MachineSpec{Folder: ms.folderOf(b.rec.ID), Owner: b.rec.Owner, Image: b.rec.Image,
		Memory: b.rec.Memory, Processes: ms.cfg.Limits.Processes}
	ms.addNetwork(b, &spec)
	m, err := ms.cfg.Driver.CreateMachine(ctx, spec)
	if err != nil {
		return nil, err
	}
	ms.mu.Lock()
	gone := ms.closed || b.removed
	if !gone {
		b.machine = m
		ms.guards.Go(func() { ms.guardFiles(b, m) })
	}
	ms.mu.Unlock()
	if gone {
		if err := m.Close(); err != nil {
			return nil, err
		}
		return nil, errClosed
	}
	return m, nil
}

// dropMachine closes processes that have ended, or ends them, and notes why.
func (ms *machines) dropMachine(b *box, m sandbox.Machine, why string) {
	ms.mu.Lock()
	if b.machine == m {
		b.why = why // before operations under way notice the end
	}
	ms.mu.Unlock()
	if err := m.Close(); err != nil {
		ms.cfg.Log.Warn("sandbox not closed", "sandbox", b.rec.ID, "error", err)
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if b.machine == m {
		b.machine, b.frozen, b.shrunk, b.why = nil, false, false, why
	}
}

// makeRoom ends the processes of idle sandboxes until the processes of b may start. The principal
// with the most loses one first. b has its place until it no longer starts. b's turn is held.
func (ms *machines) makeRoom(b *box) error {
	l := ms.cfg.Limits
	for {
		ms.mu.Lock()
		all, own := 0, 0
		for _, o := range ms.by {
			if o.machine != nil || o.starts {
				all++
				if o.rec.Owner == b.rec.Owner {
					own++
				}
			}
		}
		var victim *box
		switch {
		case own >= l.RunningEach:
			victim = ms.findVictim(b.rec.Owner)
		case all >= l.Running:
			victim = ms.findVictim("")
		default:
			b.starts = true
			ms.mu.Unlock()
			return nil
		}
		ms.mu.Unlock()
		if victim == nil {
			return tool.Errorf(tool.Limit, "too many sandboxes are in use (%d of yours, at most %d; %d in all, "+
				"at most %d): wait for one, or end one", own, l.RunningEach, all, l.Running)
		}
		ms.stopBox(victim, nil, "other sandboxes needed its place")
	}
}

// findVictim returns the idle sandbox with processes that was unused for longest. It is one of
// owner, or, if empty, of the owner with the most. findVictim returns nil if there is none. s.mu is
// held.
func (ms *machines) findVictim(owner string) (victim *box) {
	have := map[string]int{}
	for _, b := range ms.by {
		if b.machine != nil {
			have[b.rec.Owner]++
		}
	}
	for _, b := range ms.by {
		switch {
		case b.machine == nil || b.users > 0 || len(b.turn) > 0 || owner != "" && b.rec.Owner != owner:
		case victim == nil, have[b.rec.Owner] > have[victim.rec.Owner],
			have[b.rec.Owner] == have[victim.rec.Owner] && b.since.Before(victim.since):
			victim = b
		}
	}
	return victim
}

// changeIdle changes the state of a sandbox unless it is in use. If isDue is not nil, it decides
// whether to change it; boxes.mu is held then.
func (ms *machines) changeIdle(b *box, isDue func() bool, change func(m sandbox.Machine)) {
	select {
	case b.turn <- struct{}{}:
	default:
		return // it is being used
	}
	defer func() { <-b.turn }()
	ms.mu.Lock()
	m := b.machine
	may := m != nil && b.users == 0 && (isDue == nil || isDue())
	ms.mu.Unlock()
	if may {
		change(m)
	}
}

// stopBox ends the processes of an idle sandbox; isDue is that of changeIdle.
func (ms *machines) stopBox(b *box, isDue func() bool, why string) {
	ms.changeIdle(b, isDue, func(m sandbox.Machine) { ms.dropMachine(b, m, why) })
}

// freezeBox freezes an idle sandbox; isDue is that of changeIdle.
func (ms *machines) freezeBox(b *box, isDue func() bool) {
	ms.changeIdle(b, isDue, func(m sandbox.Machine) {
		if err := m.FreezeGuest(); err != nil {
			ms.dropMachine(b, m, "it could not be frozen: "+tool.AsError(err).Msg)
			return
		}
		ms.mu.Lock()
		defer ms.mu.Unlock()
		b.frozen = true
	})
}

// shrinkBox reclaims memory of a frozen sandbox.
func (ms *machines) shrinkBox(b *box) {
	ms.changeIdle(b, nil, func(m sandbox.Machine) {
		freed, err := m.ReclaimMemory()
		ms.mu.Lock()
		defer ms.mu.Unlock()
		b.shrunk = true
		if b.lacks = ""; err != nil {
			b.lacks = fmt.Sprintf("of its memory, %s could be taken back: %s", text.Size(freed), err)
		}
	})
}

// thawBox thaws the processes of a sandbox. Its turn is held.
func (ms *machines) thawBox(b *box, m sandbox.Machine) {
	if err := m.ThawGuest(); err != nil {
		ms.dropMachine(b, m, tool.AsError(err).Msg)
	}
}
