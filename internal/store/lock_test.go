package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/biplane-dev/biplane/internal/tool"
)

// TestLockOfTheDead checks that the lock of a killed owner is waited for while a child still has
// it, and the lock of a running process is not.
func TestLockOfTheDead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no data folders here")
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatalf("Run: %v", err)
	}
	for _, tt := range []struct {
		name string
		pid  int
		ok   bool
	}{{"dead", ended.Process.Pid, true}, {"running", os.Getpid(), false}} {
		dir := t.TempDir()
		f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatalf("os.OpenFile: %v", err)
		}
		if _, err := f.WriteString(`{"pid":` + strconv.Itoa(tt.pid) + "}\n"); err != nil {
			t.Fatalf("WriteString: %v", err)
		}
		if err := flock(f); err != nil {
			t.Fatalf("flock: %v", err)
		}
		got := make(chan error, 1)
		go func() {
			l, err := lockFolder(t.Context(), dir, Owner{})
			if err == nil {
				err = l.releaseLock()
			}
			got <- err
		}()
		if tt.ok {
			f.Close()
		}
		if err := <-got; tt.ok != (err == nil) || err != nil && tool.AsError(err).Kind != tool.Conflict {
			t.Errorf("%s, err = %v, want tt.ok == (err == nil) && (err == nil || tool.AsError(err).Kind "+
				"== tool.Conflict)", tt.name, err)
		}
		f.Close()
	}
}

// TestReleasedLock checks that a released lock is free, although another process still has the
// file, as a child does until its program begins.
func TestReleasedLock(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no data folders here")
	}
	dir := t.TempDir()
	l, err := lockFolder(t.Context(), dir, Owner{})
	if err != nil {
		t.Fatalf("lockFolder: %v", err)
	}
	child := exec.Command("sleep", "600")
	child.ExtraFiles = []*os.File{l.f}
	if err := child.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	defer child.Wait()
	defer child.Process.Kill()
	if err := l.releaseLock(); err != nil {
		t.Fatalf("releaseLock: %v", err)
	}
	again, err := lockFolder(t.Context(), dir, Owner{})
	if err != nil {
		t.Fatalf("the released folder is locked: %v", err)
	}
	if err := again.releaseLock(); err != nil {
		t.Errorf("releaseLock: %v", err)
	}
}
