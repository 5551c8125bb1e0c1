package owned

import (
	"context"

	"github.com/biplane-dev/biplane/internal/tool"
)

// A FrozenSandbox is a sandbox whose processes are frozen while its files are used.
type FrozenSandbox struct {
	ID       string
	Folder   string // its files
	Image    string
	MaxBytes int64 // that its files may have
	MaxFiles int

	all *Sandboxes
	box *box
}

// ListLabels returns the labels of the sandbox's data.
func (s *FrozenSandbox) ListLabels() []string {
	s.all.mu.Lock()
	defer s.all.mu.Unlock()
	return s.box.rec.Labels
}

// UseFrozen freezes the processes of a principal's sandbox, calls use, and thaws them. The sandbox
// must not be in use. Operations that begin meanwhile wait.
func (s *Sandboxes) UseFrozen(ctx context.Context, p tool.Principal, name string,
	use func(*FrozenSandbox) error) error {
	s.mu.Lock()
	b, err := s.findBox(ctx, p, name)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-b.turn }()
	s.mu.Lock()
	m, busy, idle, gone := b.machine, b.users > 0, b.frozen, b.removed || s.closed
	frozen := &FrozenSandbox{ID: b.rec.ID, Folder: s.folderOf(b.rec.ID), Image: b.rec.Image,
		MaxBytes: s.cfg.Limits.Disk, MaxFiles: s.cfg.Limits.Files, all: s, box: b}
	s.mu.Unlock()
	switch {
	case gone:
		return tool.Errorf(tool.NotFound, "the sandbox was ended meanwhile")
	case busy:
		return tool.Errorf(tool.Conflict, "the sandbox is in use: wait for its operations to end")
	case m != nil && !idle:
		if err := m.FreezeGuest(); err != nil { // some of its processes may be frozen now
			s.dropMachine(b, m, "it could not be frozen: "+tool.AsError(err).Msg)
			return err
		}
		defer s.thawBox(b, m)
	}
	return use(frozen)
}
