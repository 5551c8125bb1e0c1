package child

import (
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A socket is one end of the connection. It is read by a blocking system call on a dedicated
// thread, which wakes sooner than a poller's.
type socket struct {
	*os.File
	fd uintptr
}

func newSocket(fd int, name string) socket { return socket{os.NewFile(uintptr(fd), name), uintptr(fd)} }

// readNow reads the available bytes. The socket must not be closed meanwhile.
func (s socket) readNow(p []byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, s.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // so that polling delays no other thread
		return 0, errNothing
	case errno != 0:
		return 0, os.NewSyscallError("recvfrom", errno)
	case n == 0:
		return 0, io.EOF
	}
	return int(n), nil
}

// writeNow writes as much as fits without blocking. The socket must not be closed meanwhile.
func (s socket) writeNow(p []byte) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_SENDTO, s.fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
		return 0, nil
	case errno != 0:
		return 0, os.NewSyscallError("sendto", errno)
	}
	return int(n), nil
}
