package entry

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStarter runs starters of short lists, and checks what they do and how they end.
func TestStarter(t *testing.T) {
	dir := t.TempDir()
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	file, err := os.Create(one)
	if err := errors.Join(err, os.WriteFile(other, nil, 0o600)); err != nil {
		t.Fatalf("make two files: %v", err)
	}
	defer file.Close()
	const extra = 3 // the descriptor of one in the starter
	for _, c := range []struct {
		name  string
		list  func(*caller) error
		exit  unix.Errno // 0: it executes a program, which prints its arguments and environment
		print string
	}{
		{"it executes a program", func(c *caller) error { return nil }, 0, "argument value\n"},
		{"it writes", func(c *caller) error { return c.writeAll(1, "text ") }, 0, "text argument value\n"},
		{"a call fails", func(c *caller) error { return c.makeFolder(one) }, unix.EEXIST, ""},
		{"an error is ignored", func(c *caller) error {
			_, err := c.callUnless(unix.EEXIST, unix.SYS_MKDIRAT, unix.AT_FDCWD, one, 0)
			return err
		}, 0, "argument value\n"},
		{"another error is not", func(c *caller) error {
			_, err := c.callUnless(unix.EEXIST, unix.SYS_MKDIRAT, unix.AT_FDCWD, one+"/x", 0)
			return err
		}, unix.ENOTDIR, ""},
		{"descriptors are as foreseen", func(c *caller) error {
			fd, err := c.openBy(unix.SYS_OPENAT, unix.AT_FDCWD, dir, unix.O_PATH, 0)
			return errors.Join(err, c.makeFile(dir+"/new", "new", 0o600), c.closeFile(fd),
				c.makeFile(dir+"/newer", "", 0))
		}, 0, "argument value\n"},
		{"a descriptor is not", func(c *caller) error {
			c.record.opened[extra+1] = true
			return c.makeFile(dir+"/newest", "", 0o600)
		}, unix.EBADMSG, ""},
		{"a path is of a descriptor", func(c *caller) error { return c.isSame(one, extra) }, 0, "argument value\n"},
		{"a path is not", func(c *caller) error { return c.isSame(other, extra) }, unix.EBADMSG, ""},
		{"a filter is complete", func(c *caller) error {
			return errors.Join(c.makeCall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), filterCalls(c, nil),
				c.makeCall(unix.SYS_UNSHARE, 0))
		}, unix.ENOSYS, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecorder(extra + 1)
			if err := c.list(&caller{record: r}); err != nil {
				t.Fatalf("record: %v", err)
			}
			err := r.addExecution("/bin/sh", []string{"sh", "-c", "echo $0 $name", "argument"}, []string{"name=value"})
			program, made := r.makeStarter()
			path := filepath.Join(t.TempDir(), "starter")
			if err := errors.Join(err, made, os.WriteFile(path, program, 0o700)); err != nil {
				t.Fatalf("make a starter: %v", err)
			}
			cmd := exec.CommandContext(t.Context(), path)
			cmd.ExtraFiles = []*os.File{file}
			out, err := cmd.Output()
			exit := &exec.ExitError{}
			if err != nil && !errors.As(err, &exit) {
				t.Fatalf("run it: %v", err)
			}
			if code := cmd.ProcessState.ExitCode(); code != int(c.exit) || string(out) != c.print {
				t.Errorf("it ended with %d and printed %q, want %d and %q", code, out, int(c.exit), c.print)
			}
		})
	}
	if b, err := os.ReadFile(dir + "/new"); err != nil || string(b) != "new" {
		t.Errorf("a file that a starter made: %q, %v", b, err)
	}
}
