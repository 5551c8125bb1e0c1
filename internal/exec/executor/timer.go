package executor

import (
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// now returns the time that the program sees, in milliseconds since the epoch.
func (v *env) now() int64 {
	if v.plan != nil {
		return v.plan.now()
	}
	return v.x.cfg.Now().UnixMilli()
}

// seed returns the seed of the program's random numbers.
func (v *env) seed() string {
	if v.plan != nil {
		return v.plan.seed
	}
	return newSeed()
}

// maxTimer is the maximum delay of a program's timer, in milliseconds: no execution lasts longer.
const maxTimer = 1 << 31

// setTimer sets the program's single wake-up timer to ms milliseconds, or stops it if ms is
// negative.
func (s *state) setTimer(ms float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock.stopTimer()
	if ms >= 0 {
		wait := max(time.Duration(min(ms, maxTimer)*float64(time.Millisecond))-s.history.Behind(s.now()), 0)
		s.clock.setTimer(wait)
		if s.plan != nil {
			s.plan.timer(ms)
		}
	}
}

// wakeGuest tells the program that its timer has expired.
func (d *dialog) wakeGuest() {
	d.state.mu.Lock()
	d.state.clock.forgetTimer()
	d.state.suspension.active = time.Now()
	d.state.mu.Unlock()
	if d.plan != nil {
		d.plan.wake()
	}
	line, err := tool.Marshal(sandbox.HostMessage{Wake: &sandbox.Wake{}, At: d.now()})
	if err == nil {
		err = d.stream.Send(line, about{at: d.now()}, false)
	}
	if err != nil {
		d.x.cfg.Log.Debug("wake a guest", "execution", d.id, "error", err)
	}
}
