package memfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/memfile"
)

func TestSeal(t *testing.T) {
	f := createFile(t)
	if err := memfile.SealFile(f); err != nil {
		t.Fatalf("seal the file: %v", err)
	}
	if _, err := f.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("write to a sealed file: %v, want EPERM", err)
	}
	if err := f.Truncate(1); !errors.Is(err, unix.EPERM) {
		t.Errorf("shrink a sealed file: %v, want EPERM", err)
	}
}

// A file is busy for as long as it is mapped for writing.
func TestSealBusy(t *testing.T) {
	f := createFile(t)
	mapped, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatalf("map the file: %v", err)
	}
	sealed := make(chan error, 1)
	go func() { sealed <- memfile.SealFile(f) }()
	select {
	case err := <-sealed:
		t.Fatalf("a mapped file was sealed, or given up at once: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := unix.Munmap(mapped); err != nil {
		t.Fatalf("unmap the file: %v", err)
	}
	if err := <-sealed; err != nil {
		t.Errorf("a file that was busy for a moment: %v", err)
	}
}

func TestSealOnDisk(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatalf("create a file: %v", err)
	}
	defer f.Close()
	if err := memfile.SealFile(f); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) {
		t.Errorf("seal a file on a disk: %v, want EINVAL", err)
	}
}

func createFile(t *testing.T) *os.File {
	t.Helper()
	f, err := memfile.CreateFile("test")
	if err != nil {
		t.Fatalf("create a file: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteAt(make([]byte, 4096), 0); err != nil {
		t.Fatalf("fill the file: %v", err)
	}
	return f
}
