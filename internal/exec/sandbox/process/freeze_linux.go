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
		if err = signalAll(b.process.Pid, stop); err != nil && stop {
			_ = signalAll(b.process.Pid, false) // or some would stay stopped
		}
	}
	if err != nil {
		return fmt.Errorf("stop the processes of a sandbox, or let them continue: %w", err)
	}
	b.frozen = stop
	return nil
}

// stopTime is how long the processes of a sandbox may take to stop after a signal.
const stopTime = 5 * time.Second

// errRestless is the error for processes that let each other continue.
var errRestless = tool.Errorf(tool.Unavailable, "some of them still run after %s", stopTime)

// signalAll stops a process and its descendants, or lets them continue.
func signalAll(first int, stop bool) error {
	if stop {
		return stopAll(first)
	}
	done := map[int]bool{}
	for more := true; more; { // others may start meanwhile
		more = false
		for _, pid := range listProcesses(first) {
			if done[pid] {
				continue
			}
			done[pid], more = true, true
			if err := sendSignal(pid, unix.SIGCONT); err != nil {
				return err
			}
		}
	}
	return nil
}

// stopAll stops a process and its descendants. Before they stop, they may start others, and let
// those continue that have stopped. One that is found to run after it was found stopped was
// continued by another. So all have stopped when none was found to run twice in a row.
func stopAll(first int) error {
	deadline := time.Now().Add(stopTime)
	for quiet := 0; quiet < 2; {
		quiet++
		for _, pid := range listProcesses(first) {
			switch processState(pid) {
			case 'T', 't', 'Z', 'X':
				continue
			case 'D': // it waits in the kernel, and stops before it continues
			default:
				quiet = 0
			}
			if err := sendSignal(pid, unix.SIGSTOP); err != nil {
				return err
			}
		}
		if quiet > 0 {
			continue
		}
		if time.Now().After(deadline) {
			return errRestless
		}
		time.Sleep(100 * time.Microsecond)
	}
	return nil
}

// sendSignal sends a signal to a process, unless it has ended.
func sendSignal(pid int, signal unix.Signal) error {
	if err := unix.Kill(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// processState returns the state of a process (proc(5)), or 'X' if it has ended.
func processState(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := bytes.LastIndex(stat, []byte(") ")); err == nil && i >= 0 && len(stat) > i+2 {
		return stat[i+2]
	}
	return 'X'
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
