package child

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A rule allows a system call if its arguments pass all checks.
type rule struct {
	call  uintptr
	check []check // all must hold
	deny  uint32  // action if a check fails; 0 means continue with the next rule
}

// A check requires (argument & mask) == want for the low 32 bits. The kernel reads no more of the
// arguments checked here.
type check struct {
	argument   int
	mask, want uint32
}

const (
	deny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	wrong = unix.SECCOMP_RET_ERRNO | uint32(unix.EINVAL)
	none  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	kill  = unix.SECCOMP_RET_KILL_PROCESS
)

// pagemapScan is the ioctl PAGEMAP_SCAN, by which a process finds the pages that it has written to.
// It is applied to a file that the driver opened earlier.
const pagemapScan = 0xc0606610

// rules returns the rules for the system calls of the Go runtime, and of drivers that map memory
// and memory files. Any other call fails with EPERM, except the deadly ones, which end the process.
func rules() []rule {
	rs := []rule{
		{call: unix.SYS_MMAP, check: []check{{2, unix.PROT_EXEC, 0}}, deny: kill},
		{call: unix.SYS_MPROTECT, check: []check{{2, unix.PROT_EXEC, 0}}, deny: kill},
		// Threads only. (The kernel refuses a thread with namespaces of its own.)
		{call: unix.SYS_CLONE,
			check: []check{{0, unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND,
				unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND}}, deny: kill},
		// its flags can't be inspected here; callers fall back to clone
		{call: unix.SYS_CLONE3, check: []check{{0, 0, 1}}, deny: none},
		{call: unix.SYS_TGKILL, check: []check{{0, ^uint32(0), uint32(os.Getpid())}}, deny: kill},
		// for the socket: receives no descriptors
		{call: unix.SYS_RECVFROM, check: []check{{3, ^uint32(0), unix.MSG_DONTWAIT}}, deny: deny},
		{call: unix.SYS_IOCTL, check: []check{{1, ^uint32(0), pagemapScan}}, deny: deny},
		// the runtime names its mappings until this fails
		{call: unix.SYS_PRCTL, check: []check{{0, 0, 1}}, deny: wrong},
	}
	for _, cmd := range []uint32{unix.F_GETFL, unix.F_ADD_SEALS, unix.F_GET_SEALS} {
		// with deny 0, the next rule checks other commands
		rs = append(rs, rule{call: unix.SYS_FCNTL, check: []check{{1, ^uint32(0), cmd}}, deny: 0})
	}
	for _, call := range slices.Concat(allowed, allowedHere, allowedLibc) {
		rs = append(rs, rule{call: call})
	}
	for _, call := range slices.Concat(deadly, deadlyHere) {
		rs = append(rs, rule{call: call, check: []check{{0, 0, 1}}, deny: kill})
	}
	return rs
}

// allowed lists the calls that need no check.
var allowed = []uintptr{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_READV, unix.SYS_WRITEV,
	unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_FTRUNCATE, unix.SYS_MEMFD_CREATE, unix.SYS_FALLOCATE,
	unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL,
	unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
	unix.SYS_GETTIMEOFDAY,
	unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MINCORE,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_RESTART_SYSCALL,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_GETRANDOM, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}

// deadly lists calls that no correct code here makes. A caller must have taken over the process, so
// the process is killed.
var deadly = []uintptr{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_KCMP,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT,
	unix.SYS_FSOPEN,
	unix.SYS_FSMOUNT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR, unix.SYS_MKNODAT,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT,
	unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT4,
	unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_SENDTO,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER, unix.SYS_BPF,
	unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETRESUID,
	unix.SYS_SETRESGID,
	unix.SYS_SETGROUPS, unix.SYS_CAPSET, unix.SYS_PERSONALITY, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD,
	unix.SYS_PIDFD_SEND_SIGNAL,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PKEY_MPROTECT,
	unix.SYS_REMAP_FILE_PAGES,
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_ACCT,
	unix.SYS_QUOTACTL, unix.SYS_SYSLOG,
	unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_SECCOMP,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN, unix.SYS_VMSPLICE,
	unix.SYS_TEE, unix.SYS_SPLICE,
}

// program assembles the filter: each rule in order, then EPERM for all other calls. Calls of a
// foreign architecture kill the process.
func program(rs []rule) []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		more = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		and  = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	p := []unix.SockFilter{
		{Code: load, K: 4}, // the architecture
		{Code: same, K: auditArch, Jt: 1},
		{Code: ret, K: kill},
		{Code: load, K: 0}, // the number of the call
		{Code: more, K: foreignCalls, Jf: 1},
		{Code: ret, K: kill},
	}
	for _, r := range rs {
		if len(r.check) == 0 {
			p = append(p, unix.SockFilter{Code: same, K: uint32(r.call), Jf: 1},
				unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
			continue
		}
		var body []unix.SockFilter
		for i, c := range r.check {
			// number of later checks, three instructions each, followed by the allowing one
			left := len(r.check) - i - 1
			body = append(body,
				unix.SockFilter{Code: load, K: uint32(16 + 8*c.argument)},
				unix.SockFilter{Code: and, K: c.mask},
				unix.SockFilter{Code: same, K: c.want, Jf: uint8(3*left + 1)})
		}
		body = append(body, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
		if r.deny != 0 {
			body = append(body, unix.SockFilter{Code: ret, K: r.deny})
		} else {
			body = append(body, unix.SockFilter{Code: load, K: 0}) // continue with the next rule
		}
		p = append(p, unix.SockFilter{Code: same, K: uint32(r.call), Jf: uint8(len(body))})
		p = append(p, body...)
	}
	return append(p, unix.SockFilter{Code: ret, K: deny})
}

// filterCalls applies the filter to all threads permanently, and returns the number of calls that
// it allows.
func filterCalls() (int, error) {
	rs := rules()
	p := program(rs)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil { // the filter sets it for the other threads
		return 0, fmt.Errorf("give up new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return 0, fmt.Errorf("filter system calls: %w", errno)
	case thread != 0:
		return 0, fmt.Errorf("filter system calls: thread %d can't be filtered", thread)
	}
	calls := map[uintptr]bool{}
	for _, r := range rs {
		if len(r.check) == 0 || r.check[0].mask != 0 {
			calls[r.call] = true
		}
	}
	return len(calls), nil
}
