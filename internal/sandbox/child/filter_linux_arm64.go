package child

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_AARCH64
	foreignCalls = 0x40000000 // there are none
)

// allowedHere are the calls that this architecture has beside those of all.
var allowedHere []uintptr

// deadlyHere are the calls that end the process on this architecture.
var deadlyHere = []uintptr{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_ACCEPT}
