//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// prepare does nothing: there are no process groups here.
func prepare(*exec.Cmd) (release func()) { return func() {} }

// awaitExit can't wait here without reaping.
func awaitExit(int) bool { return false }

// signalGroup ends the process itself: there is no asking here, and no group.
func signalGroup(pid int, _ bool) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
