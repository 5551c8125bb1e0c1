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

// children gives the processes that this one has started and that have not ended. Where the system doesn't say, none.
func children() (pids []int) {
	for pid, state := range started() {
		if state != "Z" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// started gives the processes that this one has started and not waited for, with their states.
func started() map[int]string {
	all := map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, rest, ok := strings.Cut(string(text), ") ") // the name before it may hold anything but this, since it is ours
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

// A usage is what a process holds. What the system doesn't tell is 0.
type usage struct {
	goroutines, files, maps int
	resident                int64 // bytes
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %d mappings, %.1f MB resident", u.goroutines, u.files, u.maps, float64(u.resident)/1e6)
}

// of gives what a process holds.
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

// here gives what this process holds, after what is garbage has gone.
func here() usage {
	debug.FreeOSMemory()
	u := of("self")
	u.goroutines = runtime.NumGoroutine()
	return u
}

// eventually waits until ok, which must come.
func eventually(t testing.TB, what func() string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Errorf("still not: %s", what())
			return
		}
	}
}
