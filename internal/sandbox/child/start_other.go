//go:build unix && !linux

package child

import (
	"slices"
	"syscall"
)

// startWith starts a child in a session of its own, so that the terminal's signals are for the parent only.
func startWith(command []string, plan int, more []string) (peer, int, error) {
	program, err := own()
	if err != nil {
		return nil, plan, err
	}
	p, err := spawn(program, slices.Concat(command, []string{"plain"}, more), &syscall.SysProcAttr{Setsid: true})
	return p, plan, err
}

func residentMemory(int) int64 { return 0 }
