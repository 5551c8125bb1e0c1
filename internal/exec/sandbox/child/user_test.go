//go:build linux

package child_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestAwaitsUser checks that a process in a user namespace sends nothing before its user mapping is
// written. Once the process has armed itself, the parent may no longer be able to write the
// mapping, and would mistake that for a refusal.
func TestAwaitsUser(t *testing.T) {
	for _, plan := range []string{"user", "bare"} {
		t.Run(plan, func(t *testing.T) {
			pair, err := syscall.Socketpair(syscall.AF_UNIX,
				syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Fatalf("syscall.Socketpair: %v", err)
			}
			conn, other := os.NewFile(uintptr(pair[0]), "child"), os.NewFile(uintptr(pair[1]), "parent")
			defer conn.Close()
			cmd := exec.Command("/proc/self/exe", engine, "only-namespaces", plan, "0")
			cmd.ExtraFiles = []*os.File{other}
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL}
			err = cmd.Start()
			_ = other.Close()
			if err != nil {
				t.Skip("no namespaces of users here:", err)
			}
			defer func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}()
			b := make([]byte, 4096)
			_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
			if n, err := conn.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("it said %q before it had a user: %v", b[:n], err)
			}
			if err := os.WriteFile(fmt.Sprintf("/proc/%d/uid_map", cmd.Process.Pid),
				fmt.Appendf(nil, "65534 %d 1\n", os.Geteuid()), 0); err != nil {
				t.Fatalf("os.WriteFile: %v", err)
			}
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			if n, err := conn.Read(b); n == 0 {
				t.Errorf("it said nothing when it had one: %v", err)
			}
		})
	}
}
