package cputime_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/cputime"
)

// TestStartTimer checks that work counts, and that waiting doesn't.
func TestStartTimer(t *testing.T) {
	end := cputime.StartTimer()
	began := time.Now()
	for time.Since(began) < 5*time.Millisecond {
		continue
	}
	if d := end(); d <= 0 {
		t.Errorf("work took %v, want more than 0", d)
	}
	if runtime.GOOS != "linux" {
		return
	}
	end = cputime.StartTimer()
	const wait = 100 * time.Millisecond
	time.Sleep(wait)
	if d := end(); d >= wait/2 {
		t.Errorf("waiting %v took %v, want little", wait, d)
	}
}

func BenchmarkStartTimer(b *testing.B) {
	for b.Loop() {
		cputime.StartTimer()()
	}
}
