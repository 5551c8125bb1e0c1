package soak

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// children returns the child processes that have not ended, or none if the system doesn't report
// them.
func children() (pids []int) {
	for pid, state := range started() {
		if state != "Z" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// started returns the child processes that were not waited for, with their states.
func started() map[int]string {
	all := map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, ok := strings.Cut(string(text), ") ") // the name before it can't contain this, since it is ours
		fields := strings.Fields(rest)
		if !ok || len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			all[pid] = fields[0]
		}
	}
	return all
}

// A usage is the resource usage of a process. Unknown values are 0.
type usage struct {
	goroutines, files, maps int
	resident                int64 // bytes
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d mappings, %.1f MB resident", u.goroutines, u.files, u.maps,
		float64(u.resident)/1e6)
}

// of returns the usage of a process.
func of(pid string) (u usage) {
	if names, err := os.ReadDir("/proc/" + pid + "/fd"); err == nil {
		u.files = len(names)
	}
	if text, err := os.ReadFile("/proc/" + pid + "/maps"); err == nil {
		u.maps = bytes.Count(text, []byte("\n"))
	}
	if text, err := os.ReadFile("/proc/" + pid + "/status"); err == nil {
		for l := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
				kb, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), " kB")), 10, 64)
				u.resident = kb * 1024
			}
		}
	}
	return u
}

// here returns the usage of this process, after a garbage collection.
func here() usage {
	debug.FreeOSMemory()
	u := of("self")
	u.goroutines = runtime.NumGoroutine()
	return u
}

// eventually waits until ok returns true, and fails the test if that takes too long.
func eventually(t testing.TB, what func() string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(2 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Errorf("timed out waiting until: %s", what())
			return
		}
	}
}
