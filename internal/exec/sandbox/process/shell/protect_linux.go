package shell

import (
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// deadly lists the signals on which Go's runtime ends the process unless they are handled. The
// kernel drops signals from inside to the first process only if it has no handler, and the runtime
// installs one for each, so programs could end the agent. Each entry costs time at the start.
var deadly = []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS,
	unix.SIGFPE, unix.SIGSEGV, unix.SIGPIPE, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGSYS}

// unhandled lists the signals for which the runtime installs no handler. The kernel doesn't drop
// such a signal while the main thread blocks it, as it does when it starts a process: another
// thread then ends the agent.
var unhandled = []uintptr{32, 34}

// protectAgent makes sure that programs in the sandbox can't end the agent, or read or change its
// memory.
func protectAgent() error {
	signal.Notify(make(chan os.Signal, 1), deadly...)
	for _, n := range unhandled {
		action := [4]uintptr{1} // struct kernel_sigaction of rt_sigaction(2), with SIG_IGN
		const setSize = 8
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(&action)), 0, setSize, 0,
			0); errno != 0 {
			return fmt.Errorf("ignore signal %d: %w", n, errno)
		}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("protect the agent: %w", err)
	}
	return nil
}
