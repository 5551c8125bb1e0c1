package resident

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

type countedReleases struct{ n atomic.Int64 }

func (c *countedReleases) ReleaseMemory() { c.n.Add(1) }

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var released countedReleases
		i := NewIdleNotifier(time.Second, &released)
		expect := func(want int64, when string) {
			t.Helper()
			synctest.Wait()
			if n := released.n.Load(); n != want {
				t.Errorf("%s: released %d times, want %d", when, n, want)
			}
		}
		time.Sleep(time.Hour)
		expect(0, "without activity")
		for range 50 {
			i.NoteActivity()
			time.Sleep(100 * time.Millisecond)
		}
		expect(0, "during activity")
		time.Sleep(3 * time.Second)
		expect(1, "after activity")
		time.Sleep(time.Hour)
		expect(1, "long after activity")
		i.NoteActivity()
		time.Sleep(3 * time.Second)
		expect(2, "after one more activity")
		i.NoteActivity()
		i.StopWaiting()
		time.Sleep(time.Hour)
		expect(2, "after the end")
		(*IdleNotifier)(nil).NoteActivity()
		(*IdleNotifier)(nil).StopWaiting()
	})
}

func BenchmarkIdle(b *testing.B) {
	i := NewIdleNotifier(time.Hour, new(countedReleases))
	defer i.StopWaiting()
	for b.Loop() {
		i.NoteActivity()
	}
}
