// Package memfile creates files that exist in memory only and can be made immutable (Linux; see
// memfd_create(2) and fcntl(2), F_ADD_SEALS).
package memfile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sealWait is how long SealFile waits for a file that the kernel calls busy.
const sealWait = 10 * time.Second

// CreateFile returns an empty file in memory. The name is for people; it appears in /proc.
func CreateFile(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// SealFile makes f immutable: it can no longer be written, resized or unsealed.
//
// The kernel refuses the seal with EBUSY while anything else holds one of the file's pages. On a
// loaded machine the kernel itself does that for moments, when it reclaims or moves memory. So
// SealFile tries again for some seconds. For a file on a disk, which has no seals, the error is
// unix.EINVAL.
func SealFile(f *os.File) error {
	end := time.Now().Add(sealWait)
	for wait := time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS,
			unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
		if !errors.Is(err, unix.EBUSY) || time.Now().After(end) {
			return err
		}
		time.Sleep(wait)
	}
}
