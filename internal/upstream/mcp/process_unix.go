//go:build unix && !linux

package mcp

import (
	"os/exec"
	"syscall"
)

// prepareGroup puts cmd into its own process group.
func prepareGroup(cmd *exec.Cmd) (release func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() {}
}

// awaitExit returns false: it can't wait here without reaping.
func awaitExit(int) bool { return false }

// signalGroup sends SIGTERM or SIGKILL to the process group.
func signalGroup(pid int, kill bool) {
	sig := syscall.SIGTERM
	if kill {
		sig = syscall.SIGKILL
	}
	_ = syscall.Kill(-pid, sig)
}
