package child

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobody is the user and group that a child is.
const nobody = 65534

// namespaces are those that a child gets beside one of users.
const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// A plan is a way to start a child. What the system refuses is left out in the next one.
type plan struct {
	name  string
	flags uintptr
	caps  []uintptr // that the child needs to arm itself
}

// The plans, the best first. The child is told the name.
var plans = []plan{
	{"user", unix.CLONE_NEWUSER | namespaces, []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID}},
	{"root", namespaces, nil},                      // for root where there can be no namespaces of users
	{"bare", unix.CLONE_NEWUSER | namespaces, nil}, // where namespaces of users give no capabilities
	{"plain", 0, nil},
}

// startWith starts a child by the plan of that number, or one after it, and says which it was.
func startWith(command []string, number int, more []string) (peer, int, error) {
	program, err := own()
	if err != nil {
		return nil, number, err
	}
	var refused []error
	for ; number < len(plans); number++ {
		plan := plans[number]
		if plan.name == "root" && os.Geteuid() != 0 {
			continue
		}
		p, err := spawn(program, slices.Concat(command, []string{plan.name}, more), plan.attr())
		if err == nil {
			return p, number, nil
		}
		refused = append(refused, fmt.Errorf("%s: %w", plan.name, err))
	}
	return nil, 0, errors.Join(refused...)
}

// attr is the plan for the system. The child is a process group, so that a terminal's signals aren't for it, and no session of its
// own: Linux may give each session the same share of the processors (sched_autogroup), and while programs hold them, what is to
// stop these can then wait for a hundred milliseconds and more.
func (p plan) attr() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Cloneflags: p.flags, AmbientCaps: p.caps, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.flags&unix.CLONE_NEWUSER == 0 {
		return a
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 { // which may take any user
		uid, gid = nobody, nobody
		a.GidMappingsEnableSetgroups = true
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: uid, Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: nobody, HostID: gid, Size: 1}}
	return a
}

// residentMemory is how much memory a process holds, in bytes.
func residentMemory(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	f := bytes.Fields(b)
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
