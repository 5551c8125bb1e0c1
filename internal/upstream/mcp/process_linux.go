package mcp

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepareGroup puts cmd into its own process group and has the kernel kill it if we die first. It
// locks the goroutine to its thread, because the kernel treats the thread as the parent; release
// undoes that.
func prepareGroup(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return runtime.UnlockOSThread
}

// awaitExit waits until the process has exited, without reaping it. It returns false if it could
// not wait.
func awaitExit(pid int) bool {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err == nil
		}
	}
}

// signalGroup sends SIGTERM or SIGKILL to the process group. The leader must not have been reaped.
func signalGroup(pid int, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig)
}
