package child

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/seccomp"
)

// pagemapScan is the ioctl PAGEMAP_SCAN, by which a process finds the pages that it has written to.
// It is applied to a file that the driver opened earlier.
const pagemapScan = 0xc0606610

// aThread is the flags of clone(2) that a new thread has.
const aThread = unix.CLONE_THREAD | unix.CLONE_VM | unix.CLONE_SIGHAND

// callRules returns the rules for the system calls of the Go runtime, and of drivers that map
// memory and memory files. Any other call fails with EPERM, except the deadly ones, which end the
// process.
func callRules() []seccomp.Rule {
	rs := []seccomp.Rule{
		{Call: unix.SYS_MMAP, Checks: seccomp.CheckBits(2, unix.PROT_EXEC, 0), Deny: seccomp.Kill},
		{Call: unix.SYS_MPROTECT, Checks: seccomp.CheckBits(2, unix.PROT_EXEC, 0), Deny: seccomp.Kill},
		// Threads only. (The kernel refuses a thread with namespaces of its own.)
		{Call: unix.SYS_CLONE,
			Checks: seccomp.CheckBits(0, aThread, aThread), Deny: seccomp.Kill},
		// its flags can't be inspected here; callers fall back to clone
		{Call: unix.SYS_CLONE3, Checks: seccomp.FailAlways(), Deny: seccomp.Unknown},
		{Call: unix.SYS_TGKILL, Checks: seccomp.CheckEqual(0, uint32(os.Getpid())), Deny: seccomp.Kill},
		// for the socket: receives no descriptors
		{Call: unix.SYS_RECVFROM, Checks: seccomp.CheckEqual(3, unix.MSG_DONTWAIT), Deny: seccomp.Refuse},
		{Call: unix.SYS_IOCTL, Checks: seccomp.CheckEqual(1, pagemapScan), Deny: seccomp.Refuse},
		// the runtime names its mappings until this fails
		{Call: unix.SYS_PRCTL, Checks: seccomp.FailAlways(), Deny: seccomp.Invalid},
	}
	for _, cmd := range []uint32{unix.F_GETFL, unix.F_ADD_SEALS, unix.F_GET_SEALS} {
		// with Deny 0, the next rule checks other commands
		rs = append(rs, seccomp.Rule{Call: unix.SYS_FCNTL, Checks: seccomp.CheckEqual(1, cmd), Deny: 0})
	}
	for _, call := range slices.Concat(allowed, allowedHere, allowedLibc) {
		rs = append(rs, seccomp.Rule{Call: call})
	}
	for _, call := range slices.Concat(deadly, deadlyHere) {
		rs = append(rs, seccomp.Rule{Call: call, Checks: seccomp.FailAlways(), Deny: seccomp.Kill})
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

// deadly lists calls that no correct code here makes. A process that makes one has been taken over,
// so it is killed.
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

// filterCalls applies the filter to all threads permanently, and returns the number of calls that
// it allows.
func filterCalls() (int, error) {
	rs := callRules()
	if err := seccomp.InstallFilter(seccomp.AssembleFilter(rs, seccomp.Refuse)); err != nil {
		return 0, err
	}
	return seccomp.CountCalls(rs), nil
}
