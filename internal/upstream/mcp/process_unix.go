//go:build unix && !linux

package mcp

import (
	"os/exec"
	"syscall"
)

// prepare puts cmd into a process group of its own.
func prepare(cmd *exec.Cmd) (release func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() {}
}

// awaitExit can't wait here without reaping.
func awaitExit(int) bool { return false }

// signalGroup asks the process group to end, or kills it.
func signalGroup(pid int, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig)
}
