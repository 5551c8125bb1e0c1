package audit

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestPacer(t *testing.T) {
	var added atomic.Int64
	now := time.Now()
	p := &pacer{added: &added, verified: new(atomic.Int64), until: now}
	expect := func(when string, want time.Duration) {
		t.Helper()
		if got := p.remainingPause(now); got != want {
			t.Errorf("%s, the pause is %v, want %v", when, got, want)
		}
	}
	now = now.Add(time.Hour)
	expect("without new leaves", 0)
	added.Add(2)
	now = now.Add(paceWork / 2)
	expect("after new leaves but little work", 0)
	now = now.Add(paceWork / 2)
	expect("after new leaves and a unit of work", paceShare*paceWork)
	now = now.Add(paceWork)
	expect("in another goroutine", (paceShare-1)*paceWork)
	now = now.Add(paceShare * paceWork)
	expect("without more leaves", 0)
	added.Add(1)
	now = now.Add(time.Hour)
	expect("after much work", maxPause)
}
