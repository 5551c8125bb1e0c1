package mcp

import "time"

// A timer is a time.Timer that may be absent.
type timer struct {
	t *time.Timer
	c <-chan time.Time
}

func newTimer(d time.Duration) timer {
	if d <= 0 {
		return timer{}
	}
	t := time.NewTimer(d)
	return timer{t, t.C}
}

func (t timer) renewTimer(d time.Duration) {
	if t.t != nil {
		t.t.Reset(d)
	}
}

func (t timer) stop() {
	if t.t != nil {
		t.t.Stop()
	}
}
