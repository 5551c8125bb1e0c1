//go:build linux

package process

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRunOnThread checks that the first thread of the process never starts a sandbox, also if the
// caller runs on it.
func TestRunOnThread(t *testing.T) {
	onFirst := false
	for range 1000 {
		if unix.Gettid() == unix.Getpid() {
			onFirst = true
		}
		thread := make(chan int)
		runOnThread(func() {
			defer runtime.UnlockOSThread()
			thread <- unix.Gettid()
		})
		if id := <-thread; id == unix.Getpid() {
			t.Fatalf("it ran on thread %d, the first", id)
		}
	}
	t.Logf("the test itself was on the first thread: %t", onFirst)
}
