package child

import "golang.org/x/sys/unix"

// allowedHere lists additional allowed calls of this architecture.
var allowedHere []uintptr

// deadlyHere lists additional calls that kill the process on this architecture.
var deadlyHere = []uintptr{
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_CHMOD, unix.SYS_MKNOD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT,
	unix.SYS_KEXEC_FILE_LOAD, unix.SYS_USELIB, unix.SYS_ACCEPT,
}
