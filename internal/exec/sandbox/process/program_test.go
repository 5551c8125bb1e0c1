//go:build linux && entry

package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestEntryProgram checks that the embedded program is the one that its source makes, and that
// sandboxes are started and served by it.
func TestEntryProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "entry")
	build := exec.CommandContext(t.Context(), "../../../../scripts/entry.sh", runtime.GOARCH, path)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	built, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	if !bytes.Equal(built, entryProgram) {
		t.Errorf("the embedded program (%d bytes) differs from what the source makes (%d bytes): run make build",
			len(entryProgram), len(built))
	}
	b := newBox(t, "bash")
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", b.process.Pid))
	if err != nil || !strings.HasPrefix(exe, "/memfd:biplane") {
		t.Errorf("the first process executes %q, %v, want the file in memory", exe, err)
	}
	if err := b.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// TestCanExecute checks that a program is used only if the system executes it.
func TestCanExecute(t *testing.T) {
	for _, c := range []struct {
		content []byte
		want    bool
	}{{entryProgram, true}, {[]byte("no program"), false}} {
		f, err := sealFile("biplane", c.content)
		if err != nil {
			t.Fatalf("sealFile: %v", err)
		}
		if got := canExecute(f); got != c.want {
			t.Errorf("%d bytes: canExecute = %t, want %t", len(c.content), got, c.want)
		}
		if err := f.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}
