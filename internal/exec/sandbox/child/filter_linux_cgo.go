//go:build cgo

package child

import "golang.org/x/sys/unix"

// allowedLibc lists additional calls that the C library makes when it starts a thread or needs
// memory.
var allowedLibc = []uintptr{unix.SYS_RSEQ, unix.SYS_SET_ROBUST_LIST, unix.SYS_SCHED_GETAFFINITY, unix.SYS_BRK,
	unix.SYS_MREMAP}
