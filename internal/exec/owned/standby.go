package owned

import (
	"context"
	"time"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/tool"
)

// SuspendSandbox freezes the processes of a principal's sandbox before it is idle for long enough.
func (s *Sandboxes) SuspendSandbox(ctx context.Context, p tool.Principal, name string) (*Info, error) {
	s.mu.Lock()
	b, err := s.findBox(ctx, p, name)
	idle := err == nil && b.currentState() == Idle
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if idle {
		s.freezeBox(b, nil)
		s.mu.Lock()
		b.since = s.cfg.Clock.Now().UTC() // its processes are ended Limits.EndAfter from now
		s.mu.Unlock()
		s.wakeKeeper()
	}
	i := s.describeBox(b)
	if i.State == Running || i.State == Idle {
		return nil, tool.Errorf(tool.Conflict, "the sandbox is in use: wait for its operations to end, then suspend it")
	}
	return i, nil
}

// ResumeSandbox starts or thaws the processes of a principal's sandbox. labels are those of the
// caller's data.
func (s *Sandboxes) ResumeSandbox(ctx context.Context, p tool.Principal, name string, labels []string) (*Info, error) {
	h, err := s.useBox(ctx, p, name, labels)
	if err != nil {
		return nil, err
	}
	h.endUse()
	return s.describeBox(h.box), nil
}

// wakeKeeper makes RunKeeper look at the deadlines again.
func (s *Sandboxes) wakeKeeper() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// RunKeeper sends idle sandboxes to standby and removes expired ones, until ctx is done.
func (s *Sandboxes) RunKeeper(ctx context.Context) {
	for {
		next := s.SweepIdle(ctx)
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-s.kick:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// A due is the next change of a sandbox's state, and its time.
type due struct {
	box  *box
	what State // Frozen, Stopped; empty: it is removed
	at   time.Time
}

// nextChange returns the next change of a sandbox. boxes.mu is held.
func (s *Sandboxes) nextChange(b *box) (d due, ok bool) {
	l := s.cfg.Limits
	unused := l.Unused
	if b.rec.Idle > 0 {
		unused = b.rec.Idle
	}
	d = due{b, "", b.since.Add(unused)}
	if b.users > 0 {
		d.at = s.cfg.Clock.Now().Add(unused) // not while it is in use
	}
	if e := b.rec.Expires; !e.IsZero() && e.Before(d.at) {
		d.at = e
	}
	standby := l.Standby
	if b.rec.Standby != 0 {
		standby = b.rec.Standby
	}
	var other due
	switch b.currentState() {
	case Idle:
		if standby < 0 {
			return d, true
		}
		other = due{b, Frozen, b.since.Add(standby)}
	case Frozen, Reclaimed:
		other = due{b, Stopped, b.since.Add(l.EndAfter)}
	default:
		return d, true
	}
	if other.at.Before(d.at) {
		d = other
	}
	return d, true
}

// SweepIdle makes the changes that are due, and returns after which time the next one is.
func (s *Sandboxes) SweepIdle(ctx context.Context) time.Duration {
	s.mu.Lock()
	if err := s.loadRecords(ctx); err != nil {
		s.mu.Unlock()
		s.cfg.Log.Warn("sandboxes not read", "error", err)
		return time.Minute
	}
	now, next := s.cfg.Clock.Now(), time.Hour
	var todo []due
	for _, b := range s.by {
		d, ok := s.nextChange(b)
		switch wait := d.at.Sub(now); {
		case !ok:
		case wait <= 0:
			todo = append(todo, d)
			next = time.Second // what follows, or another try
		default:
			next = min(next, wait)
		}
	}
	s.mu.Unlock()
	for _, d := range todo {
		isDue := func() bool { // changes before this one take time: it may have been used meanwhile
			now, ok := s.nextChange(d.box)
			return ok && now.what == d.what && !now.at.After(s.cfg.Clock.Now())
		}
		switch d.what {
		case Frozen:
			s.freezeBox(d.box, isDue)
		case Stopped:
			s.stopBox(d.box, isDue, "it was not used for "+text.Setting(s.cfg.Limits.EndAfter))
		default:
			if len(d.box.turn) > 0 {
				continue // it stands still for long, or starts: the others must not wait for it
			}
			if err := s.removeBox(ctx, d.box, isDue); err != nil {
				s.cfg.Log.Warn("expired sandbox not removed", "sandbox", d.box.rec.ID, "error", err)
			}
		}
	}
	s.relieveMemory()
	return max(next, 10*time.Millisecond)
}
