// Package landlock creates Landlock rule sets, which restrict the access of a process to files and
// the network (landlock(7)).
package landlock

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Rule allows an access to a file, or to everything below a directory.
type Rule struct {
	Path   string
	Access uint64 // of unix.LANDLOCK_ACCESS_FS_*; what this version of Landlock lacks is ignored
}

// ReadVersion returns the version of Landlock that the system supports.
func ReadVersion() (int, error) {
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, fmt.Errorf("this system has none: %w", errno)
	}
	return int(n), nil
}

// A Limit is what a rule set forbids besides access to files, as far as the version supports it.
type Limit struct {
	Scopes uint64 // unix.LANDLOCK_SCOPE_*
	TCP    bool   // to bind and to connect sockets
}

// DescribeRules returns the attributes of a rule set for landlock_create_ruleset(2), and their size
// in this version of Landlock.
func DescribeRules(version int, limit Limit) (attr unix.LandlockRulesetAttr, size int) {
	attr.Handled_access_fs = HandledFiles(version)
	if version >= 4 && limit.TCP {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	if version >= 6 {
		attr.Scoped = limit.Scopes
	}
	switch {
	case version < 4:
		return attr, int(unsafe.Offsetof(attr.Handled_access_net))
	case version < 6:
		return attr, int(unsafe.Offsetof(attr.Scoped))
	}
	return attr, int(unsafe.Offsetof(attr.Quiet_access_fs))
}

// MakeRules returns the descriptor of a rule set that forbids every access to files that this
// version of Landlock can forbid, except what rules allow, and what limit says. The caller
// restricts its threads to the rule set, and closes it.
func MakeRules(version int, limit Limit, rules ...Rule) (fd int, err error) {
	attr, size := DescribeRules(version, limit)
	n, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), uintptr(size), 0)
	if errno != 0 {
		return -1, fmt.Errorf("make a rule set: %w", errno)
	}
	fd = int(n)
	for _, r := range rules {
		if err := addRule(fd, r, attr.Handled_access_fs); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("allow %s: %w", r.Path, err)
		}
	}
	return fd, nil
}

// HandledFiles returns the file accesses that a version of Landlock handles.
func HandledFiles(version int) uint64 {
	files := uint64(unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1) // the first version's: all up to this
	if version >= 2 {
		files |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		files |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 5 {
		files |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return files
}

// addRule adds a rule to a rule set.
func addRule(fd int, r Rule, handled uint64) error {
	dir, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	attr := unix.LandlockPathBeneathAttr{Allowed_access: r.Access & handled, Parent_fd: int32(dir)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
