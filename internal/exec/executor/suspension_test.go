package executor

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSuspensionTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := suspension{allowed: true, patience: time.Second}
		s.watchCalls()
		if s.timerSet {
			t.Error("the timer is set before the program started")
		}
		checks := 0
		s.timer = time.AfterFunc(time.Hour, func() { checks++ })
		s.watchCalls()
		time.Sleep(900 * time.Millisecond)
		s.watchCalls() // a second call changes nothing
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if checks != 1 {
			t.Errorf("checked %d times after a second, want once", checks)
		}
		s.allowed = false
		s.checkIn(time.Second)
		time.Sleep(time.Minute)
		synctest.Wait()
		if checks != 1 {
			t.Errorf("checked %d times, though the program can't be suspended", checks)
		}
	})
}

func TestSuspensionRemaining(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := suspension{patience: 20 * time.Second, lastActive: now.Add(-5 * time.Second)}
	if wait, again := s.remaining(now, time.Minute); wait != 15*time.Second || again != 5*time.Second {
		t.Errorf("5 s of 20 s: %s remain, check again in %s; want 15 s and 5 s", wait, again)
	}
	if wait, _ := s.remaining(now, 4*time.Second); wait != -time.Second {
		t.Errorf("5 s of 4 s: %s remain, want -1 s", wait)
	}
}

func TestSuspensionCanPause(t *testing.T) {
	t.Parallel()
	for _, s := range []*suspension{{openQuestions: 1}, {blocked: true}} {
		if s.canPause() {
			t.Errorf("a guest is paused that blocks: asking %d, held %t", s.openQuestions, s.blocked)
		}
	}
	if s := (suspension{}); !s.canPause() {
		t.Error("a guest that only waits can't be paused")
	}
}

func TestSuspensionPatience(t *testing.T) {
	t.Parallel()
	s := suspension{patience: 20 * time.Second}
	s.recordSuspension(time.Hour)
	if s.patience != 20*time.Second {
		t.Errorf("patience %s after a long suspension, want 20 s", s.patience)
	}
	for range 3 {
		s.recordSuspension(time.Second)
	}
	if s.patience != maxPatience {
		t.Errorf("patience %s after three short suspensions, want %s", s.patience, maxPatience)
	}
}
