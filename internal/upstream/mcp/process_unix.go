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

// awaitExit does nothing where one can't wait without reaping: then what a server leaves behind when it exits by itself
// is not killed.
func awaitExit(int) {}

// signalGroup asks the process group to end, or kills it.
func signalGroup(pid int, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig)
}
