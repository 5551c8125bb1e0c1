//go:build linux

package process

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ExecuteLimited executes a program with 64 MiB of address space, as EnterSandbox does, and with
// more environment than Go's heap grows by at once.
func ExecuteLimited(args []string) error {
	var most unix.Rlimit // the kernel allows a quarter of the stack for the environment
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_STACK, &most),
		unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: 64 << 20, Max: most.Max})); err != nil {
		return err
	}
	environment := os.Environ()
	for range 50 {
		environment = append(environment, "X="+strings.Repeat("x", 100<<10))
	}
	return executeAgent(args, environment, processMemory{unix.RLIMIT_AS, 64 << 20})
}
