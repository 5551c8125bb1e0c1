package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// changes are the system calls by which a process changes files. Of openat, only calls that may
// create a file count.
var changes = map[uint32]string{
	unix.SYS_PWRITE64: "pwrite64", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_UNLINKAT: "unlinkat",
	unix.SYS_RENAMEAT:  "renameat",
	unix.SYS_RENAMEAT2: "renameat2", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_LINKAT: "linkat", unix.SYS_OPENAT: "openat",
}

// notice returns a filter that makes the kernel notify before each of these calls, and allows all
// others.
func notice() []unix.SockFilter {
	const (
		load = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		same = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		some = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		ret  = unix.BPF_RET | unix.BPF_K
	)
	p := []unix.SockFilter{{Code: load, K: 0}} // the number of the call
	for n := range changes {
		if n == unix.SYS_OPENAT {
			continue
		}
		p = append(p, unix.SockFilter{Code: same, K: n, Jf: 1},
			unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	return append(p,
		unix.SockFilter{Code: same, K: unix.SYS_OPENAT, Jf: 3},
		unix.SockFilter{Code: load, K: 16 + 8*2}, // its flags
		unix.SockFilter{Code: some, K: unix.O_CREAT, Jf: 1},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_USER_NOTIF},
		unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
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

// stepping makes this process log each change to its data folder before making it, and die with
// SIGKILL at the change that the test selects. All calls then continue normally, as do those of
// child processes.
func stepping() {
	log, folder := os.Getenv("BIPLANE_TEST_STEPS"), os.Getenv("BIPLANE_TEST_FOLDER")
	if log == "" {
		return
	}
	last, err := strconv.Atoi(os.Getenv("BIPLANE_TEST_STEP"))
	if err != nil {
		fatal(err)
	}
	file, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fatal(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		fatal(err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		filter := notice()
		prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
			unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_TSYNC|unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH,
			uintptr(unsafe.Pointer(&prog)))
		runtime.KeepAlive(filter)
		if errno != 0 {
			fatal(errno)
		}
		close(ready)
		for n := 0; ; {
			var req notification
			if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV,
				uintptr(unsafe.Pointer(&req))); errno != 0 {
				continue // the caller of the system call is gone
			}
			if name := change(&req, folder, memory); name != "" {
				n++
				fmt.Fprintf(file, "%d %s\n", n, name)
				if n == last {
					_ = unix.Kill(os.Getpid(), unix.SIGKILL)
					select {}
				}
			}
			res := verdict{id: req.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
			_, _, _ = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&res)))
		}
	}()
	<-ready
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "count the steps of this process:", err)
	os.Exit(2)
}

// change describes what a call of this process changes in the folder; empty for nothing. It reads
// the call's path from the process's memory as a file: to the race detector, reading it directly is
// a race, although the caller waits.
func change(req *notification, folder string, memory *os.File) string {
	if _, err := os.Lstat(fmt.Sprintf("/proc/self/task/%d", req.pid)); err != nil {
		return ""
	}
	path := ""
	if call := req.call; slices.Contains([]uint32{unix.SYS_PWRITE64, unix.SYS_FTRUNCATE}, call) {
		path, _ = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", int32(req.args[0])))
	} else {
		b := make([]byte, unix.PathMax)
		n, _ := memory.ReadAt(b, int64(req.args[1])) // ends early where no memory follows
		path = unix.ByteSliceToString(b[:n])
	}
	rest, ok := strings.CutPrefix(path, folder+"/")
	if !ok {
		return ""
	}
	return changes[req.call] + " " + filepath.Clean(rest)
}
