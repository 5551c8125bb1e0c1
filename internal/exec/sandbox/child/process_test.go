//go:build linux

package child_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/child"
	"github.com/biplane-dev/biplane/internal/tool"
)

// crashed returns an error unless err is of kind unavailable and wraps a sandbox.CrashError whose
// Reason contains reason.
func crashed(err error, reason string) error {
	var crash *sandbox.CrashError
	if tool.AsError(err).Kind != tool.Unavailable || !errors.As(err, &crash) ||
		!strings.Contains(crash.Reason, reason) {
		return fmt.Errorf("%v (%+v), want one of a process that %q", err, crash, reason)
	}
	return nil
}

func TestCrash(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	for word, reason := range map[string]string{
		"exit 3": "ended with code 3: these are its last words", "crash": "panic: it crashed",
		"forbid": "forbidden system call",
	} {
		t.Run(word, func(t *testing.T) {
			box, neighbour, stranger := create(t, d, "a"), create(t, d, "a"), create(t, d, "b")
			ran(t, neighbour, "add x\n")
			if _, err := box.Run(t.Context(), &sandbox.Cmd{Guest: say(word + "\n")}); err == nil {
				t.Error("it went well")
			} else if err := crashed(err, reason); err != nil {
				t.Errorf("err = %v, want nil", err)
			}
			if _, err := neighbour.Run(t.Context(), &sandbox.Cmd{Guest: say("get\n")}); crashed(err, reason) != nil {
				t.Errorf("crashed(err, reason) = %v, want crashed(err, reason) == nil", crashed(err, reason))
			}
			if _, err := neighbour.Snapshot(t.Context()); crashed(err, reason) != nil {
				t.Errorf("crashed(err, reason) = %v, want crashed(err, reason) == nil", crashed(err, reason))
			}
			ran(t, stranger, "get\n")
			ran(t, create(t, d, "a"), "get\n")
		})
	}
	t.Run("killed", func(t *testing.T) {
		box := create(t, d, "a")
		if err := syscall.Kill(box.PID(), syscall.SIGKILL); err != nil {
			t.Fatalf("syscall.Kill: %v", err)
		}
		gone(t, box.PID())
		for slices.Contains(d.PIDs(), box.PID()) {
			<-time.After(time.Millisecond) // the driver doesn't know of its end yet
		}
		ran(t, create(t, d, "a"), "get\n")
	})
}

// TestStuck stops a guest that its engine can't stop, so the process is killed.
func TestStuck(t *testing.T) {
	d := newDriver(t, "memo", child.Config{})
	box := create(t, d, "")
	ctx, cancel := context.WithCancel(t.Context())
	g := &announced{Reader: strings.NewReader("stuck\n"), said: make(chan struct{}, 1)}
	go func() { <-g.said; cancel() }()
	if _, err := box.Run(ctx, &sandbox.Cmd{Guest: g}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want errors.Is(err, context.Canceled)", err)
	}
	gone(t, box.PID())
	ran(t, create(t, d, ""), "get\n")
}

// gone waits until a process has ended, and fails the test after two minutes.
func gone(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); alive(pid); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d goes on", pid)
		}
		<-time.After(time.Millisecond)
	}
}

// alive reports whether a process exists and isn't a zombie.
func alive(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

func TestOwners(t *testing.T) {
	d := newDriver(t, "memo", child.Config{Most: 2, Idle: time.Hour})
	a, b := create(t, d, "a"), create(t, d, "b")
	if a.PID() == b.PID() {
		t.Error("two owners share a process")
	}
	if again := create(t, d, "a"); again.PID() != a.PID() {
		t.Error("an owner has two processes")
	}
	// A third owner waits until another owner no longer needs its process.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := d.Create(ctx, sandbox.Spec{Owner: "c"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a third process: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	c := create(t, d, "c")
	gone(t, b.PID())
	ran(t, c, "get\n")
	ran(t, a, "get\n")
	if sid, err := syscall.Getpgid(a.PID()); err != nil || sid == syscall.Getpgrp() {
		t.Errorf("the terminal's signals reach the process: group %d, %v", sid, err)
	}
}

func TestIdle(t *testing.T) {
	d := newDriver(t, "memo", child.Config{Idle: time.Millisecond})
	box := create(t, d, "")
	ran(t, box, "get\n")
	if !alive(box.PID()) {
		t.Error("a process with a sandbox ended")
	}
	if err := box.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	gone(t, box.PID())
	ran(t, create(t, d, ""), "get\n")
}

func TestServed(t *testing.T) {
	d := newDriver(t, "memo", child.Config{Served: 2})
	first, second, third := create(t, d, ""), create(t, d, ""), create(t, d, "")
	if first.PID() != second.PID() || third.PID() == first.PID() {
		t.Errorf("processes %d, %d, %d", first.PID(), second.PID(), third.PID())
	}
	ran(t, first, "get\n")
	for _, b := range []*child.Sandbox{first, second} {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	gone(t, first.PID())
	ran(t, third, "get\n")
}

// parent starts children, prints their process IDs and waits until it is killed.
func parent() {
	d, err := child.New(child.Config{Command: []string{engine, "memo"}})
	if err != nil {
		panic(err)
	}
	for _, owner := range []string{"a", "b"} {
		box, err := d.Create(context.Background(), sandbox.Spec{Owner: owner})
		if err != nil {
			panic(err)
		}
		go box.Run(context.Background(),
			&sandbox.Cmd{Guest: &announced{Reader: strings.NewReader("stuck\n"), said: make(chan struct{}, 1)}})
	}
	fmt.Println(d.PIDs())
	select {}
}

func TestParentKilled(t *testing.T) {
	cmd := exec.Command(os.Args[0], "parent")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe: %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Errorf("ReadString: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Errorf("Kill: %v", err)
	}
	_ = cmd.Wait() // it was killed
	pids := strings.Fields(strings.Trim(line, "[]\n"))
	if len(pids) < 2 {
		t.Errorf("children %q", line)
	}
	for _, s := range pids {
		pid, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("strconv.Atoi: %v", err)
		}
		gone(t, pid)
	}
}

// TestUser checks a child's user on the host: the user nobody if root started it, else the same
// user.
func TestUser(t *testing.T) {
	want := os.Geteuid()
	if want == 0 {
		want = 65534
	}
	box := create(t, newDriver(t, "memo", child.Config{}), "a")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", box.PID()))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	if line := fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", want); !strings.Contains(string(status), line) {
		t.Errorf("a child is another user than %d:\n%s", want, status)
	}
	if want == 65534 && !strings.Contains(string(status), "\nGid:\t65534\t65534\t65534\t65534\n") {
		t.Errorf("a child of root has a group of root's:\n%s", status)
	}
}

// TestThreads checks that every thread of a child has its privileges removed. A binary with cgo
// can't drop the capabilities of all threads, so they aren't checked there.
func TestThreads(t *testing.T) {
	without := []string{"NoNewPrivs:\t1", "Seccomp:\t2"}
	if _, _, errno := syscall.AllThreadsSyscall(syscall.SYS_GETPID, 0, 0, 0); errno != syscall.ENOTSUP {
		without = append(without, "CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000",
			"CapAmb:\t0000000000000000")
	}
	box := create(t, newDriver(t, "memo", child.Config{}), "a")
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", box.PID()))
	if err != nil || len(threads) < 2 {
		t.Fatalf("threads = %v, err = %v, want err == nil && len(threads) >= 2", threads, err)
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatalf("err = %v, want nil", err)
		}
		for _, line := range without {
			if !strings.Contains(string(status), "\n"+line+"\n") {
				t.Errorf("%s is not %q:\n%s", path, line, status)
			}
		}
	}
}
