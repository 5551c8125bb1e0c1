//go:build (linux || darwin || freebsd) && (amd64 || arm64)

package wasm

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// An imageFile keeps a memory image where the system can map it copy-on-write: in an anonymous, sealed file of memory
// on Linux, elsewhere (and where that can't be had) in a temporary file that no name leads to any more.
type imageFile struct {
	f    *os.File
	kind string // for people
}

func newImageFile(b []byte) (*imageFile, error) {
	f, kind, err := anonymousFile()
	if err != nil {
		return nil, err
	}
	img := &imageFile{f, kind}
	if err := img.fill(b); err != nil {
		img.close()
		return nil, fmt.Errorf("keep the image in a %s: %w", kind, err)
	}
	return img, nil
}

// fill writes b; pages of zeros stay holes.
func (i *imageFile) fill(b []byte) error {
	if err := i.f.Truncate(int64(len(b))); err != nil {
		return err
	}
	const page = 16 << 10 // a multiple of the page size of all systems here
	var zero [page]byte
	for off := 0; off < len(b); off += page {
		p := b[off:min(off+page, len(b))]
		if string(p) == string(zero[:len(p)]) {
			continue
		}
		if _, err := i.f.WriteAt(p, int64(off)); err != nil {
			return err
		}
	}
	return seal(i.f)
}

// mapAt maps the image over b, readable and writable, copy-on-write.
func (i *imageFile) mapAt(b []byte) error {
	return remap(b, int(i.f.Fd()), unix.PROT_READ|unix.PROT_WRITE, mapNoReserve)
}

func (i *imageFile) close() { _ = i.f.Close() } // nothing was buffered

// temporaryFile makes a file that no name leads to.
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
