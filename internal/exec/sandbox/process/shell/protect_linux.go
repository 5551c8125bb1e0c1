package shell

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deadly lists the signals that programs could end the agent with. The kernel drops signals from
// inside to the first process only if it has no handler, and Go's runtime installs one for each
// signal: on some of them it ends the process. It installs none for the last two. But the kernel
// doesn't drop such a signal while the main thread blocks it, as it does when it starts a process:
// another thread then ends the agent.
var deadly = []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT,
	unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGPIPE, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGSYS, 32, 34}

// protectAgent makes sure that programs in the sandbox can't end the agent, or read or change its
// memory.
//
// It ignores the signals without package signal, which starts two threads and needs twenty times as
// long. The runtime doesn't know of it, so it still resets the signals that it has handlers for in
// each process that the agent starts. A fault of the agent itself ends it, as it would otherwise.
func protectAgent() error {
	for _, n := range deadly {
		action := [4]uintptr{1} // struct kernel_sigaction of rt_sigaction(2), with SIG_IGN
		const setSize = 8
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(n), uintptr(unsafe.Pointer(&action)), 0,
			setSize, 0, 0)
		if errno != 0 {
			return fmt.Errorf("ignore signal %d: %w", n, errno)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the agent: %w", err)
	}
	return nil
}
