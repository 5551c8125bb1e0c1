//go:build unix

package web

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadFile checks that only a regular file below the folder is read: a named pipe without a
// writer must not block.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("text"), 0o600); err != nil {
		t.Fatalf("os.WriteFile: %v", err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatalf("syscall.Mkfifo: %v", err)
	}
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "device")); err != nil {
		t.Fatalf("os.Symlink: %v", err)
	}
	if text, err := ReadFile(dir, "a", 4); err != nil || string(text) != "text" {
		t.Errorf("got %q, %v", text, err)
	}
	for _, c := range []struct {
		name, reason string
		most         int
	}{
		{"a", "more than", 3}, {"pipe", "not a regular file", 10}, {"device", "escapes", 10},
		{".", "not a regular", 10},
		{"none", "no such file", 10},
	} {
		if _, err := ReadFile(dir, c.name, c.most); err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.reason)
		}
	}
	if _, err := ReadFile("/dev", "zero", 10); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a device: %v", err)
	}
}
