//go:build linux

package hosted_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/hosted"
	"github.com/biplane-dev/biplane/internal/exec/network"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/lab/stepper"
)

// TestMain runs the tests or, for TestKilledGateway and TestMaskedProtections, a gateway.
func TestMain(m *testing.M) {
	if len(os.Args) == 6 && os.Args[1] == "gateway" {
		if err := runGateway(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, "gateway:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == "masked" {
		if err := runMasked(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// gatewaySteps are the system calls by which a gateway makes, uses and removes the sandbox of a
// server.
var gatewaySteps = stepNames{
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_FCHOWNAT: "fchownat",
	unix.SYS_SOCKETPAIR: "socketpair", unix.SYS_SENDMSG: "sendmsg", unix.SYS_OPEN_TREE: "open_tree",
	unix.SYS_CLONE3: "clone3", unix.SYS_CLONE: "clone", unix.SYS_OPENAT: "openat",
	unix.SYS_PIDFD_SEND_SIGNAL: "pidfd_send_signal",
}

type stepNames map[uint32]string

func (n stepNames) DescribeCall(call uint32, _ [6]uint64) string { return n[call] }

// A scene is what a gateway does until it is killed. Temporary files are in folder.
type scene func(d *process.Driver, folder string, begin func() error) error

// scenes are what gateways do with each kind of sandbox. They call begin when their steps begin.
var scenes = map[string]scene{"server": runServer, "program": runProgram, "own": runOwn}

// runGateway carries out a scene. It dies before a step, counted from 1; 0: never.
func runGateway(name, folder, log, last string) (err error) {
	cfg := stepper.Config{Log: log, Names: gatewaySteps}
	for n := range gatewaySteps {
		c := stepper.Call{Number: n}
		switch n {
		case unix.SYS_OPENAT:
			c.Argument, c.Mask = 2, unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT
		case unix.SYS_CLONE:
			c.Mask = unix.CLONE_NEWUSER // otherwise it is a thread
		}
		cfg.Calls = append(cfg.Calls, c)
	}
	if cfg.Last, err = strconv.Atoi(last); err != nil {
		return err
	}
	// A collection of garbage would wait for a call that is a step, and the step for its watcher,
	// which the collection stops.
	debug.SetGCPercent(-1)
	d, err := process.New(process.Config{})
	if err != nil {
		return err
	}
	if err := scenes[name](d, folder, func() error { return stepper.LogSteps(cfg) }); err != nil {
		return err
	}
	return d.Close()
}

// runServer starts a server with temporary files and a network, uses it, freezes it, uses it again,
// and stops it.
func runServer(d *process.Driver, folder string, begin func() error) error {
	if err := errors.Join(hosted.RemoveLeft(folder), begin()); err != nil {
		return err
	}
	g := &gate{reach: []string{"api.test"}}
	s, err := hosted.NewHost(hosted.Config{Name: "test", Driver: d, Parent: folder, Log: slog.New(slog.DiscardHandler),
		Command: []string{"sh", "-c", "echo > kept; (sleep 1000 &); " + echo}, Limits: hosted.Limits{Standby: -1},
		Gate: &hosted.Gate{Hosts: g, Door: g, Reach: g.reach, Grantor: "test",
			Network: network.NewNetwork(network.Config{Ports: []int{80}})}}).StartServer(context.Background())
	if err != nil {
		return err
	}
	in, out, _ := s.OpenStreams()
	for range 2 {
		release, err := s.UseServer(context.Background())
		if err != nil {
			return err
		}
		if _, err := io.WriteString(in, "line\n"); err != nil {
			return err
		}
		answer := make([]byte, len("got line\n"))
		if _, err := io.ReadFull(out, answer); err != nil {
			return err
		}
		release()
		s.FreezeIdle()
	}
	if err := in.Close(); err != nil {
		return err
	}
	s.StopServer(time.Minute)
	return nil
}

// TestKilledGateway kills a gateway with SIGKILL before each of its steps while it starts, uses and
// ends a sandbox: of a server, of a program, of a principal. No process of it outlives the gateway,
// and the next start removes the rest: control groups and files. BIPLANE_CRASH is the maximum
// number of kills; by default there are a few.
func TestKilledGateway(t *testing.T) {
	if watched {
		t.Skip("a process can't watch its own system calls with the race detector: run it without")
	}
	newDriver(t) // or skips the test
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatalf("prctl: %v", err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) //nolint:errcheck // it succeeded before
	most := 5
	if text := os.Getenv("BIPLANE_CRASH"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil {
			t.Fatalf("BIPLANE_CRASH: %v", err)
		}
	}
	for name := range scenes {
		t.Run(name, func(t *testing.T) {
			k := killer{t, name, filepath.Join(t.TempDir(), "temporary"), readMounts(t), nil}
			k.killEach(most)
		})
	}
}

// killEach kills gateways before some of their steps, and checks that nothing is left.
func (k *killer) killEach(most int) {
	k.t.Helper()
	steps := k.runOnce(0)
	k.checkNothingLeft()
	n := len(steps)
	if n < 10 {
		k.t.Fatalf("the gateway has the steps %q, want more", steps)
	}
	for i := range min(most, n) {
		at := 1 + i*n/min(most, n)
		if done := k.runOnce(at); len(done) > at || len(done) < at/2 {
			k.t.Errorf("the gateway to be killed before step %d has made the steps %q", at, done)
		}
	}
	k.runOnce(0)
	if k.checkNothingLeft(); k.t.Failed() {
		k.t.Logf("the steps are %q", steps)
	}
}

// A killer runs gateways.
type killer struct {
	t      *testing.T
	scene  string
	folder string // of temporary files
	mounts string // before all
	pids   []int  // of the gateways
}

// runOnce runs a gateway that is killed before a step, and returns its steps until then. It waits
// until no process is left.
func (k *killer) runOnce(last int) (steps []string) {
	k.t.Helper()
	log := filepath.Join(k.t.TempDir(), "steps")
	g := exec.CommandContext(k.t.Context(), os.Args[0], "gateway", k.scene, k.folder, log, strconv.Itoa(last))
	said, err := g.CombinedOutput()
	killed := g.ProcessState != nil && g.ProcessState.ExitCode() == -1
	if killed && last == 0 || !killed && err != nil { // with fewer steps than before, it ends
		k.t.Fatalf("the gateway with last step %d: %v, %s", last, err, said)
	}
	k.pids = append(k.pids, g.ProcessState.Pid())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		left := listChildren(k.t)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("killed before step %d, it has left the processes %v", last, left)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		k.t.Fatalf("ReadFile: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// listChildren reaps ended children of this process, and returns the others.
func listChildren(t *testing.T) (running []int) {
	t.Helper()
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != nil || pid == 0 {
			break
		}
	}
	all, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatalf("Glob: %v", err)
	}
	for _, path := range all {
		text, _ := os.ReadFile(path) // the thread may have ended
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				running = append(running, pid)
			}
		}
	}
	return running
}

// checkNothingLeft checks that nothing of the gateways is left but their processes' numbers.
func (k *killer) checkNothingLeft() {
	k.t.Helper()
	if files, err := os.ReadDir(k.folder); err != nil && !os.IsNotExist(err) || len(files) > 0 {
		k.t.Errorf("the files %v are left, %v", files, err)
	}
	for _, pid := range k.pids {
		for _, pattern := range []string{"/sys/fs/cgroup/biplane-%d-*", "/sys/fs/cgroup/*/biplane-%d-*",
			"/sys/fs/cgroup/*/*/biplane-%d-*", "/sys/fs/cgroup/*/*/*/biplane-%d-*"} {
			groups, err := filepath.Glob(fmt.Sprintf(pattern, pid))
			if err != nil || len(groups) > 0 {
				k.t.Errorf("the control groups %q are left, %v", groups, err)
			}
		}
	}
	if now := readMounts(k.t); now != k.mounts {
		k.t.Errorf("the mounts were\n%s\nand are\n%s", k.mounts, now)
	}
}

func readMounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	return string(text)
}
