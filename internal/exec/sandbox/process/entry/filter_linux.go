package entry

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/seccomp"
)

// Namespaces is the flags of clone(2) that make namespaces.
const Namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWTIME

// callRules returns the rules for the system calls of ordinary programs. All others, among them
// those for mounts, namespaces, tracing, keys, io_uring, BPF and modules, behave as if the system
// didn't have them.
func callRules() []seccomp.Rule {
	rs := []seccomp.Rule{
		{Call: unix.SYS_CLONE, Checks: seccomp.CheckBits(0, Namespaces, 0), Deny: seccomp.Refuse},
		// its flags can't be inspected here; callers fall back to clone
		{Call: unix.SYS_CLONE3, Checks: seccomp.FailAlways(), Deny: seccomp.Unknown},
		{Call: unix.SYS_PERSONALITY, Checks: seccomp.CheckEqual(0, 0)},
		{Call: unix.SYS_PERSONALITY, Checks: seccomp.CheckEqual(0, 0xffffffff), Deny: seccomp.Refuse},
	}
	for _, family := range []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6} {
		rs = append(rs, seccomp.Rule{Call: unix.SYS_SOCKET, Checks: seccomp.CheckEqual(0, family)})
	}
	// Raw sockets and those of other families.
	rs = append(rs, seccomp.Rule{Call: unix.SYS_SOCKET, Checks: seccomp.FailAlways(),
		Deny: unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)})
	// These act on terminals of others.
	for _, request := range []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSETD} {
		rs = append(rs, seccomp.Rule{Call: unix.SYS_IOCTL, Checks: seccomp.CheckEqual(1, request),
			Then: seccomp.Refuse})
	}
	for _, option := range forbiddenOptions {
		rs = append(rs, seccomp.Rule{Call: unix.SYS_PRCTL, Checks: seccomp.CheckEqual(0, option), Then: seccomp.Refuse})
	}
	for _, call := range slices.Concat([]uintptr{unix.SYS_IOCTL, unix.SYS_PRCTL}, allowed, allowedHere) {
		rs = append(rs, seccomp.Rule{Call: call})
	}
	return rs
}

// forbiddenOptions lists the options of prctl(2) that programs don't need.
var forbiddenOptions = []uint32{unix.PR_SET_MM, unix.PR_SET_SECCOMP, unix.PR_SET_PTRACER}

// allowed lists the calls that need no check.
var allowed = []uintptr{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_CLOSE, unix.SYS_FSTAT, unix.SYS_LSEEK, unix.SYS_MMAP,
	unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_BRK, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_RT_SIGRETURN, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_READV, unix.SYS_WRITEV,
	unix.SYS_SCHED_YIELD, unix.SYS_MREMAP, unix.SYS_MSYNC, unix.SYS_MINCORE, unix.SYS_MADVISE, unix.SYS_DUP,
	unix.SYS_NANOSLEEP, unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_GETPID, unix.SYS_SENDFILE,
	unix.SYS_CONNECT, unix.SYS_ACCEPT, unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG,
	unix.SYS_SHUTDOWN, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	unix.SYS_SOCKETPAIR, unix.SYS_SETSOCKOPT, unix.SYS_GETSOCKOPT, unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_EXIT, unix.SYS_WAIT4, unix.SYS_KILL, unix.SYS_UNAME, unix.SYS_FCNTL, unix.SYS_FLOCK,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_TRUNCATE, unix.SYS_FTRUNCATE, unix.SYS_GETCWD, unix.SYS_CHDIR,
	unix.SYS_FCHDIR, unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_UMASK, unix.SYS_GETTIMEOFDAY,
	unix.SYS_GETRLIMIT, unix.SYS_GETRUSAGE, unix.SYS_SYSINFO, unix.SYS_TIMES, unix.SYS_GETUID, unix.SYS_GETGID,
	unix.SYS_SETPGID, unix.SYS_GETPPID, unix.SYS_SETSID, unix.SYS_SETREUID, unix.SYS_SETREGID,
	unix.SYS_GETGROUPS, unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_GETPGID, unix.SYS_GETSID,
	unix.SYS_RT_SIGPENDING, unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_SIGSUSPEND,
	unix.SYS_SIGALTSTACK, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_GETPARAM,
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
	unix.SYS_SCHED_GET_PRIORITY_MIN, unix.SYS_SCHED_RR_GET_INTERVAL, unix.SYS_GETPRIORITY,
	unix.SYS_SETPRIORITY, unix.SYS_MLOCK, unix.SYS_MUNLOCK, unix.SYS_MLOCKALL, unix.SYS_MUNLOCKALL,
	unix.SYS_SYNC, unix.SYS_SETRLIMIT, unix.SYS_PRLIMIT64, unix.SYS_GETTID, unix.SYS_READAHEAD, unix.SYS_TKILL,
	unix.SYS_TGKILL, unix.SYS_FUTEX, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_GETAFFINITY,
	unix.SYS_GETDENTS64, unix.SYS_SET_TID_ADDRESS, unix.SYS_RESTART_SYSCALL, unix.SYS_FADVISE64,
	unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME, unix.SYS_TIMER_GETOVERRUN,
	unix.SYS_TIMER_DELETE, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_CLOCK_NANOSLEEP,
	unix.SYS_EXIT_GROUP, unix.SYS_EPOLL_CTL, unix.SYS_WAITID, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	unix.SYS_MQ_TIMEDSEND, unix.SYS_MQ_TIMEDRECEIVE, unix.SYS_MQ_NOTIFY, unix.SYS_MQ_GETSETATTR,
	unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_INOTIFY_RM_WATCH, unix.SYS_OPENAT, unix.SYS_MKDIRAT,
	unix.SYS_FCHOWNAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_LINKAT, unix.SYS_SYMLINKAT,
	unix.SYS_READLINKAT, unix.SYS_FCHMODAT, unix.SYS_FACCESSAT, unix.SYS_PSELECT6, unix.SYS_PPOLL,
	unix.SYS_SET_ROBUST_LIST, unix.SYS_GET_ROBUST_LIST, unix.SYS_SPLICE, unix.SYS_TEE,
	unix.SYS_SYNC_FILE_RANGE, unix.SYS_VMSPLICE, unix.SYS_UTIMENSAT, unix.SYS_EPOLL_PWAIT,
	unix.SYS_TIMERFD_CREATE, unix.SYS_FALLOCATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME,
	unix.SYS_ACCEPT4, unix.SYS_SIGNALFD4, unix.SYS_EVENTFD2, unix.SYS_EPOLL_CREATE1, unix.SYS_DUP3,
	unix.SYS_PIPE2, unix.SYS_INOTIFY_INIT1, unix.SYS_PREADV, unix.SYS_PWRITEV, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_RECVMMSG, unix.SYS_SENDMMSG, unix.SYS_GETCPU, unix.SYS_RENAMEAT2, unix.SYS_GETRANDOM,
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMBARRIER, unix.SYS_MLOCK2, unix.SYS_COPY_FILE_RANGE, unix.SYS_PREADV2,
	unix.SYS_PWRITEV2, unix.SYS_PKEY_MPROTECT, unix.SYS_PKEY_ALLOC, unix.SYS_PKEY_FREE, unix.SYS_STATX,
	unix.SYS_RSEQ, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PIDFD_OPEN, unix.SYS_CLOSE_RANGE, unix.SYS_OPENAT2,
	unix.SYS_FACCESSAT2, unix.SYS_EPOLL_PWAIT2, unix.SYS_FUTEX_WAITV, unix.SYS_FCHMODAT2, unix.SYS_SETXATTR,
	unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_GETXATTR, unix.SYS_LGETXATTR, unix.SYS_FGETXATTR,
	unix.SYS_LISTXATTR, unix.SYS_LLISTXATTR, unix.SYS_FLISTXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_SHMDT, unix.SYS_SEMGET,
	unix.SYS_SEMOP, unix.SYS_SEMCTL, unix.SYS_SEMTIMEDOP, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV,
	unix.SYS_MSGCTL, unix.SYS_CAPGET, unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE,
	unix.SYS_LANDLOCK_RESTRICT_SELF,
	unix.SYS_GETEUID, unix.SYS_GETEGID, unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_SETGROUPS, unix.SYS_CAPSET,
	unix.SYS_IOPRIO_GET, unix.SYS_IOPRIO_SET,
	unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_GETATTR, unix.SYS_SYNCFS, unix.SYS_MKNODAT, unix.SYS_NEWFSTATAT,
}
