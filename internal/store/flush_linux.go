package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushData waits until the disk has what was written to a file, and as much of its attributes as
// is needed to read that.
func flushData(f *os.File) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = raw.Control(func(fd uintptr) {
		for ferr = unix.EINTR; ferr == unix.EINTR; {
			ferr = unix.Fdatasync(int(fd))
		}
	})
	if err != nil {
		return err
	}
	return ferr
}
