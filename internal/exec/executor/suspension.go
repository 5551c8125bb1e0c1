package executor

import (
	"context"
	"time"
)

// maxPatience limits how long calls must have been outstanding before a program is suspended. The
// delay grows when suspensions turn out to be short.
const maxPatience = time.Minute

// A suspension decides when a program that waits is suspended. It isn't safe for concurrent use.
type suspension struct {
	able     bool                    // the program can be suspended
	patience time.Duration           // how long its calls must have been outstanding
	active   time.Time               // time of the last message in either direction
	timer    *time.Timer             // when to check whether to suspend; nil: the program has not started
	set      bool                    // timer is running
	asleep   bool                    // the program is suspended
	held     bool                    // the guest blocks until its next line (GuestMessage.Hold)
	asking   int                     // questions of the guest that are being answered
	stopRun  context.CancelCauseFunc // ends the guest's current Run
}

// watchCalls starts the timer that checks whether the program's calls take long, unless it is
// running.
func (s *suspension) watchCalls() {
	if !s.set {
		s.checkIn(s.patience)
	}
}

// checkIn sets the timer to check after d, if the program can be suspended.
func (s *suspension) checkIn(d time.Duration) {
	if s.able && s.timer != nil {
		s.set = true
		s.timer.Reset(d)
	}
}

// remaining returns for how long the program must go on waiting before it is suspended, if it must
// have waited for at most most. It also returns when to check again if it can't be suspended then.
func (s *suspension) remaining(now time.Time, most time.Duration) (wait, again time.Duration) {
	patience := min(s.patience, most)
	return patience - now.Sub(s.active), patience / 4
}

// canPause reports whether the guest's state allows to pause it.
func (s *suspension) canPause() bool { return s.asking == 0 && !s.held }

// recordSuspension records that the program continues after it was suspended for d. If that was
// short, the next suspension comes later.
func (s *suspension) recordSuspension(d time.Duration) {
	s.active = time.Now()
	if d < 4*s.patience {
		s.patience = min(2*s.patience, max(maxPatience, s.patience))
	}
}
