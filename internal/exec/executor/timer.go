package executor

import (
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/tool"
)

// now returns the time that the program sees, in milliseconds since the epoch.
func (r *run) now() int64 {
	if r.plan != nil {
		return r.plan.now()
	}
	return r.x.cfg.Now().UnixMilli()
}

// seed returns the seed of the program's random numbers.
func (r *run) seed() string {
	if r.plan != nil {
		return r.plan.seed
	}
	return newSeed()
}

// maxTimer is the maximum delay of a program's timer, in milliseconds: no execution lasts longer.
const maxTimer = 1 << 31

// setTimer sets the program's single wake-up timer to ms milliseconds, or stops it if ms is
// negative.
func (r *run) setTimer(ms float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clock.stopTimer()
	if ms >= 0 {
		wait := max(time.Duration(min(ms, maxTimer)*float64(time.Millisecond))-r.history.Behind(r.now()), 0)
		r.clock.setTimer(wait)
		if r.plan != nil {
			r.plan.timer(ms)
		}
	}
}

// awake tells the program that its timer has expired.
func (r *run) awake() {
	r.mu.Lock()
	r.clock.forgetTimer()
	r.suspension.active = time.Now()
	r.mu.Unlock()
	if r.plan != nil {
		r.plan.wake()
	}
	line, err := tool.Marshal(sandbox.HostMessage{Wake: &sandbox.Wake{}, At: r.now()})
	if err == nil {
		err = r.stream.Send(line, about{at: r.now()}, false)
	}
	if err != nil {
		r.x.cfg.Log.Debug("wake a guest", "execution", r.id, "error", err)
	}
}
