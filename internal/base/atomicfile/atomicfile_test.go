package atomicfile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// checkFile checks the content and permissions of a file, and that its folder contains only names.
func checkFile(t *testing.T, path, want string, mode os.FileMode, names ...string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("the file contains %q, %v; want %q", got, err, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatalf("examine the file: %v", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != mode {
		t.Errorf("the file has mode %v; want %v", info.Mode().Perm(), mode)
	}
	checkFolder(t, filepath.Dir(path), names...)
}

func checkFolder(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("list the folder: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got, want := strings.Join(names, " "), strings.Join(want, " "); got != want {
		t.Errorf("the folder contains %q; want %q", got, want)
	}
}

func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, mode := range []os.FileMode{0o600, 0o644, 0o640} {
		text := mode.String()
		if err := WriteFile(path, []byte(text), mode); err != nil {
			t.Fatalf("WriteFile with mode %v: %v", mode, err)
		}
		checkFile(t, path, text, mode, "a")
	}
}

// TestDiscard checks that a version that isn't committed leaves nothing behind.
func TestDiscard(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if _, err := f.WriteString("new"); err != nil {
		t.Fatalf("write the new version: %v", err)
	}
	f.Discard()
	checkFile(t, path, "old", 0o644, "a")
	if err := f.Commit(); err == nil {
		t.Error("Commit after Discard succeeded; want an error")
	}
	checkFile(t, path, "old", 0o644, "a")
}

// TestDiscardAfterCommit checks that Discard does not delete a committed file.
func TestDiscardAfterCommit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	f, err := Create(path, 0o600)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if err := f.Commit(); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	f.Discard()
	checkFile(t, path, "", 0o600, "a")
}

// TestFailure checks that a file that can't replace what is at its path leaves nothing behind.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	if err := os.MkdirAll(filepath.Join(path, "b"), 0o700); err != nil {
		t.Fatalf("make a folder: %v", err)
	}
	if err := WriteFile(path, nil, 0o600); err == nil {
		t.Error("WriteFile replaced a folder; want an error")
	}
	checkFolder(t, dir, "a")
	checkFolder(t, path, "b")
	if err := WriteFile(filepath.Join(dir, "none", "a"), nil, 0o600); err == nil {
		t.Error("WriteFile into a missing folder succeeded; want an error")
	}
}
