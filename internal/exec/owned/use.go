package owned

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// A Wake says from which state a sandbox was woken.
type Wake struct {
	From State         `json:"from"`
	Took time.Duration `json:"took"`
	Why  string        `json:"why,omitempty"` // why its processes had been ended
}

// A hold is the use of a sandbox by one operation.
type hold struct {
	*box
	all     *Sandboxes
	machine sandbox.Machine
	wake    Wake
	passed  int // labels that were passed to the caller
}

// holdBox makes a principal a user of its sandbox, which it doesn't wake. The caller calls endUse.
func (s *Sandboxes) holdBox(ctx context.Context, p tool.Principal, name string) (*hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.findBox(ctx, p, name)
	if err == nil && s.closed {
		err = errClosed
	}
	if err != nil {
		return nil, err
	}
	b.users++
	b.egress.user = p
	return &hold{box: b, all: s}, nil
}

// useBox wakes a principal's sandbox. The caller calls endUse. labels are those of the caller's
// data, which the sandbox keeps.
func (s *Sandboxes) useBox(ctx context.Context, p tool.Principal, name string, labels []string) (*hold, error) {
	h, err := s.holdBox(ctx, p, name)
	if err != nil {
		return nil, err
	}
	if err = s.bringLabels(ctx, h.box, labels); err == nil {
		err = h.wakeBox(ctx)
	}
	if err != nil {
		h.endUse()
		return nil, err
	}
	return h, nil
}

// wakeBox starts or thaws the processes.
func (h *hold) wakeBox(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	s := h.all
	began := time.Now()
	s.mu.Lock()
	m, from, removed := h.box.machine, h.currentState(), h.removed
	s.mu.Unlock()
	if removed {
		return tool.Errorf(tool.NotFound, "the sandbox was ended meanwhile")
	}
	if m != nil {
		select {
		case <-m.EndSignal():
			s.dropMachine(h.box, m, tool.AsError(m.EndReason()).Msg)
			m, from = nil, Stopped
		default:
		}
	}
	if m != nil && (from == Frozen || from == Reclaimed) {
		if err := m.ThawGuest(); err != nil {
			s.dropMachine(h.box, m, tool.AsError(err).Msg)
			m, from = nil, Stopped
		}
	}
	if m == nil {
		var err error
		if m, err = s.startMachine(ctx, h.box); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.machine, h.wake = m, Wake{From: from, Took: time.Since(began), Why: h.why}
	h.box.frozen, h.shrunk, h.why = false, false, ""
	return nil
}

// passLabels passes the sandbox's labels to the caller, before any output that may have them. They
// grow while an operation is under way, if another one brings data with labels.
func (h *hold) passLabels(o tool.Observer) error {
	h.all.mu.Lock()
	labels := h.rec.Labels
	h.all.mu.Unlock()
	if len(labels) == h.passed {
		return nil
	}
	if err := o.OnLabels(labels); err != nil {
		return err
	}
	h.passed = len(labels)
	return nil
}

// takeNotes returns the notes that were added since the last answer.
func (h *hold) takeNotes() []string {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	notes := h.egress.notes
	h.egress.notes = nil
	return notes
}

// beginRemoving notes that files are being removed, until end is called.
func (h *hold) beginRemoving() (end func()) {
	count := func(n int) {
		h.all.mu.Lock()
		defer h.all.mu.Unlock()
		h.removes += n
	}
	count(1)
	return func() { count(-1) }
}

// endUse ends the use of a sandbox.
func (h *hold) endUse() {
	s := h.all
	s.mu.Lock()
	now := s.cfg.Clock.Now().UTC()
	h.users--
	h.since, h.rec.Used = now, now
	s.mu.Unlock()
	if err := s.saveRecord(context.Background(), h.box); err != nil {
		s.cfg.Log.Warn("use of a sandbox not stored", "sandbox", h.rec.ID, "error", err)
	}
	s.wakeKeeper()
}
