//go:build linux

package process_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
)

// TestLeftovers creates and closes BIPLANE_SOAK sandboxes (default 24) by four goroutines. Each has
// run a program that leaves processes, files and open descriptors, or is a machine with such
// commands. Nothing of them may be left.
func TestLeftovers(t *testing.T) {
	n := 24
	if s := os.Getenv("BIPLANE_SOAK"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatalf("BIPLANE_SOAK: %v", err)
		}
	}
	t.Setenv("TMPDIR", t.TempDir()) // other processes have files in the system's
	d := newDriver(t, process.Config{})
	programs := []struct{ runtime, code string }{
		{"bash", "sleep 1000 & setsid sleep 1000 & mkfifo /tmp/p; exec 5<>/tmp/p; echo x > /workspace/file"},
		{"bash", "for i in 1 2 3; do (while :; do sleep 0.01; done) & done; mkdir -p /dev/shm/a/b"},
		{"python", `import socket, subprocess, threading, time
subprocess.Popen(["sleep", "1000"], start_new_session=True)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
socket.socketpair()
open("/tmp/f", "w").write("x")`},
	}
	before := listOwned(t)
	next := make(chan int, n) // a worker ends with its first error
	for i := range n {
		next <- i
	}
	close(next)
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for i := range next {
				if i%(len(programs)+1) == len(programs) {
					useMachine(t, d)
					continue
				}
				p := programs[i%(len(programs)+1)]
				spec := sandbox.Spec{Runtime: p.runtime}
				if o := sandboxtest.Exec(t.Context(), t, d, spec, p.code, sandboxtest.Host{}); !o.Done {
					t.Errorf("program %d: %v, want it done", i, o)
				}
			}
		})
	}
	workers.Wait()
	var left map[string]string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left = listOwned(t)
		maps.DeleteFunc(left, func(k, _ string) bool { return before[k] != "" })
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for k, v := range left {
		t.Errorf("left over: %s %s", k, v)
	}
}

// useMachine starts and closes a machine, in which processes, files and descriptors are left.
func useMachine(t *testing.T, d *process.Driver) {
	folder, err := os.MkdirTemp("", "machine-")
	if err != nil {
		t.Errorf("os.MkdirTemp: %v", err)
		return
	}
	defer os.RemoveAll(folder)
	m, err := d.CreateMachine(t.Context(), sandbox.MachineSpec{Folder: folder})
	if err != nil {
		t.Errorf("CreateMachine: %v", err)
		return
	}
	for _, q := range []service.Request{
		{Op: service.OpStart, Command: []string{"sh", "-c", "mkfifo /tmp/p; exec 5<>/tmp/p; sleep 1000 & cat <&5"}},
		{Op: service.OpRun, Command: []string{"sh", "-c",
			"setsid sleep 1000 >&- 2>&- & echo x > file; mkdir -p /dev/shm/a"}},
	} {
		if _, err := service.AskAgent(t.Context(), m, &q); err != nil {
			t.Errorf("%s: %v", q.Op, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// listOwned lists what sandboxes of this process use: descriptors, processes, control groups,
// mounts, and temporary files. Each has a key that no later one reuses.
func listOwned(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	own, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, path := range own {
		if to, err := os.Readlink(path); err == nil { // the folder itself is closed now
			out["descriptor "+filepath.Base(path)] = to
		}
	}
	for _, pid := range findDescendants(t, os.Getpid()) {
		out[fmt.Sprint("process ", pid)], err = os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			out[fmt.Sprint("process ", pid)] = err.Error()
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/biplane-%d-*", "/sys/fs/cgroup/*/biplane-%d-*",
		"/sys/fs/cgroup/*/*/biplane-%d-*"} {
		groups, err := filepath.Glob(fmt.Sprintf(pattern, os.Getpid()))
		if err != nil {
			t.Fatalf("filepath.Glob: %v", err)
		}
		for _, dir := range groups {
			out["control group "+dir] = dir
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatalf("read the mounts: %v", err)
	}
	out["mounts "+string(mounts)] = "see its name"
	temporary, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, path := range temporary {
		out["file "+path] = path
	}
	return out
}
