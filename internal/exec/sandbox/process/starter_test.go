//go:build linux && entry && amd64

package process

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/entry"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
)

// showSandbox prints the state of a sandbox: its files, mounts, limits and rights.
const showSandbox = `exec 2>/dev/null
ls -lanR --time-style=+ / --ignore=proc --ignore=usr --ignore=certs --ignore=alternatives
cut -d' ' -f4- /proc/self/mountinfo
grep -E '^(Uid|Gid|Groups|Cap|NoNew|Seccomp|Sig(Blk|Ign)|Umask)' /proc/self/status
cat /proc/self/limits /proc/self/cgroup; uname -n
env; pwd; ls -la /proc/self/fd`

// An outputText collects what a command writes.
type outputText struct{ strings.Builder }

func (o *outputText) AcceptOutput(_ context.Context, _ bool, p []byte) error {
	_, err := o.Write(p)
	return err
}

// TestStarterSandbox compares a sandbox that a starter made with one that the program made: both
// must be the same.
func TestStarterSandbox(t *testing.T) {
	var shown [2]string
	folder := t.TempDir()
	for i, failed := range []int32{0, maxFailed} {
		d, err := New(Config{})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		d.small.failed.Store(failed)
		m, err := d.CreateMachine(t.Context(), sandbox.MachineSpec{Folder: folder})
		if err != nil {
			t.Fatalf("CreateMachine: %v", err)
		}
		var out outputText
		q := &service.Request{Op: service.OpRun, Command: []string{"sh", "-c", showSandbox}}
		if _, err := service.RunCommand(t.Context(), m, q, nil, &out); err != nil {
			t.Errorf("run a command: %v", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if d.small.failed.Load() != failed {
			t.Error("the starter failed")
		}
		// Names and numbers differ: of control groups, devices, pipes, processes.
		shown[i] = regexp.MustCompile(`biplane-\d+-\w+|\b0:\d+\b|\[\d+\]|/proc/\d+|\d\d?:\d\d`).
			ReplaceAllString(out.String(), "N")
	}
	if len(shown[0]) < 4000 {
		t.Errorf("the sandbox shows %q, want its files, mounts and limits", shown[0])
	}
	starter, program := strings.Split(shown[0], "\n"), strings.Split(shown[1], "\n")
	for i := range max(len(starter), len(program)) {
		if i >= len(starter) || i >= len(program) || starter[i] != program[i] {
			t.Fatalf("from line %d a starter made\n%s\nand the program\n%s", i, strings.Join(starter[i:], "\n"),
				strings.Join(program[i:], "\n"))
		}
	}
}

// TestStarterFails checks that the program itself enters sandboxes if starters fail, and that no
// more are tried after some.
func TestStarterFails(t *testing.T) {
	newBox(t, "bash") // or skips the test
	out, err := exec.CommandContext(t.Context(), os.Args[0], "no starters").CombinedOutput()
	if n := strings.Count(string(out), "its starter failed"); err != nil || n != maxFailed {
		t.Errorf("without starters: %v, %d failures, want %d, which are logged:\n%s", err, n, maxFailed, out)
	}
}

// TestStarterKept checks that a starter is made once for equal setups.
func TestStarterKept(t *testing.T) {
	var p smallProgram
	folder := func(path string, isMount bool) []entry.Mounted {
		return []entry.Mounted{{Shared: entry.Shared{FD: 5, Path: path, Mount: isMount}, Target: "/workspace"}}
	}
	s := entry.Setup{Runtime: entry.MachineRuntime, Program: &entry.Shared{FD: 4, Mount: true}, AgentFD: 6,
		Disk: 1 << 20, Processes: 100, Mounts: folder("/one", true)}
	var last []byte
	for _, c := range []struct {
		name  string
		to    func()
		again bool
	}{
		{"the first", func() {}, false},
		{"the same", func() {}, true},
		{"another mount", func() { s.Mounts = folder("/other", true) }, true},
		{"another folder", func() { s.Mounts = folder("/other", false) }, false},
		{"another limit", func() { s.Disk++ }, false},
		{"after a failure", p.forgetStarter, false},
	} {
		c.to()
		b, err := p.recordStarter(s, 8)
		if err != nil || len(b) == 0 {
			t.Fatalf("%s: recordStarter = %d bytes, %v", c.name, len(b), err)
		}
		if again := last != nil && &b[0] == &last[0]; again != c.again {
			t.Errorf("%s: it is the last starter: %t, want %t", c.name, again, c.again)
		}
		last = b
	}
}
