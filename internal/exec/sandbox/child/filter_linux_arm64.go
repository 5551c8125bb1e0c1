package child

import "golang.org/x/sys/unix"

// allowedHere lists additional allowed calls of this architecture.
var allowedHere []uintptr

// deadlyHere lists additional calls that kill the process on this architecture.
var deadlyHere = []uintptr{unix.SYS_KEXEC_FILE_LOAD, unix.SYS_ACCEPT}
