//go:build linux

package process_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/sandboxtest"
)

// ordinaryTests are the tests that an ordinary user's sandboxes must pass, too.
const ordinaryTests = "^(TestEnds|TestEscapes|TestMachineShowsNothingOfTheHost|TestLeftovers|TestKilledGateway|" +
	"TestShellValues|TestFreeze|TestImageAboveHost|TestStarterSandbox|TestStarterFails|TestStarterRecovers)$"

// TestOrdinaryUser runs tests of this package as a user without any rights.
func TestOrdinaryUser(t *testing.T) {
	if raced {
		t.Skip("sandboxes without control groups have too little memory for the race detector: make test runs it " +
			"without")
	}
	if os.Geteuid() != 0 {
		t.Skip("this is an ordinary user already")
	}
	const user = 4321
	dir, err := os.MkdirTemp("", "biplane-ordinary-")
	if err != nil {
		t.Fatalf("make a folder for the user: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	binary, err := os.ReadFile("/proc/self/exe")
	program, home := filepath.Join(dir, "tests"), filepath.Join(dir, "home")
	if err := errors.Join(err, os.WriteFile(program, binary, 0o700), os.Chmod(program, 0o755), os.Chmod(dir, 0o755),
		os.Mkdir(home, 0o700), os.Chown(home, user, user)); err != nil {
		t.Fatalf("copy the tests: %v", err)
	}
	c := exec.CommandContext(t.Context(), program, "-test.v", "-test.timeout", "15m", "-test.run", ordinaryTests)
	c.Dir, c.Env = home, append(os.Environ(), "HOME="+home, "TMPDIR="+home, "BIPLANE_SOAK=8")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("as user %d: %v\n%s", user, err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "--- SKIP") {
			t.Errorf("as user %d: %s%s", user, line, out)
		}
	}
}

// runWithoutGroups runs a script on a host whose control groups are hidden, and prints which
// protections are missing, and how the script ends.
func runWithoutGroups() error {
	if err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", "/sys/fs/cgroup", "tmpfs", unix.MS_RDONLY, "")); err != nil {
		return err
	}
	d, err := process.New(process.Config{})
	if err != nil {
		return err
	}
	c, err := d.Probe(context.Background())
	if err != nil {
		return err
	}
	for _, most := range []int64{0, 16 << 20} { // the default, and less than the agent itself maps
		b, err := d.Create(context.Background(), sandbox.Spec{Runtime: "bash", Memory: most})
		if err != nil {
			return err
		}
		o := sandboxtest.Host{}.Run(context.Background(), b, sandbox.Run{Code: "echo $((1 + 1))", Name: "program.sh"})
		if !o.Done {
			return fmt.Errorf("a script with %d bytes of memory: %v", most, o)
		}
		if err := b.Close(); err != nil {
			return err
		}
	}
	if err := d.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(c.Missing)
}

// TestHiddenGroups checks that sandboxes on a host without control groups say which limits they
// lack.
func TestHiddenGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can hide the control groups")
	}
	newDriver(t, process.Config{}) // or skips the test
	c := exec.CommandContext(t.Context(), os.Args[0], "hidden groups")
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("without control groups: %v, %s", err, out)
	}
	var missing []string
	if err := json.Unmarshal(out, &missing); err != nil {
		t.Fatalf("without control groups: %v, %s", err, out)
	}
	for _, what := range []string{"memory of all processes", "processes of one sandbox", "CPU time of all processes"} {
		if !slices.ContainsFunc(missing, func(m string) bool {
			return strings.HasPrefix(m, "a limit of the "+what) && strings.Contains(m, "control group")
		}) {
			t.Errorf("missing are %q, want the limit of the %s, and why", missing, what)
		}
	}
}
