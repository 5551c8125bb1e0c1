package executor

import (
	"context"
	"math"
	"sync"
	"time"
)

// maxPatience limits how long calls must have been outstanding before a program is suspended. The
// delay grows when suspensions turn out to be short.
const maxPatience = time.Minute

// A suspension decides when a program that waits is suspended. It is safe for concurrent use.
type suspension struct {
	mu            sync.Mutex              // guards the fields below
	allowed       bool                    // the program can be suspended
	patience      time.Duration           // how long its calls must have been outstanding
	lastActive    time.Time               // time of the last message in either direction
	timer         *time.Timer             // when to check whether to suspend; nil: the program has not started
	timerSet      bool                    // timer is running
	blocked       bool                    // the guest blocks until its next line (GuestMessage.Hold)
	openQuestions int                     // questions of the guest that are being answered
	stopRun       context.CancelCauseFunc // ends the guest's current Run
}

// start calls check in a separate goroutine whenever the program may have waited for long enough.
func (s *suspension) start(check func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastActive, s.timerSet = time.Now(), false
	s.timer = time.AfterFunc(math.MaxInt64, check)
}

// stop ends the checks.
func (s *suspension) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timer.Stop()
}

// setAble sets whether the program can be suspended.
func (s *suspension) setAble(able bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.allowed = able
}

// startRun records that the guest runs until stop is called. It reports whether the program can be
// suspended.
func (s *suspension) startRun(stop context.CancelCauseFunc) (able bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopRun = stop
	return s.allowed
}

// currentRun returns the function that ends the guest's current Run.
func (s *suspension) currentRun() context.CancelCauseFunc {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopRun
}

// markActive records a message in either direction.
func (s *suspension) markActive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastActive = time.Now()
}

// setHeld records whether the guest blocks until its next line.
func (s *suspension) setHeld(held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blocked = held
}

// beginQuestion records that the guest blocks until a question is answered.
func (s *suspension) beginQuestion() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openQuestions++
}

// endQuestion records that a question was answered.
func (s *suspension) endQuestion() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openQuestions--
	s.lastActive = time.Now()
}

// watchCalls starts the timer that checks whether the program's calls take long, unless it is
// running.
func (s *suspension) watchCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.timerSet {
		s.setTimer(s.patience)
	}
}

// checkIn sets the timer to check after d, if the program can be suspended.
func (s *suspension) checkIn(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setTimer(d)
}

// setTimer is like checkIn, for callers that hold s.mu.
func (s *suspension) setTimer(d time.Duration) {
	if s.allowed && s.timer != nil {
		s.timerSet = true
		s.timer.Reset(d)
	}
}

// endCheck records that the timer has expired.
func (s *suspension) endCheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timerSet = false
}

// tryPause calls pause if the program has waited for long enough, and otherwise checks again later.
// A program that waits only for people waits for at most heldPatience. A program whose own timer
// expires soon isn't paused; soon is negative if its timer isn't set.
func (s *suspension) tryPause(now time.Time, heldOnly bool, soon time.Duration, pause func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.patience
	if heldOnly {
		most = heldPatience
	}
	wait, again := s.remaining(now, most)
	if soon >= 0 && soon < s.patience {
		wait = max(wait, soon)
	}
	if wait <= 0 && s.canPause() && pause() {
		return
	}
	s.setTimer(max(wait, again))
}

// remaining returns how much longer the program must wait before it is suspended. The required time
// is s.patience, but at most most. It also returns when to check again if the program can't be
// suspended then. s.mu is held.
func (s *suspension) remaining(now time.Time, most time.Duration) (wait, again time.Duration) {
	patience := min(s.patience, most)
	return patience - now.Sub(s.lastActive), patience / 4
}

// canPause reports whether the guest's state allows to pause it. s.mu is held.
func (s *suspension) canPause() bool { return s.openQuestions == 0 && !s.blocked }

// recordSuspension records that the program continues after it was suspended for d. If that was
// short, the next suspension comes later.
func (s *suspension) recordSuspension(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastActive = time.Now()
	if d < 4*s.patience {
		s.patience = min(2*s.patience, max(maxPatience, s.patience))
	}
}
