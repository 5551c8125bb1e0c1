package child

import "golang.org/x/sys/unix"

const (
	auditArch    = unix.AUDIT_ARCH_X86_64
	foreignCalls = 0x40000000 // those of the x32 interface begin here
)

// allowedHere are the calls that this architecture has beside those of all.
var allowedHere []uintptr

// deadlyHere are the calls that end the process on this architecture.
var deadlyHere = []uintptr{
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CHMOD, unix.SYS_MKNOD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT,
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_USELIB, unix.SYS_ACCEPT,
}
