package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// flushData waits until a file's data, and the metadata needed to read it, is on the disk.
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
