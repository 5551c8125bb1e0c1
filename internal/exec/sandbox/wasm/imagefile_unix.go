//go:build (linux || darwin || freebsd) && (amd64 || arm64)

package wasm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An imageFile keeps a memory image where the system can map it copy-on-write: on Linux in an
// anonymous, sealed memory file. Elsewhere, and if that is not available, it is a temporary file
// that has been unlinked.
type imageFile struct {
	f    *os.File
	kind string // for users
}

// newImageFile creates a file of size zero bytes.
func newImageFile(size int) (*imageFile, error) {
	f, kind, err := anonymousFile()
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(int64(size)); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("make a %s for the image: %w", kind, err)
	}
	return &imageFile{f, kind}, nil
}

// write writes b, starting at a page.
func (i *imageFile) write(b []byte, page uint32) error {
	_, err := i.f.WriteAt(b, int64(page)*pageSize)
	return err
}

// seal makes the file immutable if the system can.
func (i *imageFile) seal() error { return seal(i.f) }

// view maps the file for reading.
func (i *imageFile) view() ([]byte, error) {
	fi, err := i.f.Stat()
	if err != nil {
		return nil, err
	}
	return unix.Mmap(int(i.f.Fd()), 0, int(fi.Size()), unix.PROT_READ, unix.MAP_PRIVATE)
}

// mapAt maps the image over b, readable and writable, copy-on-write.
func (i *imageFile) mapAt(b []byte) error {
	return remap(b, int(i.f.Fd()), unix.PROT_READ|unix.PROT_WRITE, mapNoReserve)
}

func (i *imageFile) close() { _ = i.f.Close() } // nothing was buffered

// temporaryFile creates a file and unlinks it.
func temporaryFile() (*os.File, string, error) {
	f, err := os.CreateTemp("", "biplane-image-*")
	if err != nil {
		return nil, "", fmt.Errorf("make a file for the image: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, "", fmt.Errorf("make a file for the image: %w", err)
	}
	return f, "temporary file", nil
}
