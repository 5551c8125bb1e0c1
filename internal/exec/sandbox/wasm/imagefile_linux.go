//go:build linux && (amd64 || arm64)

package wasm

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/base/memfile"
)

// anonymousFile creates a memory file, or a temporary file if the system has none.
func anonymousFile() (*os.File, string, error) {
	f, err := memfile.CreateFile("biplane-image")
	if err != nil {
		return temporaryFile()
	}
	return f, "sealed memory file", nil
}

// seal makes the file immutable if possible: a sealed image can't be altered under the guests that
// map it.
func seal(f *os.File) error {
	err := memfile.SealFile(f)
	if errors.Is(err, unix.EINVAL) { // a temporary file has no seals
		return nil
	}
	return err
}

// populate makes the pages of b present and private (Linux 5.14). If it fails, the first write does
// that.
func populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
