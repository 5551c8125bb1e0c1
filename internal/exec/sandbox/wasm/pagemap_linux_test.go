//go:build linux && (amd64 || arm64)

package wasm

import (
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestScanPagesWhileStacksMove checks that scanPages finds the same pages while stacks move. The
// kernel gets the buffer's address as a number, which must stay valid meanwhile.
func TestScanPagesWhileStacksMove(t *testing.T) {
	f := openPagemap()
	if f == nil {
		t.Skip("this system has no page map that can be scanned")
	}
	defer f.Close()
	const parts = 3*scanRegions + 1
	b, err := unix.Mmap(-1, 0, 2*parts*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatalf("unix.Mmap: %v", err)
	}
	defer unix.Munmap(b)
	if err := unix.Madvise(b, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL {
		t.Fatalf("err = %v, want err == nil || err == unix.EINVAL", err)
	}
	for i := range parts {
		b[2*i*pageSize] = 1
	}
	stop := make(chan struct{})
	var collector, wg sync.WaitGroup
	collector.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC() // shrinks stacks
			}
		}
	})
	for depth := range 300 {
		wg.Go(func() {
			scanAt(1000+10*depth, func() ([][2]int, bool) { return nil, true }) // grows the stack
			got, ok := scanAt(depth, func() ([][2]int, bool) { return scanPages(f, b) })
			if !ok || len(got) != parts {
				t.Errorf("depth %d: %d parts (%t), want %d", depth, len(got), ok, parts)
			}
		})
	}
	wg.Wait()
	close(stop)
	collector.Wait()
}

// scanAt calls f at a stack depth of depth frames.
//
//go:noinline
func scanAt(depth int, f func() ([][2]int, bool)) ([][2]int, bool) {
	if depth == 0 {
		return f()
	}
	return scanAt(depth-1, f)
}
