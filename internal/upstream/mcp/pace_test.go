package mcp

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestUsesDontAddUp checks that changes of a server's state, which callers can cause as often as
// they like, don't put off its next list without end.
func TestUsesDontAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := workload{fixed: time.Minute}
		w.measureList(func() {})
		for range 1000 {
			w.measureUse(func() {})
		}
		if got, want := w.pauseLeft(0), 2*busyFactor*time.Minute; got != want {
			t.Errorf("the next list waits for %v, want %v", got, want)
		}
		time.Sleep(time.Hour)
		w.measureUse(func() {})
		if got := w.pauseLeft(0); got != 0 {
			t.Errorf("after an hour, the next list waits for %v, want not at all", got)
		}
	})
}
