//go:build linux

package owned_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/biplane-dev/biplane/internal/base/folder"
	"github.com/biplane-dev/biplane/internal/exec/owned"
	"github.com/biplane-dev/biplane/internal/tool"
	"golang.org/x/sys/unix"
)

// makeDeep makes folders within each other below a folder.
func makeDeep(t *testing.T, dir string, depth int) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	const name = "node_modules"
	for range depth {
		if err == nil {
			err = root.Mkdir(name, 0o700)
		}
		if err != nil {
			t.Fatalf("make folders: %v", err)
		}
		above := root
		root, err = above.OpenRoot(name)
		err = errors.Join(err, above.Close())
	}
	if err := errors.Join(err, root.WriteFile("file", make([]byte, 8192), 0o600), root.Close()); err != nil {
		t.Fatalf("make folders: %v", err)
	}
}

// TestDeepFolders checks that folders that programs nest without end are measured in little time
// and memory, exceed a limit, and can be removed.
func TestDeepFolders(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{250, 251, 800} {
		dir := filepath.Join(t.TempDir(), "files")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatalf("make a folder: %v", err)
		}
		makeDeep(t, dir, depth)
		bytes, files, err := owned.MeasureFolder(dir, 1<<30, 100_000)
		switch {
		case depth <= 250 && (err != nil || files != depth+1 || bytes < 8192):
			t.Errorf("%d deep: %d bytes, %d files, %v", depth, bytes, files, err)
		case depth > 250 && (err == nil || tool.AsError(err).Kind != tool.Limit):
			t.Errorf("%d deep: %v, want an error of kind limit", depth, err)
		}
		if err := folder.RemoveFolder(dir); err != nil {
			t.Errorf("%d deep, removed: %v", depth, err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d deep: the folder is there still: %v", depth, err)
		}
	}
	if err := folder.RemoveFolder(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a folder that isn't there: %v", err)
	}
}

// TestPipesInPlaceOfFolders checks that a program can't hold up the measurement by putting a pipe,
// whose opening waits for a writer, in the place of a folder.
func TestPipesInPlaceOfFolders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, pipe := filepath.Join(dir, "folder"), filepath.Join(dir, "pipe")
	if err := errors.Join(os.Mkdir(folder, 0o700), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatalf("make a folder and a pipe: %v", err)
	}
	stop, swapped := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				swapped <- nil
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, folder, unix.AT_FDCWD, pipe, unix.RENAME_EXCHANGE); err != nil {
				swapped <- err
				return
			}
		}
	}()
	measured := make(chan error, 1)
	go func() {
		for range 3000 {
			if _, _, err := owned.MeasureFolder(dir, 1<<30, 100); err != nil {
				measured <- err
				return
			}
		}
		measured <- nil
	}()
	select {
	case err := <-measured:
		if err != nil {
			t.Errorf("measured: %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("the measurement waits for the pipe")
	}
	close(stop)
	if err := <-swapped; err != nil {
		t.Errorf("swap: %v", err)
	}
}
