package live

import (
	"context"

	"github.com/biplane-dev/biplane/internal/exec/session/guest"
	"github.com/biplane-dev/biplane/internal/tool"
)

// SuspendSession moves a session of p from memory to the store, as an idle one is after a while.
// The error has kind conflict if a program runs in it or waits for it.
func (s *Sessions) SuspendSession(ctx context.Context, p tool.Principal, name string) (*Info, error) {
	h, err := s.acquireFree(ctx, p, name, "suspend")
	if err != nil {
		return nil, err
	}
	defer h.Release()
	if h.state.HasProcess() {
		return nil, errProcess(name, "suspended")
	}
	if err := h.closeGuests(); err != nil {
		return nil, err
	}
	return s.describeHold(ctx, h), nil
}

// ResumeSession loads the guests of a session of p into memory, so that its next program begins at
// once. Like all sessions in memory, it is suspended when it is idle for long, or when others need
// its place.
func (s *Sessions) ResumeSession(ctx context.Context, p tool.Principal, name string) (*Info, error) {
	h, err := s.acquireFree(ctx, p, name, "resume")
	if err != nil {
		return nil, err
	}
	defer h.Release()
	if h.state.HasProcess() {
		return nil, errProcess(name, "resumed")
	}
	for i := range h.state.Guests {
		g := &h.state.Guests[i]
		if h.hot[g.Language] != nil {
			continue
		}
		src, err := s.cfg.Guests.FindKind(ctx, guest.KindOf(h.state, g), g.Language)
		if err != nil {
			return nil, err
		}
		box, _, err := h.Guest(ctx, src, g.Language)
		if err != nil {
			return nil, err
		}
		h.Keep(g.Language, box)
	}
	return s.describeHold(ctx, h), nil
}

// acquireFree does the same as acquireExisting, but does not wait for programs.
func (s *Sessions) acquireFree(ctx context.Context, p tool.Principal, name, verb string) (*Hold, error) {
	if err := s.requireStore(); err != nil {
		return nil, err
	}
	if users, _, _ := s.look(key{p.ID, name}); users > 0 {
		return nil, tool.Errorf(tool.Conflict, "session %q is in use: wait until its programs have ended, "+
			"and %s it then", name, verb)
	}
	return s.acquireExisting(ctx, p, name)
}

// describeHold returns the session as it is when the hold has been released.
func (s *Sessions) describeHold(ctx context.Context, h *Hold) *Info {
	i := s.info(ctx, h.rec)
	if i.State = "suspended"; len(h.hot) > 0 {
		i.State = "hot"
	}
	return &i
}
