//go:build linux

package process_test

import (
	"context"
	"log/slog"
	"os"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/seccomp"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
)

// runWithoutStarters runs a command in some machines, while the system refuses the first call of
// starters: to read one byte of the connection. It prints the log.
func runWithoutStarters() error {
	rules := []seccomp.Rule{{Call: unix.SYS_READ, Then: seccomp.Refuse,
		Checks: append(seccomp.CheckEqual(0, 3), seccomp.CheckEqual(2, 1)...)}}
	folder, err := os.MkdirTemp("", "biplane-slow-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	d, err := process.New(process.Config{Log: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err != nil {
		return err
	}
	if err := seccomp.InstallFilter(seccomp.AssembleFilter(rules, unix.SECCOMP_RET_ALLOW)); err != nil {
		return err
	}
	for range 5 {
		m, err := d.CreateMachine(context.Background(), sandbox.MachineSpec{Folder: folder})
		if err != nil {
			return err
		}
		if _, err := service.AskAgent(context.Background(), m, &service.Request{Op: service.OpRun,
			Command: []string{"true"}}); err != nil {
			return err
		}
	}
	return d.Close()
}
