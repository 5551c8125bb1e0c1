package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/tool"
)

// FreezeGuest stops all processes of the sandbox: by its control group, or otherwise by signals.
func (b *box) FreezeGuest() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running || b.closed || b.failed != nil {
		return nil
	}
	return b.stopProcesses(true)
}

// ThawGuest lets the processes continue. It fails if the first of them has ended.
func (b *box) ThawGuest() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failed != nil {
		return b.failed
	}
	select {
	case <-b.ended:
		if b.hasMemoryKill() {
			return memoryLimit(b.spec.Memory)
		}
		return tool.Errorf(tool.Unavailable, "its first process ended: %s", b.state)
	default:
	}
	if b.running {
		return nil
	}
	return b.stopProcesses(false)
}

// UsedMemory returns the memory that the sandbox uses, in bytes.
func (b *box) UsedMemory() int64 {
	if n := b.usedMemory(); n > 0 {
		return n
	}
	var total int64
	for _, pid := range listProcesses(b.process.Pid) {
		total += residentMemory(pid)
	}
	return total
}

// stopProcesses stops the processes, or lets them continue. b.mu is held.
func (b *box) stopProcesses(stop bool) error {
	if b.frozen == stop {
		return nil
	}
	var err error
	if b.group.freezer != "" {
		err = b.group.stopProcesses(stop)
	} else {
		err = signalAll(b.process.Pid, stop)
	}
	if err != nil {
		return fmt.Errorf("stop the processes of a sandbox, or let them continue: %w", err)
	}
	b.frozen = stop
	return nil
}

// signalAll stops a process and its descendants, or lets them continue. While it stops them, others
// may start; so it looks again until it finds no more.
func signalAll(first int, stop bool) error {
	signal := unix.SIGCONT
	if stop {
		signal = unix.SIGSTOP
	}
	done := map[int]bool{}
	for more := true; more; {
		more = false
		for _, pid := range listProcesses(first) {
			if done[pid] {
				continue
			}
			done[pid], more = true, true
			if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// listProcesses returns a process and its descendants. If the first process of a sandbox is given,
// these are all, since it becomes the parent of each process whose parent ends.
func listProcesses(first int) []int {
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil // the pattern is valid
	}
	children := map[int][]int{}
	for _, path := range all {
		stat, _ := os.ReadFile(path) // it may have ended
		i := bytes.LastIndex(stat, []byte(") "))
		pid, err := strconv.Atoi(strings.Split(path, "/")[2])
		if f := strings.Fields(string(stat[i+1:])); i >= 0 && len(f) > 1 && err == nil {
			if parent, err := strconv.Atoi(f[1]); err == nil {
				children[parent] = append(children[parent], pid)
			}
		}
	}
	out := []int{first}
	for i := 0; i < len(out); i++ {
		out = append(out, children[out[i]]...)
	}
	return out
}

// residentMemory returns the memory of a process, in bytes, or 0 if unknown.
func residentMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// allowTime renews the limit of the CPU time of the first process, if it has one: the limit is that
// of one program. Other processes keep theirs. If the limit can't be renewed, it ends the sandbox
// earlier, with an error that names it.
func (b *box) allowTime() {
	if b.spec.CPU == 0 || b.d.groups.findOnce().canCountCPU() {
		return
	}
	most := uint64((processTime(b.process.Pid)+b.spec.CPU)/time.Second) + 1
	_ = unix.Prlimit(b.process.Pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: most, Max: most}, nil)
}
