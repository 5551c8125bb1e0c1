package mcp

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepare puts cmd into a process group of its own and has the kernel kill it when we die without a chance to. It locks
// the goroutine to its thread, because the kernel takes the thread for the parent; release undoes that.
func prepare(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return runtime.UnlockOSThread
}

// awaitExit returns when the process has exited, leaving it to be reaped; false if it could not wait.
func awaitExit(pid int) bool {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err == nil
		}
	}
}

// signalGroup asks the process group to end, or kills it. The leader must not have been reaped.
func signalGroup(pid int, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig)
}
