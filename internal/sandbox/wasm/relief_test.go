package wasm

import (
	"testing"
	"testing/synctest"
	"time"
)

// procs stands for runtime.GOMAXPROCS.
type procs int

func (p *procs) set(n int) int {
	was := int(*p)
	if n > 0 {
		*p = procs(n)
	}
	return was
}

func TestRelief(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := procs(2)
		turns := newTurns(2)
		turns.relief = newRelief(p.set)
		want := func(n procs, after time.Duration) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if p != n {
				t.Fatalf("GOMAXPROCS is %d, not %d", p, n)
			}
		}
		take := func() { turns.take(false, nil) }
		take()
		want(2, time.Second) // there is a processor left
		for range 100 {      // short entries, one after the other
			take()
			time.Sleep(pressure / 2)
			turns.give()
			want(2, 0)
		}
		take()
		want(3, 2*pressure)
		turns.give()
		want(3, lull/2)
		take()
		want(3, 10*lull)
		turns.give()
		want(2, 3*lull)
		take()
		want(3, 3*pressure) // again
		turns.relief.close()
		want(2, 0)
		turns.give()
		take()
		want(2, 3*lull)
	})
}
