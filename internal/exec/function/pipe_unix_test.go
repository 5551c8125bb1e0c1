//go:build unix

package function_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/function"
)

// TestPipe checks that a manifest can't make Biplane wait for a named pipe, or read what is outside
// of the folder.
func TestPipe(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatalf("create a link: %v", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatalf("open the folder: %v", err)
	}
	defer root.Close()
	for name, want := range map[string]string{
		"pipe": "pipe is not a regular file", "link": "link leads out of the folder by a link",
	} {
		manifest := filepath.Join(dir, "x.tool.yaml")
		if err := os.WriteFile(manifest, []byte("executable: "+name), 0o600); err != nil {
			t.Fatalf("write the manifest: %v", err)
		}
		if _, err := function.ReadFile(root.FS(), "x.tool.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: err = %v, want %q", name, err, want)
		}
	}
}
