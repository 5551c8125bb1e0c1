package child

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempts returns all attempts, which use raw system calls. An attempt that is not refused does no
// harm: it reads, changes something to its current value, or names something that doesn't exist.
func attempts() []attempt {
	return slices.Concat(fileAttempts(), networkAttempts(), processEscapeAttempts(), privilegeAttempts(),
		memoryAttempts(), kernelAttempts(), hereAttempts(), heldAttempts())
}

// call makes a system call with ints, strings and buffers as arguments. A refusal is an error. A
// failure that proves nothing is not.
func call(nr int, args ...any) (string, error) {
	var a [6]uintptr
	var kept [][]byte
	for i, v := range args {
		switch v := v.(type) {
		case int:
			a[i] = uintptr(v)
		case string:
			kept = append(kept, append([]byte(v), 0))
			a[i] = uintptr(unsafe.Pointer(&kept[len(kept)-1][0]))
		case []byte:
			kept = append(kept, v)
			a[i] = uintptr(unsafe.Pointer(&v[0]))
		}
	}
	r, _, errno := unix.RawSyscall6(uintptr(nr), a[0], a[1], a[2], a[3], a[4], a[5])
	runtime.KeepAlive(kept)
	switch errno {
	case 0:
		return fmt.Sprintf("it gave %d", int64(r)), nil
	case unix.EFAULT, unix.EINVAL, unix.EBADF:
		return "not refused, though it failed: " + unix.ErrnoName(errno), nil
	}
	return "", errors.New(unix.ErrnoName(errno))
}

// one returns an attempt that makes a single system call.
func one(name string, nr int, args ...any) attempt {
	return attempt{name, func() (string, error) { return call(nr, args...) }}
}

// read returns an attempt to read a file.
func read(path string) attempt {
	return attempt{"read " + path, func() (string, error) {
		got, err := call(unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_RDONLY, 0)
		if err != nil {
			return "", err
		}
		return "opened: " + got, nil
	}}
}

func fileAttempts() []attempt {
	return []attempt{
		read("/"), read("/etc/passwd"), read("/proc/self/environ"), read("/proc/self/maps"), read("/proc/1/environ"),
		read("/proc/sys/kernel/hostname"),
		read("/sys/kernel"), read("/dev/null"), read("."), read(".."), read("../../../../etc/passwd"),
		one("write /proc/self/mem", unix.SYS_OPENAT, unix.AT_FDCWD, "/proc/self/mem", unix.O_RDWR, 0),
		one("create a file in /tmp", unix.SYS_OPENAT, unix.AT_FDCWD, "/tmp/biplane-probe",
			unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600),
		one("create a file without a name", unix.SYS_OPENAT, unix.AT_FDCWD, "/tmp", unix.O_WRONLY|unix.O_TMPFILE,
			0o600),
		one("openat2", unix.SYS_OPENAT2, unix.AT_FDCWD, "/etc/passwd", make([]byte, 24), 24),
		one("look at /etc/passwd", unix.SYS_STATX, unix.AT_FDCWD, "/etc/passwd", 0, unix.STATX_SIZE, make([]byte, 256)),
		one("ask whether /etc/passwd is there", unix.SYS_FACCESSAT, unix.AT_FDCWD, "/etc/passwd", 0, 0),
		one("read the link /proc/self/exe", unix.SYS_READLINKAT, unix.AT_FDCWD, "/proc/self/exe",
			make([]byte, 256), 256),
		one("make a directory", unix.SYS_MKDIRAT, unix.AT_FDCWD, "/tmp/biplane-probe/x", 0o700),
		one("make a device", unix.SYS_MKNODAT, unix.AT_FDCWD, "/tmp/biplane-probe/x", unix.S_IFCHR|0o600, 1<<8|3),
		one("make a symbolic link", unix.SYS_SYMLINKAT, "/etc/passwd", unix.AT_FDCWD, "/tmp/biplane-probe/x"),
		one("make a hard link", unix.SYS_LINKAT, unix.AT_FDCWD, "/etc/passwd", unix.AT_FDCWD,
			"/tmp/biplane-probe/x", 0),
		one("remove a file", unix.SYS_UNLINKAT, unix.AT_FDCWD, "/tmp/biplane-probe/x", 0),
		one("change the directory", unix.SYS_CHDIR, "/"),
		one("handle of a file", unix.SYS_NAME_TO_HANDLE_AT, unix.AT_FDCWD, "/etc/passwd",
			[]byte{128, 0, 0, 0, 0, 0, 0, 0, 127: 0, 160: 0}, make([]byte, 8), 0),
		one("open by handle", unix.SYS_OPEN_BY_HANDLE_AT, unix.AT_FDCWD, []byte{8, 0, 0, 0, 1, 0, 0, 0, 63: 0},
			unix.O_RDONLY),
		one("watch files (inotify)", unix.SYS_INOTIFY_INIT1, 0),
		one("watch files (fanotify)", unix.SYS_FANOTIFY_INIT, 0, unix.O_RDONLY),
		one("mount", unix.SYS_MOUNT, "none", "/tmp/biplane-probe", "tmpfs", 0, 0),
		one("mount (fsopen)", unix.SYS_FSOPEN, "tmpfs", 0),
		one("copy a mount (open_tree)", unix.SYS_OPEN_TREE, unix.AT_FDCWD, "/", 0),
		one("unmount", unix.SYS_UMOUNT2, "/tmp/biplane-probe", 0),
		one("change the root (pivot_root)", unix.SYS_PIVOT_ROOT, "/tmp/biplane-probe", "/tmp/biplane-probe"),
		one("change the root (chroot)", unix.SYS_CHROOT, "/"),
		one("disk quota", unix.SYS_QUOTACTL, 0x800001<<8, 0, 0, 0),
	}
}

func networkAttempts() []attempt {
	return []attempt{
		one("socket: TCP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0),
		one("socket: UDP", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM, 0),
		one("socket: TCP over IPv6", unix.SYS_SOCKET, unix.AF_INET6, unix.SOCK_STREAM, 0),
		one("socket: unix", unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_STREAM, 0),
		one("socket: netlink", unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, 0),
		one("socket: packets", unix.SYS_SOCKET, unix.AF_PACKET, unix.SOCK_RAW, 0),
		one("socket: virtual machines", unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		one("socket: kernel cryptography", unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		one("socket pair", unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_STREAM, 0, make([]byte, 8)),
		one("send descriptors to the parent", unix.SYS_SENDMSG, socketFD, make([]byte, 56), 0),
		one("receive descriptors", unix.SYS_RECVMSG, socketFD, make([]byte, 56), unix.MSG_DONTWAIT),
		one("connect the socket elsewhere", unix.SYS_CONNECT, socketFD, []byte{unix.AF_UNIX, 0, '/', 'x', 0}, 5),
	}
}

func processEscapeAttempts() []attempt {
	return []attempt{
		one("execute /bin/sh", unix.SYS_EXECVE, "/bin/sh", make([]byte, 8), make([]byte, 8)),
		{"execute a file of memory", func() (string, error) {
			fd, err := unix.MemfdCreate("x", 0)
			if err != nil {
				return "", err
			}
			return call(unix.SYS_EXECVEAT, fd, "", make([]byte, 8), make([]byte, 8), unix.AT_EMPTY_PATH)
		}},
		{"fork", func() (string, error) { return tryFork(int(unix.SIGCHLD)) }},
		{"fork into a namespace of users", func() (string, error) {
			return tryFork(int(unix.SIGCHLD) | unix.CLONE_NEWUSER)
		}},
		// the size is too small, so the call has no effect if it is allowed
		one("fork (clone3)", unix.SYS_CLONE3, []byte{0, 0, 0, 0, 0, 0, 0, 0, 87: 0}, 8),
		one("new namespace (unshare)", unix.SYS_UNSHARE, unix.CLONE_NEWUSER),
		one("enter a namespace (setns)", unix.SYS_SETNS, 0, 0),
		one("trace a process (ptrace)", unix.SYS_PTRACE, unix.PTRACE_PEEKDATA, 1, 0, 0),
		one("read the memory of a process", unix.SYS_PROCESS_VM_READV, 1, make([]byte, 16), 1, make([]byte, 16), 1, 0),
		one("write the memory of a process", unix.SYS_PROCESS_VM_WRITEV, 1, make([]byte, 16), 1,
			make([]byte, 16), 1, 0),
		one("compare processes (kcmp)", unix.SYS_KCMP, 1, 1, 0, 0, 0),
		one("signal all processes", unix.SYS_KILL, -1, 0),
		one("signal process 1", unix.SYS_KILL, 1, 0),
		{"signal the parent", func() (string, error) { return call(unix.SYS_KILL, os.Getppid(), 0) }},
		one("signal a thread of another process", unix.SYS_TGKILL, 2, 2, 0),
		one("signal with a value", unix.SYS_RT_SIGQUEUEINFO, 1, 0, make([]byte, 128)),
		one("handle of a process (pidfd_open)", unix.SYS_PIDFD_OPEN, 1, 0),
		one("descriptor of a process (pidfd_getfd)", unix.SYS_PIDFD_GETFD, 0, 0, 0),
		one("priority of processes", unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, 0),
		one("choose a scheduler", unix.SYS_SCHED_SETSCHEDULER, 0, 0, make([]byte, 4)),
		one("shared memory (shmget)", unix.SYS_SHMGET, 0, 4096, 0o1600),
		one("message queue (msgget)", unix.SYS_MSGGET, 0, 0o1600),
		one("semaphores (semget)", unix.SYS_SEMGET, 0, 1, 0o1600),
		one("message queue (mq_open)", unix.SYS_MQ_OPEN, "biplane-probe", unix.O_RDONLY, 0, 0),
		one("splice descriptors", unix.SYS_SPLICE, socketFD, 0, socketFD, 0, 1, unix.SPLICE_F_NONBLOCK),
		one("copy a descriptor (tee)", unix.SYS_TEE, socketFD, socketFD, 1, unix.SPLICE_F_NONBLOCK),
	}
}

// tryFork creates a process, which exits immediately.
func tryFork(flags int) (string, error) { return forkedBy(unix.SYS_CLONE, uintptr(flags)) }

func forkedBy(nr, flags uintptr) (string, error) {
	r, _, errno := unix.RawSyscall6(nr, flags, 0, 0, 0, 0, 0)
	switch {
	case errno != 0:
		return "", errors.New(unix.ErrnoName(errno))
	case r == 0:
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return fmt.Sprintf("made process %d", r), nil
}

func privilegeAttempts() []attempt {
	return []attempt{
		one("become root (setuid)", unix.SYS_SETUID, 0),
		one("become root (setresuid)", unix.SYS_SETRESUID, 0, 0, 0),
		one("group of root", unix.SYS_SETRESGID, 0, 0, 0),
		one("other groups", unix.SYS_SETGROUPS, 1, make([]byte, 4)),
		one("capabilities", unix.SYS_CAPSET, []byte{0x22, 0x05, 0x08, 0x20, 0, 0, 0, 0}, make([]byte, 24)),
		{"become dumpable again", func() (string, error) {
			got, err := call(unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
			if strings.Contains(got, "EINVAL") { // the filter's answer, for the runtime's sake
				return "", errors.New("EINVAL")
			}
			return got, err
		}},
		one("personality", unix.SYS_PERSONALITY, 0xffffffff),
		one("another filter", unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, []byte{0, 0, 0xff, 0x7f}),
		one("resource limits", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_NOFILE, 0, make([]byte, 16)),
		one("host name", unix.SYS_SETHOSTNAME, "biplane", -1),
		one("landlock rules", unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION),
	}
}

func memoryAttempts() []attempt {
	return []attempt{
		one("map executable memory", unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_EXEC,
			unix.MAP_PRIVATE|unix.MAP_ANON, -1, 0),
		one("map writable and executable memory", unix.SYS_MMAP, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC,
			unix.MAP_PRIVATE|unix.MAP_ANON, -1, 0),
		{"make memory executable", func() (string, error) {
			b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				return "", err
			}
			return call(unix.SYS_MPROTECT, b, 4096, unix.PROT_READ|unix.PROT_EXEC)
		}},
		{"make memory executable (pkey_mprotect)", func() (string, error) {
			b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				return "", err
			}
			return call(unix.SYS_PKEY_MPROTECT, b, 4096, unix.PROT_READ|unix.PROT_EXEC, -1)
		}},
		one("handle page faults (userfaultfd)", unix.SYS_USERFAULTFD, unix.O_CLOEXEC),
		one("secret memory", unix.SYS_MEMFD_SECRET, 0),
		one("remap files", unix.SYS_REMAP_FILE_PAGES, 0, 0, 0, 0, 0),
	}
}

func kernelAttempts() []attempt {
	return []attempt{
		one("key rings (keyctl)", unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, -3, 0),
		one("key rings (add_key)", unix.SYS_ADD_KEY, "user", "biplane-probe", "x", 1, -2),
		one("key rings (request_key)", unix.SYS_REQUEST_KEY, "user", "biplane-probe", 0, 0),
		one("io_uring", unix.SYS_IO_URING_SETUP, 1, make([]byte, 120)),
		one("programs for the kernel (bpf)", unix.SYS_BPF, unix.BPF_MAP_CREATE,
			[]byte{2, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 127: 0}, 72),
		one("performance events", unix.SYS_PERF_EVENT_OPEN, []byte{1, 0, 0, 0, 128, 0, 0, 0, 127: 0}, 0, -1, -1, 0),
		one("load a module", unix.SYS_INIT_MODULE, "x", 1, ""),
		one("load a module from a file", unix.SYS_FINIT_MODULE, socketFD, "", 0),
		one("remove a module", unix.SYS_DELETE_MODULE, "biplane-no-such-module", unix.O_NONBLOCK),
		one("load a kernel", unix.SYS_KEXEC_LOAD, 0, 0, 0, 0xff),
		one("reboot", unix.SYS_REBOOT, 0, 0, 0, 0),
		one("swap", unix.SYS_SWAPON, "/tmp/biplane-probe", 0),
		one("set the time of day", unix.SYS_SETTIMEOFDAY, 0, 0),
		one("adjust the clock", unix.SYS_ADJTIMEX, make([]byte, 256)),
		one("the kernel's log", unix.SYS_SYSLOG, 10, 0, 0),
		one("accounting", unix.SYS_ACCT, "/tmp/biplane-probe"),
		one("hang up the terminal", unix.SYS_VHANGUP),
		one("type into the terminal", unix.SYS_IOCTL, 0, unix.TIOCSTI, "x"),
		one("what the system is", unix.SYS_UNAME, make([]byte, 512)),
		one("how much memory the system has", unix.SYS_SYSINFO, make([]byte, 128)),
	}
}

// heldAttempts returns attempts that inspect what the process inherited.
func heldAttempts() []attempt {
	return []attempt{
		{"find something in the environment", func() (string, error) {
			var leaked []string
			for _, v := range unix.Environ() { // what the process inherited; it configures nothing
				if name, _, _ := strings.Cut(v, "="); name != "GOMAXPROCS" && name != "GODEBUG" {
					leaked = append(leaked, name)
				}
			}
			return nothing(leaked)
		}},
		{"find something in the command line", func() (string, error) {
			var leaked []string
			for _, a := range os.Args[1:] {
				if len(a) > 16 || strings.ContainsAny(a, "/:@") {
					leaked = append(leaked, a)
				}
			}
			return nothing(leaked)
		}},
		{"find an inherited descriptor", func() (string, error) {
			var leaked []string
			for fd := range 1024 {
				var st unix.Stat_t
				if unix.Fstat(fd, &st) != nil || isExpected(fd, st) {
					continue
				}
				leaked = append(leaked, fmt.Sprintf("%d (mode %o)", fd, st.Mode))
			}
			return nothing(leaked)
		}},
	}
}

// isExpected reports whether a descriptor is one that every child has: /dev/null, the pipe of
// standard error, the socket, the runtime's own, memory, and the page map of its own pages.
func isExpected(fd int, st unix.Stat_t) bool {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		return fd <= 1 && st.Rdev == unix.Mkdev(1, 3) // /dev/null
	case unix.S_IFIFO:
		return fd == 2
	case unix.S_IFSOCK:
		return fd >= socketFD
	case 0: // the runtime's event descriptors
		return true
	case unix.S_IFREG:
		var arg [96]byte // too small, if the call is known
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), pagemapScan, uintptr(unsafe.Pointer(&arg[0])))
		return st.Nlink == 0 || errno == unix.EINVAL
	}
	return false
}

// nothing reports an empty result as a refusal.
func nothing(found []string) (string, error) {
	if len(found) == 0 {
		return "", errors.New("there is nothing")
	}
	return strings.Join(found, ", "), nil
}
