//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// prepareGroup does nothing: there are no process groups here.
func prepareGroup(*exec.Cmd) (release func()) { return func() {} }

// awaitExit returns false: it can't wait here without reaping.
func awaitExit(int) bool { return false }

// signalGroup kills the process itself: this system has neither process groups nor SIGTERM.
func signalGroup(pid int, _ bool) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
