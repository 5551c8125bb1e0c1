//go:build linux

package process

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
)

// A lines is a stream with one program, and the guest's answers.
type lines struct {
	*strings.Reader
	said strings.Builder
}

// Write keeps what the guest sent.
func (l *lines) Write(p []byte) (int, error) { return l.said.Write(p) }

// newBox returns a sandbox with a runtime, or skips the test. The test closes it.
func newBox(t *testing.T, runtime string) *box {
	t.Helper()
	d, err := New(Config{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := d.Probe(t.Context()); err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	s, err := d.Create(t.Context(), sandbox.Spec{Runtime: runtime})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return s.(*box)
}

// runKept runs a program in a sandbox that is kept, and returns what the guest sent.
func (b *box) runKept(t *testing.T, code string) string {
	t.Helper()
	l := &lines{Reader: strings.NewReader(fmt.Sprintf(`{"run":{"name":"p.py","session":true,"code":%q}}`+"\n", code))}
	if _, err := b.Run(t.Context(), &sandbox.Cmd{Guest: l, Keep: true}); err != nil {
		t.Fatalf("Run: %v", err)
	}
	return l.said.String()
}

// TestFreeze checks that all processes of a frozen sandbox stand still, by control group and by
// signals, and that the next program continues with the variables of the last.
func TestFreeze(t *testing.T) {
	for _, way := range []string{"control group", "signals"} {
		t.Run(way, func(t *testing.T) {
			b := newBox(t, "python")
			switch {
			case way == "signals":
				b.group.freezer = ""
			case b.group.freezer == "":
				t.Skip("this host has no control groups of version 2 that can be used")
			}
			b.runKept(t, "import subprocess\nx = 41\np = subprocess.Popen(['sh', '-c', 'while :; do :; done'])")
			if err := b.FreezeGuest(); err != nil {
				t.Fatalf("FreezeGuest: %v", err)
			}
			all := listProcesses(b.process.Pid)
			if len(all) != 2 || b.UsedMemory() < 1<<20 {
				t.Fatalf("the sandbox has the processes %v and uses %d bytes, want 2 processes", all, b.UsedMemory())
			}
			waitUntilStopped(t, func() bool {
				if way == "signals" {
					return !slices.ContainsFunc(all, isRunning)
				}
				return readField(filepath.Join(b.group.freezer, "cgroup.events"), "frozen") == 1
			})
			if said := b.runKept(t, "x += 1\np.kill()\n[x, p.wait()]"); !strings.Contains(said, "[42,-9]") {
				t.Errorf("the guest sent %s, want the value of x and of its child", said)
			}
			if err := b.FreezeGuest(); err != nil {
				t.Errorf("FreezeGuest: %v", err)
			}
			if err := b.Close(); err != nil {
				t.Errorf("close a frozen sandbox: %v", err)
			}
			if err := b.ThawGuest(); err == nil {
				t.Error("a sandbox that was closed could be woken")
			}
		})
	}
}

// waitUntilStopped waits until stopped returns true. The kernel stops a process when it is next
// scheduled, which may be after the signal was sent or cgroup.freeze was written.
func waitUntilStopped(t *testing.T, stopped func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !stopped(); {
		if time.Now().After(deadline) {
			t.Fatal("the processes are not stopped after a minute")
		}
		time.Sleep(time.Millisecond)
	}
}

// isRunning reports whether a process is not stopped by a signal.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") T ")
}

// TestThawEnded checks that a frozen sandbox whose first process was killed can't be woken.
func TestThawEnded(t *testing.T) {
	b := newBox(t, "python")
	b.runKept(t, "1")
	if err := b.FreezeGuest(); err != nil {
		t.Fatalf("FreezeGuest: %v", err)
	}
	b.killProcess()
	<-b.ended
	if err := b.ThawGuest(); err == nil || !strings.Contains(err.Error(), "its first process ended") {
		t.Errorf("ThawGuest: %v, want an error", err)
	}
}

// TestWarm checks that sandboxes are started ahead from the second use on, that each is claimed
// once and has run nothing, and that none is left when the driver is closed.
func TestWarm(t *testing.T) {
	d, err := New(Config{Warm: 1})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if _, err := d.Probe(t.Context()); err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	seen := map[int]bool{}
	for i := range 4 {
		d.fills.Wait()
		warm := d.CountWarm()
		if i < 2 && warm != 0 || i > 2 && warm != 1 {
			t.Errorf("before use %d, %d sandboxes wait", i+1, warm)
		}
		s, err := d.Create(context.Background(), sandbox.Spec{Runtime: "python", Owner: fmt.Sprint(i)})
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		b := s.(*box)
		if seen[b.process.Pid] {
			t.Errorf("a sandbox was claimed twice")
		}
		seen[b.process.Pid] = true
		if said := b.runKept(t, "'x' in globals()"); !strings.Contains(said, "false") {
			t.Errorf("use %d: the guest sent %s, want no variable of another program", i+1, said)
		}
		b.runKept(t, "x = 1")
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	d.fills.Wait()
	d.mu.Lock()
	var pids []int
	for b := range d.boxes {
		pids = append(pids, b.process.Pid)
	}
	d.mu.Unlock()
	if err := d.Close(); err != nil || len(pids) != 1 {
		t.Errorf("Close with the sandboxes %v: %v, want one that waits", pids, err)
	}
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			t.Errorf("process %d is left", pid)
		}
	}
}

// TestFreezeRestless checks that processes which let each other continue don't run in a sandbox
// that counts as frozen: all of them are stopped by signals, or the sandbox can't be frozen.
func TestFreezeRestless(t *testing.T) {
	b := newBox(t, "python")
	defer b.Close()
	b.group.freezer = ""
	b.runKept(t, `import subprocess
loop = """import os, signal
while True:
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) != os.getpid():
            try: os.kill(int(p), signal.SIGCONT)
            except OSError: pass
"""
ps = [subprocess.Popen(["python3", "-c", loop]) for _ in range(4)]
import time
time.sleep(1)`)
	for range 20 {
		if err := b.FreezeGuest(); err != nil {
			t.Logf("not frozen: %v", err)
			return
		}
		if all := listProcesses(b.process.Pid); slices.ContainsFunc(all, isRunning) {
			t.Fatal("the sandbox is frozen, and some of its processes run")
		}
		if err := b.ThawGuest(); err != nil {
			t.Fatalf("ThawGuest: %v", err)
		}
	}
}
