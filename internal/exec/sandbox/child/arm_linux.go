package child

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/landlock"
)

// userTime is how long a process waits for its user mapping.
const userTime = 10 * time.Second

// confines reports whether this system has protections without which a child must not run.
const confines = true

// layers selects the protections that arm arms. Only tests use less than all.
type layers uint

const (
	layerNamespaces layers = 1 << iota // leave the host's mounts, switch to user nobody, drop capabilities
	layerLandlock
	layerFilter
	layerRest
	all = layerNamespaces | layerLandlock | layerFilter | layerRest
)

// arm arms the protections for all threads of the calling process, as far as the system and the
// plan by which the process was started permit. It returns the outcome of each.
func arm(plan string, l layers) []Protection {
	var ps protections
	if l&layerRest != 0 {
		ps.add("no inherited descriptors", "", false, closeInheritedDescriptors())
	}
	if l&layerNamespaces != 0 {
		armNamespaces(&ps, plan)
	}
	if l&layerRest != 0 {
		ps.add("resource limits", "no core files, few descriptors", false, limitResources(plan))
		ps.add("no new privileges", "", false, noNewPrivileges())
	}
	if l&layerLandlock != 0 {
		version, err := restrictFiles()
		ps.add("Landlock", fmt.Sprintf("version %d, nothing allowed", version), true, err)
	}
	if l&layerRest != 0 {
		ps.add("not dumpable", "", false, unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
		// For this thread only: the signal to one thread kills the whole process.
		ps.add("ends with its parent", "", false, unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
	}
	if l&layerFilter != 0 {
		n, err := filterCalls()
		ps.add("system call filter", fmt.Sprintf("%d of the system's calls allowed", n), true, err)
	}
	return ps
}

var errCgo = errors.New("not in a binary that is built with cgo")

// everyThread makes a system call on each thread of the process.
func everyThread(call, a, b, c uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(call, a, b, c, 0, 0, 0)
	switch errno {
	case 0:
		return nil
	case unix.ENOTSUP:
		return errCgo
	}
	return errno
}

// noNewPrivileges sets no_new_privs. A process started with it has had it in every thread from the
// start. If it can't be set for all threads, it is set for the calling one, which is enough: the
// filter copies it to the others.
func noNewPrivileges() error {
	if on, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err == nil && on == 1 {
		return nil
	}
	err := everyThread(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0)
	if err == errCgo {
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	return err
}

// closeInheritedDescriptors closes the inherited descriptors, except the socket and the first
// three. The runtime's own descriptors are close-on-exec, so any without that flag was inherited.
func closeInheritedDescriptors() error {
	names, err := descriptors()
	if err != nil {
		return err
	}
	for _, fd := range names {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if fd <= 2 || err != nil || flags&unix.FD_CLOEXEC != 0 {
			continue
		}
		if err := unix.Close(fd); err != nil {
			return fmt.Errorf("close descriptor %d: %w", fd, err)
		}
	}
	return nil
}

// descriptors returns the open descriptors.
func descriptors() ([]int, error) {
	d, err := os.Open("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	fds := make([]int, 0, len(names))
	for _, n := range names {
		fd, err := strconv.Atoi(n)
		if err != nil {
			return nil, err
		}
		if fd != int(d.Fd()) {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// ownNamespaces lists the namespaces of a process with a user namespace.
const ownNamespaces = "user, mount, pid, network, ipc, uts, cgroup"

// armNamespaces completes the plan: the child was started in its own namespaces, and now leaves the
// host's files, user and capabilities.
func armNamespaces(ps *protections, plan string) {
	none := fmt.Errorf("the system refused namespaces")
	switch plan {
	case "user":
		ps.add("namespaces", ownNamespaces, true, nil)
		user, err := awaitUser()
		switch {
		case err != nil:
			ps.add("user nobody", "", false, err)
		case user == strconv.Itoa(nobodyID):
			ps.add("user nobody", "", false, becomeNobody())
		default: // the user who started it, mapped to nobody: an ordinary user can map only their own ID
			ps.add("user nobody in its namespace", "for the host it is user "+user, false, nil)
		}
		ps.add("empty root", "", true, emptyRoot())
	case "root":
		ps.add("namespaces", "mount, pid, network, ipc, uts, cgroup", true, nil)
		ps.add("empty root", "", true, emptyRoot())
		ps.add("user nobody", "", false, becomeNobody())
	case "bare":
		ps.add("namespaces", ownNamespaces, true, nil)
		if _, err := awaitUser(); err != nil { // soon it is not dumpable, and can get no mapping
			ps.add("user nobody in its namespace", "", false, err)
		}
		ps.add("empty root", "", true, errors.New("the system grants no capabilities in user namespaces"))
	default:
		ps.add("namespaces", "", true, none)
		ps.add("empty root", "", true, none)
		if os.Geteuid() == 0 {
			ps.add("user nobody", "", false, becomeNobody())
		}
	}
	ps.add("no capabilities", "", false, dropCapabilities())
}

// awaitUser waits until the parent has mapped the one user and group of the child's user namespace.
// It returns the host's user ID. The fields of the map are first ID inside, first ID outside, and
// count (user_namespaces(7)).
func awaitUser() (string, error) {
	for until := time.Now().Add(userTime); ; time.Sleep(50 * time.Microsecond) {
		raw, err := os.ReadFile("/proc/self/uid_map")
		if err != nil {
			return "", err
		}
		if f := strings.Fields(string(raw)); len(f) == 3 {
			return f[1], nil
		}
		if time.Now().After(until) {
			return "", errors.New("the process got no user ID")
		}
	}
}

// becomeNobody drops the user, the group and the supplementary groups that the process was started
// with. A host user without a mapping appears in the process's namespace as nobody, even root. So
// the visible ID doesn't reveal the real one, and becomeNobody always changes it.
func becomeNobody() error {
	ordinary := os.Getuid() == nobodyID && os.Getgid() == nobodyID // or root, in its own namespace
	// An ordinary user may not drop groups there, because a group may be what denies an access.
	if !groupless() {
		if err := syscall.Setgroups([]int{}); err != nil && (!ordinary || !errors.Is(err, syscall.EPERM)) {
			return fmt.Errorf("leave the groups: %w", err)
		}
	}
	if err := syscall.Setresgid(nobodyID, nobodyID, nobodyID); err != nil {
		return fmt.Errorf("change the group: %w", err)
	}
	if err := syscall.Setresuid(nobodyID, nobodyID, nobodyID); err != nil {
		return fmt.Errorf("change the user: %w", err)
	}
	return nil
}

// groupless reports whether the process was started without supplementary groups: then no thread
// has any.
func groupless() bool {
	groups, err := syscall.Getgroups()
	return err == nil && len(groups) == 0
}

// emptyRoot makes an empty, read-only directory the root of the process's file system.
func emptyRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	var err error
	for _, dir := range []string{"/tmp", "/proc", "/dev", "/sys", "/etc", "/usr"} { // any that exists
		if err = unix.Mount("none", dir, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
			"mode=0555,size=4096,nr_inodes=1"); err != nil {
			continue
		}
		if err = unix.Chdir(dir); err != nil {
			return fmt.Errorf("go to the empty root: %w", err)
		}
		break
	}
	if err != nil {
		return fmt.Errorf("mount an empty root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is now over the new one
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/")
}

// dropCapabilities drops the remaining capabilities. They can't be regained, because nothing can be
// executed.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	var pins runtime.Pinner // a moving stack would invalidate their addresses
	defer pins.Unpin()
	pins.Pin(&header)
	pins.Pin(&none)
	return everyThread(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
}

// limitResources limits the system resources of the process.
func limitResources(plan string) error {
	limits := []struct {
		what int
		most uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_NOFILE, 64},
		{unix.RLIMIT_FSIZE, 1 << 30}, // for files in memory: there are no others
		{unix.RLIMIT_MEMLOCK, 0},
		{unix.RLIMIT_MSGQUEUE, 0},
		{unix.RLIMIT_RTPRIO, 0},
		{unix.RLIMIT_NICE, 0},
		{unix.RLIMIT_NPROC, 512}, // threads; only of this process if it has a user namespace
	}
	if plan != "user" && plan != "bare" {
		limits = limits[:len(limits)-1]
	}
	for _, l := range limits {
		// Setrlimit of package syscall also informs the runtime, which would otherwise restore the
		// old limit.
		if err := syscall.Setrlimit(l.what, &syscall.Rlimit{Cur: l.most, Max: l.most}); err != nil {
			return fmt.Errorf("limit resource %d: %w", l.what, err)
		}
	}
	return nil
}

// restrictFiles forbids everything that Landlock can forbid, and returns its version.
func restrictFiles() (version int, err error) {
	if version, err = landlock.ReadVersion(); err != nil {
		return 0, err
	}
	// Signals are left out: in some versions threads of one process could no longer signal each
	// other.
	fd, err := landlock.MakeRules(version,
		landlock.Limit{Scopes: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET, TCP: true})
	if err != nil {
		return version, err
	}
	defer unix.Close(fd)
	return version, everyThread(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0)
}
