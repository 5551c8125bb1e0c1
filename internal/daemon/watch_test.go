package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestStatFile checks that a file that replaces another one is noticed, even with its size and
// time.
func TestStatFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, other := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	moment := time.Unix(1, 0)
	for path, text := range map[string]string{file: "one", other: "two"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		if err := os.Chtimes(path, moment, moment); err != nil {
			t.Fatalf("Chtimes: %v", err)
		}
	}
	before := statFile(file)
	if !statFile(file).isSame(before) {
		t.Error("an unchanged file has changed")
	}
	if err := os.Rename(other, file); err != nil {
		t.Fatalf("Rename: %v", err)
	}
	if statFile(file).isSame(before) || statFile(other).isSame(before) || !statFile(other).isSame(fileState{}) {
		t.Error("a replaced or absent file is the same as before")
	}
}
