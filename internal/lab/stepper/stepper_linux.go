package stepper

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Call is a system call that may be a step.
type Call struct {
	Number uint32
	// Argument must have one of the bits of Mask. A zero Mask selects all calls.
	Argument int
	Mask     uint32
}

// Names describe calls.
type Names interface {
	// DescribeCall describes the change that a call makes; empty: it is no step.
	DescribeCall(call uint32, args [6]uint64) string
}

// A Config defines the steps of a process. Its own goroutine must not make such calls while
// it describes one.
type Config struct {
	Calls []Call
	Names Names
	Log   string // name of a file, which gets a line for each step before it is made
	Last  int    // the process dies with SIGKILL before this step, counted from 1; 0: never
}

// LogSteps begins to log the steps of this process. All calls continue normally, as do those of
// child processes.
func LogSteps(cfg Config) error {
	file, err := os.OpenFile(cfg.Log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() { // until the process ends
		runtime.LockOSThread()
		fd, err := installFilter(makeFilter(cfg.Calls))
		if ready <- err; err == nil {
			watchSteps(cfg, fd, file)
		}
	}()
	return <-ready
}

// makeFilter returns a filter that makes the kernel notify before each of the calls, and allows all
// others.
func makeFilter(calls []Call) []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		some = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	p := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	for _, c := range calls {
		if c.Mask == 0 {
			p = append(p, unix.SockFilter{Code: same, K: c.Number, Jf: 1},
				unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF})
			continue
		}
		p = append(p,
			unix.SockFilter{Code: same, K: c.Number, Jf: 4},
			unix.SockFilter{Code: load, K: uint32(16 + 8*c.Argument)},
			unix.SockFilter{Code: some, K: c.Mask, Jf: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	}
	return append(p, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
}

// installFilter installs the filter in all threads, and returns the descriptor for its
// notifications.
func installFilter(filter []unix.SockFilter) (fd uintptr, err error) {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
		uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return 0, errno
	}
	return fd, nil
}

// A notification is the kernel's notice of a pending call, and a verdict the answer: struct
// seccomp_notif, struct seccomp_notif_resp.
type notification struct {
	id         uint64
	pid, flags uint32
	call, arch uint32
	ip         uint64
	args       [6]uint64
}

type verdict struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// watchSteps logs the steps, and kills the process before the last one.
func watchSteps(cfg Config, fd uintptr, log *os.File) {
	for n := 0; ; {
		var req notification
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV,
			uintptr(unsafe.Pointer(&req))); errno != 0 {
			continue // the caller of the system call is gone
		}
		if isOwn(req.pid) {
			if what := cfg.Names.DescribeCall(req.call, req.args); what != "" {
				n++
				fmt.Fprintf(log, "%d %s\n", n, what)
				if n == cfg.Last {
					_ = unix.Kill(os.Getpid(), unix.SIGKILL)
					select {}
				}
			}
		}
		res := verdict{id: req.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&res)))
	}
}

// isOwn reports whether a thread is one of this process.
func isOwn(pid uint32) bool {
	_, err := os.Lstat(fmt.Sprintf("/proc/self/task/%d", pid))
	return err == nil
}
