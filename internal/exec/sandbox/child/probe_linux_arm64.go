package child

import "golang.org/x/sys/unix"

// hereAttempts returns attempts specific to this architecture.
func hereAttempts() []attempt {
	return []attempt{
		one("load a kernel from a file", unix.SYS_KEXEC_FILE_LOAD, -1, -1, 0, 0, 0xff),
	}
}
