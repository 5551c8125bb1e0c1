//go:build linux && entry && amd64

package process

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/wallclock"
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
env; pwd; ls -la /proc/self/fd; cat /proc/self/net/dev /proc/self/net/route
bash -c 'echo > /dev/tcp/127.0.0.1/9' 2>&1; bash -c 'echo > /dev/tcp/10.0.0.1/9' 2>&1`

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
	for i, failed := range []int{0, maxFailed} {
		d, err := New(Config{})
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		d.starters.failed, d.starters.next = failed, time.Now().Add(time.Hour)
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
		if d.starters.failed != failed {
			t.Errorf("%d starters failed, want %d", d.starters.failed, failed)
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
	var p starters
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
		{"after a failure", func() { p.noteFailure(io.EOF, slog.New(slog.DiscardHandler)) }, false},
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

// TestStarterRecovers checks that a starter is tried again after a while, if the failures pass.
func TestStarterRecovers(t *testing.T) {
	newBox(t, "bash") // or skips the test
	var logged strings.Builder
	d, err := New(Config{Log: slog.New(slog.NewTextHandler(&logged, nil))})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer d.Close()
	clock := wallclock.At(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	d.starters.clock = clock
	folder := t.TempDir()
	start := func() {
		t.Helper()
		m, err := d.CreateMachine(t.Context(), sandbox.MachineSpec{Folder: folder})
		if err != nil {
			t.Fatalf("CreateMachine: %v", err)
		}
		if err := m.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	start()
	good, madeFor := d.starters.last, d.starters.madeFor
	if d.starters.failed > 0 || len(good) == 0 {
		t.Fatalf("without a fault, %d starters failed", d.starters.failed)
	}
	bad := slices.Clone(good)
	bad[2*4096]++ // the number of its first call
	for _, c := range []struct {
		name    string
		starter []byte
		after   time.Duration
		failed  int
		reports string
	}{
		{"one failure", bad, 0, 1, ""},
		{"a success", good, 0, 0, ""},
		{"a failure", bad, 0, 1, ""},
		{"two in a row", bad, 0, 2, ""},
		{"three in a row", bad, 0, 3, "3 starters failed in a row, and the next is tried at 2030-01-01T00:01:00Z"},
		{"at once", bad, 0, 3, "3 starters"},
		{"after a minute", bad, time.Minute, 4, "4 starters failed in a row, and the next is tried at " +
			"2030-01-01T00:03"},
		{"a minute later", bad, time.Minute, 4, "4 starters"},
		{"when the fault has passed", good, time.Minute, 0, ""},
		{"again", good, 0, 0, ""},
	} {
		clock.Advance(c.after)
		d.starters.last, d.starters.madeFor = c.starter, madeFor
		start()
		why := d.addFailure(sandbox.Capabilities{Details: map[string]string{}}).Details[sandbox.SlowStart]
		if d.starters.failed != c.failed || !strings.Contains(why, c.reports) || c.reports == "" && why != "" {
			t.Fatalf("%s: %d failures, reported %q, want %d, %q", c.name, d.starters.failed, why, c.failed, c.reports)
		}
	}
	for _, text := range []string{"sandboxes start slowly", "retry=2030-01-01T00:03", "sandboxes start fast again"} {
		if !strings.Contains(logged.String(), text) {
			t.Errorf("the log has no %q:\n%s", text, &logged)
		}
	}
}

// TestStarterPause checks how long no starter is tried, and that only one sandbox tries the next.
func TestStarterPause(t *testing.T) {
	p := starters{clock: wallclock.At(time.Now())}
	var pauses []time.Duration
	for range 10 {
		p.noteFailure(io.EOF, slog.New(slog.DiscardHandler))
		if p.failed < maxFailed {
			if !p.mayTry() {
				t.Errorf("after %d failures, none is tried", p.failed)
			}
			continue
		}
		pause := p.next.Sub(p.clock.Now())
		p.clock.Advance(pause - 1)
		early := p.mayTry()
		p.clock.Advance(1)
		if first, second := p.mayTry(), p.mayTry(); early || !first || second {
			t.Errorf("after a pause of %s: %t, %t, %t, want one to be tried at its end", pause, early, first, second)
		}
		pauses = append(pauses, pause/time.Minute)
	}
	if want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}; !slices.Equal(pauses, want) {
		t.Errorf("pauses of %d minutes, want %d", pauses, want)
	}
}

// TestThreadsReturn checks that a machine that a starter entered has a network of its own. It also
// checks that the threads that made networks return to the gateway's network.
func TestThreadsReturn(t *testing.T) {
	d, err := New(Config{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer d.Close()
	if d.network.openOnce() == nil {
		t.Skip("threads of this user can't make networks: sandboxes make their own")
	}
	here, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatalf("find the network of this process: %v", err)
	}
	for range 3 {
		unused := d.prepareThread(true) // of a sandbox that could not be created
		unused.dismissThread()
		unused.dismissThread()
		m, err := d.CreateMachine(t.Context(), sandbox.MachineSpec{Folder: t.TempDir()})
		if err != nil {
			t.Fatalf("CreateMachine: %v", err)
		}
		inside, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", m.(*machine).process.Pid))
		if err != nil || inside == here {
			t.Errorf("the machine has the network %s, %v, and the gateway %s", inside, err, here)
		}
		if d.starters.failed > 0 {
			t.Errorf("the starter failed: %v", d.starters.reason)
		}
		defer m.Close()
	}
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		away := 0
		tasks, err := filepath.Glob("/proc/self/task/*/ns/net")
		if err != nil {
			t.Fatalf("list the threads: %v", err)
		}
		for _, path := range tasks {
			if at, err := os.Readlink(path); err == nil && at != here { // it may have ended
				away++
			}
		}
		if away == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d threads are not in the network of the gateway", away)
		}
	}
}
