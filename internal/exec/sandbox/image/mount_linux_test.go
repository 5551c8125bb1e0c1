package image

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRemoveMounted checks that a tree isn't removed while something is mounted in it.
func TestRemoveMounted(t *testing.T) {
	tree, volume := filepath.Join(t.TempDir(), "a tree"), t.TempDir()
	at := filepath.Join(tree, "data")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatalf("make a tree: %v", err)
	}
	kept := filepath.Join(volume, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatalf("write a file: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its own mounts
		if unix.Unshare(unix.CLONE_NEWNS) != nil || unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") != nil ||
			unix.Mount(volume, at, "", unix.MS_BIND, "") != nil {
			close(done)
			return
		}
		done <- removeTree(tree)
	}()
	err, mounted := <-done
	if !mounted {
		t.Skip("mounting needs rights that this user doesn't have")
	}
	if err == nil || !strings.Contains(err.Error(), at) {
		t.Errorf("remove a tree with a mount: %v, want an error with %s", err, at)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the file of the volume: %v, want it kept", err)
	}
	if err := removeTree(tree); err != nil {
		t.Errorf("remove the tree without the mount: %v", err)
	}
}
