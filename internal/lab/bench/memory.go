package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// restTime is how long processes are idle before their memory is measured.
const restTime = 5 * time.Second

// idleMemory returns the resident memory of a process and its descendants after restTime.
func (r *runner) idleMemory(ctx context.Context, pid int) (float64, error) {
	select {
	case <-time.After(r.measuringTime(restTime)):
		return residentMemory(ctx, pid)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// residentMemory returns the resident memory of a process and its descendants, in bytes. Pages that
// they share are counted once. If the system doesn't report that about a process, all its pages
// count, as in the system's tools.
func residentMemory(ctx context.Context, pid int) (float64, error) {
	if runtime.GOOS == "windows" {
		return 0, fmt.Errorf("not on %s yet", runtime.GOOS)
	}
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,ppid=,rss=").Output()
	if err != nil {
		// no ps here: without children
		if v, err := readKibibytes(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:"); err == nil {
			return v, nil
		}
		return 0, fmt.Errorf("ps: %w", err)
	}
	type process struct {
		pid, parent int
		kib         float64
	}
	var all []process
	for l := range strings.Lines(string(out)) {
		var p process
		if _, err := fmt.Sscan(l, &p.pid, &p.parent, &p.kib); err == nil {
			all = append(all, p)
		}
	}
	sum, family := 0.0, map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, p := range all {
			if !family[p.pid] && (p.pid == pid || family[p.parent]) {
				family[p.pid], grown = true, true
				share, err := readKibibytes(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid), "Pss:")
				if err != nil { // another user's process, or another system
					share = p.kib * 1024
				}
				sum += share
			}
		}
	}
	if !family[pid] {
		return 0, fmt.Errorf("ps doesn't list process %d", pid)
	}
	return sum, nil
}

// ownMemory returns the memory used by this process, in bytes: its proportional share of pages, and
// its page tables. Pages of files don't count, where the kernel tells them apart (since 5.9): the
// program's code is mapped and dropped at any time, and doesn't grow with what is measured.
func ownMemory() (float64, error) {
	debug.FreeOSMemory()
	debug.FreeOSMemory() // what a sync.Pool keeps is freed by the second collection
	pages, err := readKibibytes("/proc/self/smaps_rollup", "Pss:")
	if err != nil {
		return 0, err
	}
	if files, err := readKibibytes("/proc/self/smaps_rollup", "Pss_File:"); err == nil {
		pages -= files
	}
	tables, err := readKibibytes("/proc/self/status", "VmPTE:")
	return pages + tables, err
}

// readKibibytes reads a value in kB from a line of a kernel file, and returns it in bytes.
func readKibibytes(file, label string) (float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), label); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), " kB")), 64)
			return n * 1024, err
		}
	}
	return 0, fmt.Errorf("%s has no %s", filepath.Base(file), label)
}
