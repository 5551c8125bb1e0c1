//go:build linux && (amd64 || arm64)

package wasm

import (
	"os"

	"golang.org/x/sys/unix"
)

// anonymousFile creates a memory file, or a temporary file if the system has none.
func anonymousFile() (*os.File, string, error) {
	fd, err := unix.MemfdCreate("biplane-image", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return temporaryFile()
	}
	return os.NewFile(uintptr(fd), "biplane-image"), "sealed memory file", nil
}

// seal makes the file immutable if possible: a sealed image can't be altered under the guests that
// map it.
func seal(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
		unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	if err == unix.EINVAL { // a temporary file has no seals
		return nil
	}
	return err
}

// populate makes the pages of b present and private (Linux 5.14). If it fails, the first write does
// that.
func populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
