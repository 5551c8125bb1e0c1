package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// ForeignCalls is the first number of the calls of another interface of this architecture.
const ForeignCalls = 0x40000000 // calls of the x32 interface begin here
