//go:build linux && !race

package entry

import (
	"errors"
	"log"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain runs the tests or, for TestMemoryLimit, another program with less memory.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "limited" {
		log.Fatal(executeLimited(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// executeLimited executes a program with 64 MiB of address space, as EnterSandbox does, and with
// more environment than Go's heap grows by at once.
func executeLimited(args []string) error {
	var most unix.Rlimit // the kernel allows a quarter of the stack for the environment
	if err := errors.Join(unix.Getrlimit(unix.RLIMIT_STACK, &most),
		unix.Setrlimit(unix.RLIMIT_STACK, &unix.Rlimit{Cur: 64 << 20, Max: most.Max})); err != nil {
		return err
	}
	environment := os.Environ()
	for range 50 {
		environment = append(environment, "X="+strings.Repeat("x", 100<<10))
	}
	return executeAgent(args[0], args, environment, processMemory{unix.RLIMIT_AS, 64 << 20})
}

// TestMemoryLimit executes a program with less memory than Go's runtime has reserved. The race
// detector would need more.
func TestMemoryLimit(t *testing.T) {
	c := exec.CommandContext(t.Context(), os.Args[0], "limited", "/bin/sh", "-c", "ulimit -v")
	c.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1")
	if out, err := c.CombinedOutput(); err != nil || string(out) != "65536\n" {
		t.Errorf("it printed %.2000s, %v; want its limit in KiB", out, err)
	}
}
