//go:build linux

package hosted_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/hosted"
	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/seccomp"
)

// masks are system calls without which a protection can't be armed, and a part of the error.
var masks = map[string]struct {
	rules []seccomp.Rule
	err   string
}{
	"namespaces": {[]seccomp.Rule{{Call: unix.SYS_CLONE, Checks: seccomp.CheckBits(0, unix.CLONE_NEWUSER, 0),
		Deny: seccomp.Refuse}, {Call: unix.SYS_CLONE3, Checks: seccomp.FailAlways(), Deny: seccomp.Unknown}},
		"namespaces"},
	"landlock": {failAlways(unix.SYS_LANDLOCK_CREATE_RULESET, seccomp.Unknown), "restrict files"},
	"filter":   {failAlways(unix.SYS_SECCOMP, seccomp.Unknown), "filter system calls"},
	"capabilities": {[]seccomp.Rule{{Call: unix.SYS_PRCTL, Checks: seccomp.CheckEqual(0, unix.PR_CAPBSET_DROP),
		Then: seccomp.Refuse}}, "drop capabilities"},
	"user": {failAlways(unix.SYS_SETRESUID, seccomp.Refuse), "become its user"},
	"root": {failAlways(unix.SYS_PIVOT_ROOT, seccomp.Refuse), "make the root"},
	"limits": {[]seccomp.Rule{{Call: unix.SYS_PRLIMIT64, Checks: seccomp.CheckEqual(1, unix.RLIMIT_NPROC),
		Then: seccomp.Refuse}}, "limit resources"},
}

// failAlways returns the rule by which a system call fails.
func failAlways(call uintptr, deny uint32) []seccomp.Rule {
	return []seccomp.Rule{{Call: call, Checks: seccomp.FailAlways(), Deny: deny}}
}

// runMasked starts a program's sandbox, a machine and a server on a host that lacks a protection.
// It returns an error unless all three are refused for that reason.
func runMasked(mask, folder string) error {
	m := masks[mask]
	if err := seccomp.InstallFilter(seccomp.AssembleFilter(m.rules, unix.SECCOMP_RET_ALLOW)); err != nil {
		return err
	}
	d, err := process.New(process.Config{})
	if err != nil {
		return err
	}
	ctx := context.Background()
	_, program := d.Create(ctx, sandbox.Spec{Runtime: "bash"})
	own := filepath.Join(folder, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		return err
	}
	_, machine := d.CreateMachine(ctx, sandbox.MachineSpec{Folder: own})
	_, server := hosted.NewHost(hosted.Config{Name: "test", Driver: d, Command: []string{"true"},
		Parent: filepath.Join(folder, "servers"), Log: slog.New(slog.DiscardHandler)}).StartServer(ctx)
	var errs []error
	for what, err := range map[string]error{"a program": program, "a machine": machine, "a server": server} {
		if err == nil || !strings.Contains(err.Error(), m.err) {
			errs = append(errs, fmt.Errorf("%s: %w, want it refused because of %q", what, err, m.err))
		}
	}
	left, err := os.ReadDir(filepath.Join(folder, "servers"))
	if len(left) > 0 {
		err = fmt.Errorf("files of the server are left: %v", left)
	}
	return errors.Join(append(errs, err, d.Close())...)
}

// TestMaskedProtections checks that nothing runs on a host on which a protection can't be armed.
func TestMaskedProtections(t *testing.T) {
	newDriver(t) // or skips the test
	for mask := range masks {
		t.Run(mask, func(t *testing.T) {
			out, err := exec.CommandContext(t.Context(), os.Args[0], "masked", mask, t.TempDir()).CombinedOutput()
			if err != nil {
				t.Errorf("without %s: %v\n%s", mask, err, out)
			}
		})
	}
}
