//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// prepare does nothing: there are no process groups here.
func prepare(*exec.Cmd) (release func()) { return func() {} }

func awaitExit(int) {}

// signalGroup ends the process itself; there is no asking here, and no group.
func signalGroup(pid int, _ bool) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
