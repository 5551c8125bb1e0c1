package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// ForeignCalls is the first number of the calls of another interface of this architecture.
const ForeignCalls = 0x40000000 // there are none
