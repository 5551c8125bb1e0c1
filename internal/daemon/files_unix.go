//go:build unix

package daemon

import "syscall"

// openFiles returns how many files this process may have open.
func openFiles() int64 {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return 256 // the minimum on all systems
	}
	return int64(min(uint64(l.Cur), 1<<20))
}
