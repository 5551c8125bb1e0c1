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
	for _, usual := range []procs{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) { relieves(t, usual) })
	}
}

func relieves(t *testing.T, usual procs) {
	p := usual
	r := newRelief(p.set)
	want := func(n procs, after time.Duration) {
		t.Helper()
		time.Sleep(after)
		synctest.Wait()
		if p != n {
			t.Fatalf("GOMAXPROCS is %d, not %d", p, n)
		}
	}
	for range r.most { // leave two processors
		r.begin()
	}
	want(usual, time.Second)
	for range 100 { // consecutive short entries
		n := r.begin()
		want(usual, pressure/3)
		r.end(n)
	}
	last := r.begin()
	for range 100 { // each entry begins before the previous one ends
		want(usual, pressure/3)
		next := r.begin()
		want(usual, pressure/3)
		r.end(last)
		last = next
	}
	want(usual+1, 3*pressure)
	r.end(last)
	want(usual+1, lull/2)
	last = r.begin()
	want(usual+1, 10*lull)
	r.end(last)
	want(usual, 2*lull)
	last = r.begin()
	want(usual+1, 3*pressure) // again
	r.close()
	want(usual, 2*lull)
	r.end(last)
	r.begin()
	want(usual, 2*lull)
}
