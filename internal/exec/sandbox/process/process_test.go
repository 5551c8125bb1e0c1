//go:build linux

package process_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/probe"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// TestMain runs the tests or, for some of them, another process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "gateway" {
		runGateway()
	}
	if len(os.Args) > 1 && os.Args[1] == "hidden groups" {
		if err := runWithoutGroups(); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "no starters" {
		if err := runWithoutStarters(); err != nil {
			log.Fatal(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runGateway runs an endless program in a sandbox, beside frozen ones and one that was started
// ahead. It prints a line when the program runs.
func runGateway() {
	d, err := process.New(process.Config{Warm: 1})
	if err != nil {
		log.Fatal(err)
	}
	for range 3 { // the last of these may wait in the pool
		s, err := d.Create(context.Background(), roomy)
		if err != nil {
			log.Fatal(err)
		}
		if err := s.(sandbox.Freezer).FreezeGuest(); err != nil {
			log.Fatal(err)
		}
	}
	box, err := d.Create(context.Background(), roomy)
	if err != nil {
		log.Fatal(err)
	}
	h := sandboxtest.Host{Seen: func(*sandbox.GuestMessage) { fmt.Println("runs") }}
	log.Fatal(h.Run(context.Background(), box, sandbox.Run{Code: `import subprocess
subprocess.Popen(["sleep", "100000"])
print("runs")
while True: pass`, Name: "program.py"}))
}

// TestKilledGateway checks that a sandbox ends when its gateway is killed.
func TestKilledGateway(t *testing.T) {
	newDriver(t, process.Config{}) // or skips the test
	gateway := exec.CommandContext(t.Context(), os.Args[0], "gateway")
	var errs bytes.Buffer
	gateway.Stderr = &errs
	out, err := gateway.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := gateway.Start(); err != nil {
		t.Fatalf("start a gateway: %v", err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "runs\n" {
		_, _ = gateway.Process.Kill(), gateway.Wait() // errs is complete then
		t.Fatalf("the gateway printed %q, %v; want a line when the program runs; its errors: %s", line, err, &errs)
	}
	inside := findDescendants(t, gateway.Process.Pid)
	if len(inside) < 5 {
		t.Fatalf("the sandboxes have the processes %v, want the interpreters and a child", inside)
	}
	if err := gateway.Process.Kill(); err != nil {
		t.Fatalf("kill the gateway: %v", err)
	}
	_ = gateway.Wait() // it was killed
	for _, pid := range inside {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil || strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("process %d of the sandbox is still there", pid)
			}
		}
	}
}

// findDescendants returns the children of a process and theirs.
func findDescendants(t *testing.T, pid int) (out []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, path := range all {
		b, _ := os.ReadFile(path) // it may have ended
		_, rest, _ := strings.Cut(string(b), ") ")
		if f := strings.Fields(rest); len(f) > 1 && f[1] == strconv.Itoa(pid) {
			child, err := strconv.Atoi(strings.Split(path, "/")[2])
			if err != nil {
				t.Fatalf("strconv.Atoi: %v", err)
			}
			out = append(append(out, child), findDescendants(t, child)...)
		}
	}
	return out
}

// newDriver returns a driver, or skips the test if this host can't run it.
func newDriver(t testing.TB, cfg process.Config) *process.Driver {
	t.Helper()
	d, err := process.New(cfg)
	if err != nil {
		t.Fatalf("process.New: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := d.Probe(context.Background()); err != nil {
		t.Skipf("process sandboxes can't run here: %v", err)
	}
	return d
}

var roomy = sandbox.Spec{Runtime: "python", Memory: 256 << 20, CPU: 20 * time.Second}

func runProgram(t testing.TB, d *process.Driver, code string, h sandboxtest.Host) *sandboxtest.Outcome {
	t.Helper()
	return sandboxtest.Exec(t.Context(), t, d, roomy, code, h)
}

func TestValues(t *testing.T) {
	d := newDriver(t, process.Config{})
	c, _ := d.Probe(t.Context())
	t.Logf("%+v", c)
	for _, c := range []struct{ code, want string }{
		{"1 + 1", "2"},
		{"import os\nos.getcwd()", `"/workspace"`},
		{"import threading\nout = []\nt = threading.Thread(target=out.append, args=[5])\nt.start()\nt.join()\nout",
			"[5]"},
		{"import subprocess\nsubprocess.run(['sh', '-c', 'echo hi'], capture_output=True, text=True).stdout",
			`"hi\n"`},
		{"import os\nsorted(os.listdir('/'))", ""},
		{"open('/proc/self/status').read()", ""},
	} {
		o := runProgram(t, d, c.code, sandboxtest.Host{})
		if !o.Done || c.want != "" && string(o.Value) != c.want {
			t.Errorf("%s: %v, want %s", c.code, o, c.want)
		} else if c.want == "" {
			t.Logf("%s", o.Value)
		}
	}
}

// needed lists the protections without which a program of TestEnds ends in another way.
var needed = map[string]string{
	"loop in a child": "a limit of the CPU time of all processes",
	"memory":          "a limit of the memory of all processes",
	"worker threads":  "a limit of the memory of all processes",
	"shell loop":      "a limit of the CPU time of all processes",
	"shell loops":     "a limit of the CPU time of all processes",
	"shell memory":    "a limit of the memory of all processes",
}

// skipWithout skips the test if this host lacks a protection, which Capabilities.Missing names.
func skipWithout(t *testing.T, d *process.Driver, protection string) {
	t.Helper()
	c, err := d.Probe(t.Context())
	if err != nil {
		t.Fatalf("probe a sandbox: %v", err)
	}
	for _, missing := range c.Missing {
		if protection != "" && strings.HasPrefix(missing, protection) {
			t.Skipf("this host lacks %s", missing)
		}
	}
}

// TestEnds checks how programs end that don't come to their own end.
func TestEnds(t *testing.T) {
	d := newDriver(t, process.Config{Disk: 32 << 20, Processes: 64})
	for _, c := range []struct{ name, code, limit, err string }{
		{"loop", "while True: pass", "cpu", ""},
		{"loop in a child", "import subprocess\nsubprocess.run(['sh', '-c', 'while :; do :; done'])", "cpu", ""},
		{"memory", "x = []\nwhile True: x.append(bytes(1 << 20))", "memory", ""},
		{"memory of a child", "import subprocess\n" +
			"subprocess.run(['python3', '-c', 'x = [bytes([1]) * (1 << 29)]']).returncode", "", ""},
		{"memory in files", "for i in range(9): open(f'/dev/shm/x{i}', 'wb').write(bytes(10 << 20))", "",
			"No space left"},
		{"output", "while True: print('x' * 1000)", "output", ""},
		{"output of a child", "import subprocess\nsubprocess.run(['yes', 'x' * 1000])", "output", ""},
		{"exit", "import os\nos._exit(3)", "", "exit code 3"},
		{"killed", "import os\nos.kill(os.getpid(), 9)\nimport ctypes\nctypes.string_at(0)", "",
			"segmentation fault"},
		{"disk", "f = open('x', 'wb')\nfor i in range(64): f.write(bytes(1 << 20))", "", "File too large"},
		{"disks", "for i in range(64): open(f'x{i}', 'wb').write(bytes(1 << 20))", "", "No space left"},
		{"files", "for i in range(100_000): open(f'x{i}', 'wb')", "", "No space left"},
		{"descriptors", "x = []\nwhile True: x.append(open('/dev/null'))", "", "Too many open files"},
		{"fork bomb", "import os\ntry:\n  while True: os.fork()\nexcept BlockingIOError as e:\n" +
			"  'refused' if os.getpid() == 1 else os._exit(0)", "", ""},
		{"threads", "import threading, time\n" +
			"while True: threading.Thread(target=time.sleep, args=[60], daemon=True).start()", "",
			"can't start new thread"},
		{"closed connection", "import os\nos.close(3)", "", "the interpreter"},
		{"noise on the connection", "import os\nos.write(3, b'Xrubbish\\n')", "", "descriptor 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := sandbox.Spec{Runtime: "python", Memory: 128 << 20, CPU: 500 * time.Millisecond, Output: 4 << 20}
			if c.limit != "cpu" {
				spec.CPU = 20 * time.Second
			}
			skipWithout(t, d, needed[c.name])
			o := sandboxtest.Exec(t.Context(), t, d, spec, c.code, sandboxtest.Host{})
			text := fmt.Sprint(o.Err)
			if o.Fail != nil {
				text += o.Fail.Message
			}
			if o.Limit() != c.limit || !strings.Contains(text, c.err) || c.limit+c.err == "" && !o.Done {
				t.Errorf("%v, want limit %q, error %q", o, c.limit, c.err)
			}
			t.Logf("%.300v", o)
		})
	}
	checkNothingLeft(t)
}

// checkNothingLeft checks that no control group of a sandbox is left.
func checkNothingLeft(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), fmt.Sprintf("biplane-%d-", os.Getpid())) {
			t.Errorf("the control group %s is left", path)
		}
		return nil
	})
	if err != nil {
		t.Errorf("filepath.WalkDir: %v", err)
	}
}

// TestEscapes runs a program that tries to get out of the sandbox, beside secrets of this process.
func TestEscapes(t *testing.T) {
	t.Setenv("BIPLANE_TEST_SECRET", "hunter2")
	l, err := net.Listen("unix", "@/biplane-test-abstract")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	defer l.Close()
	d := newDriver(t, process.Config{})
	o := runProgram(t, d, probe.Escapes, sandboxtest.Host{})
	if !o.Done || string(o.Value) != "[]" {
		t.Errorf("%v, want no attempt to succeed", o)
	}
}
