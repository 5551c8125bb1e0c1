package child

import (
	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/seccomp"
)

// hereAttempts returns attempts specific to this architecture.
func hereAttempts() []attempt {
	return []attempt{
		one("open /etc/passwd (the old call)", unix.SYS_OPEN, "/etc/passwd", unix.O_RDONLY, 0),
		one("a call of the x32 interface", unix.SYS_GETPID|seccomp.ForeignCalls),
		{"fork (the old call)", func() (string, error) { return forkedBy(unix.SYS_FORK, 0) }},
		one("access to ports (iopl)", unix.SYS_IOPL, 0),
		one("access to ports (ioperm)", unix.SYS_IOPERM, 0x80, 1, 0),
		one("segments (modify_ldt)", unix.SYS_MODIFY_LDT, 0, make([]byte, 16), 16),
		one("load a kernel from a file", unix.SYS_KEXEC_FILE_LOAD, -1, -1, 0, 0, 0xff),
	}
}
