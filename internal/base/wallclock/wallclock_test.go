package wallclock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		var system *Clock
		moved, still, stepping := new(Clock), At(noon), Stepping(noon, time.Second)
		check := func(name string, c *Clock, want time.Time) {
			t.Helper()
			if got := c.Now(); !got.Equal(want) {
				t.Errorf("the %s clock returned %v, want %v", name, got, want)
			}
		}
		moved.Advance(time.Hour)
		time.Sleep(time.Minute)
		check("system's", system, time.Now())
		check("moved", moved, time.Now().Add(time.Hour))
		check("still", still, noon)
		check("stepping", stepping, noon.Add(time.Second))
		check("stepping", stepping, noon.Add(2*time.Second))
		still.Advance(-time.Hour)
		check("set back", still, noon.Add(-time.Hour))
		still.Set(noon.Add(time.Minute))
		check("set", still, noon.Add(time.Minute))
	})
}
