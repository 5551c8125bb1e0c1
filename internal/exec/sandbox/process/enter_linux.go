package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/landlock"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/nodeguest"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/seccomp"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/wasm/pyguest"
)

const (
	socketFD    = 3    // the agent's end of the connection to the driver
	insider     = 1000 // user and group in a sandbox
	maxSetup    = 4 << 10
	agentFolder = shell.Folder // the agent's code
)

// EnterSandbox turns this process into a sandbox. A Driver started it in new namespaces.
// EnterSandbox makes the private root, arms the protections, and executes the interpreter. It
// returns only if one of these fails: nothing runs with less.
func EnterSandbox() error {
	runtime.LockOSThread() // the interpreter inherits this thread's protections
	s, err := readSetup(socketFD)
	if err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func(*setup) error
	}{
		{"make the root", makeRoot},
		{"name the host", func(*setup) error { return unix.Sethostname([]byte("sandbox")) }},
		{"close inherited descriptors", closeDescriptors},
		{"end with the gateway", endWithParent},
		{"limit resources", limitResources},
		{"drop capabilities", dropCapabilities},
		{"restrict files", restrictFiles},
		{"filter system calls", filterCalls},
	} {
		if err := step.do(s); err != nil {
			return fmt.Errorf("enter a sandbox: %s: %w", step.name, err)
		}
	}
	args, environment := agentCommand(s), shell.Environment
	if s.Runtime == "js" {
		environment = append(slices.Clone(environment), "NODE_PATH="+nodeguest.SearchPath)
	}
	err = syscall.Exec(args[0], args, environment)
	return fmt.Errorf("enter a sandbox: execute %s: %w", args[0], err)
}

// agentCommand returns the path of the agent's program, and its arguments.
func agentCommand(s *setup) []string {
	switch s.Runtime {
	case "bash":
		return []string{shell.Executable, shell.AgentCommand, s.Interpreter}
	case "js":
		heap := max(s.Memory>>20-nodeOverhead, minHeap)
		return []string{s.Interpreter, fmt.Sprintf("--max-old-space-size=%d", heap), agentFolder + "/agent.js"}
	}
	return []string{s.Interpreter, agentFolder + "/boot.py"}
}

// The memory of Node besides its heap, and the smallest heap, in MiB.
const (
	nodeOverhead = 48
	minHeap      = 16
)

// readSetup reads the driver's line. The driver sends it when this process is in its control
// groups.
func readSetup(fd int) (*setup, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := unix.Read(fd, b)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n == 0 || len(line) > maxSetup:
			return nil, errors.New("this command is for internal use: it starts a sandbox")
		}
		if b[0] == '\n' {
			break
		}
		line = append(line, b[0])
	}
	s := &setup{}
	if err := json.Unmarshal(line, s); err != nil {
		return nil, fmt.Errorf("enter a sandbox: read its setup: %w", err)
	}
	return s, nil
}

// A mount is a file system that is mounted in a sandbox.
type mount struct {
	target, kind, options string
	flags                 uintptr
}

// makeRoot makes a private root: the host's /usr and a few files of /etc, read-only; private
// folders for the program; and a few devices.
func makeRoot(s *setup) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make the mounts private: %w", err)
	}
	const root = "/tmp" // the new root is mounted over it
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("none", root, "tmpfs", safe, "mode=0755,size=1m,nr_inodes=1k"); err != nil {
		return fmt.Errorf("mount the root: %w", err)
	}
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if err := shareFolder(root, dir); err != nil {
			return err
		}
	}
	if err := makeEtc(root); err != nil {
		return err
	}
	quota := fmt.Sprintf("mode=0755,uid=%d,gid=%d,size=%d,nr_inodes=32k", insider, insider, s.Disk)
	for _, m := range []mount{
		{"/dev", "tmpfs", "mode=0755,size=64k,nr_inodes=64", unix.MS_NOSUID},
		{"/dev/shm", "tmpfs", "mode=1777,size=64m,nr_inodes=1k", safe | unix.MS_NOEXEC},
		{"/proc", "proc", "subset=pid", safe | unix.MS_NOEXEC},
		{"/tmp", "tmpfs", quota, safe},
		{"/workspace", "tmpfs", quota, safe},
		{"/skills", "tmpfs", quota, safe},
		{agentFolder, "tmpfs", "mode=0755,size=2m,nr_inodes=128", safe},
	} {
		if err := os.MkdirAll(root+m.target, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("none", root+m.target, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := makeDevices(root); err != nil {
		return err
	}
	write := writeAgent
	switch s.Runtime {
	case "bash":
		write = func(dir string) error { return writeShellAgent(dir, s.Program) }
	case "js":
		write = func(dir string) error { return os.WriteFile(dir+"/agent.js", nodeguest.Source, 0o644) }
	}
	if err := write(root + agentFolder); err != nil {
		return err
	}
	if s.Bytecode {
		if err := writeBytecode(root + agentFolder); err != nil {
			return err
		}
	}
	if s.NodeModules != "" {
		if err := sharePackages(s.NodeModules, root+nodeguest.Packages); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{"workspace": ".", "skills": "/skills"} {
		if err := os.Symlink(to, root+"/workspace/"+name); err != nil {
			return err
		}
	}
	return changeRoot(root)
}

// changeRoot makes a folder the root, and lets go of the old one.
func changeRoot(root string) error {
	for _, dir := range []string{root + agentFolder, root + "/dev", root} {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, dir, 0, &attr); err != nil {
			return fmt.Errorf("make %s read-only: %w", dir, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is now over the new one
		return fmt.Errorf("change the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the old root: %w", err)
	}
	return unix.Chdir("/workspace")
}

// shareFolder makes a folder of the host, or the link that it is, available in the new root. The
// folder is read-only there, with all that is mounted in it.
func shareFolder(root, dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&os.ModeSymlink != 0:
		to, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		return os.Symlink(to, root+dir)
	}
	if err := os.Mkdir(root+dir, 0o755); err != nil {
		return err
	}
	return bindReadOnly(dir, root+dir)
}

// bindReadOnly makes a file or a folder available at another path, read-only.
func bindReadOnly(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share %s: %w", from, err)
	}
	return setReadOnly(to)
}

// setReadOnly makes a mount, and those below it, read-only.
func setReadOnly(path string) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, &attr); err != nil {
		return fmt.Errorf("make %s read-only: %w", path, err)
	}
	return nil
}

// etc is what a sandbox has of the host's /etc: what programs need to find libraries and the time
// zone, and to check certificates. None of it is about the host's users or network.
var etc = []string{"/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates.conf",
	"/etc/localtime", "/etc/mime.types"}

// makeEtc makes /etc of the new root.
func makeEtc(root string) error {
	if err := os.Mkdir(root+"/etc", 0o755); err != nil {
		return err
	}
	pythons, err := filepath.Glob("/etc/python3*") // settings of Debian's interpreters
	if err != nil {
		return err
	}
	for _, path := range append(pythons, etc...) {
		info, err := os.Stat(path)
		if err != nil {
			continue // this host doesn't have it
		}
		if err := os.MkdirAll(root+filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if info.IsDir() {
			err = os.Mkdir(root+path, 0o755)
		} else {
			err = os.WriteFile(root+path, nil, 0o644)
		}
		if err != nil {
			return err
		}
		if err := bindReadOnly(path, root+path); err != nil {
			return err
		}
	}
	for path, text := range map[string]string{
		"/etc/passwd": fmt.Sprintf("agent:x:%d:%d::/workspace:/bin/sh\n", insider, insider) +
			"nobody:x:65534:65534::/:/bin/false\n",
		"/etc/group":         fmt.Sprintf("agent:x:%d:\nnogroup:x:65534:\n", insider),
		"/etc/hosts":         "127.0.0.1 localhost\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	} {
		if err := os.WriteFile(root+path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeDevices makes the devices of the new root.
func makeDevices(root string) error {
	for _, name := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		if err := os.WriteFile(root+name, nil, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(name, root+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("share %s: %w", name, err)
		}
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, root+"/dev/"+name); err != nil {
			return err
		}
	}
	return nil
}

// writeAgent writes the code of the agent in Python.
func writeAgent(dir string) error {
	if err := os.CopyFS(dir, agentFiles()); err != nil {
		return err
	}
	return os.CopyFS(dir+"/_biplane", pyguest.Runtime())
}

// closeDescriptors closes all descriptors except the first three and the socket, when the
// interpreter is executed.
func closeDescriptors(*setup) error {
	return unix.CloseRange(socketFD+1, 1<<31, unix.CLOSE_RANGE_CLOEXEC)
}

// endWithParent makes the system kill the sandbox when the gateway ends. If the gateway has ended
// already, no program arrives: the agent reads the end of the connection.
func endWithParent(*setup) error {
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
}

// nodeStacks is the size of the stacks of Node's own threads, in bytes. Little of it is used.
const nodeStacks = 128 << 20

// limitResources limits the resources of each process of the sandbox.
func limitResources(s *setup) error {
	limits := map[int]int64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 1024, unix.RLIMIT_MEMLOCK: 64 << 10,
		unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_RTPRIO: 0, unix.RLIMIT_NICE: 0, unix.RLIMIT_FSIZE: s.Disk,
		unix.RLIMIT_NPROC: int64(s.Processes)}
	switch {
	case s.AddressMax > 0 && s.Runtime == "js": // it reserves much more than it uses
		limits[unix.RLIMIT_DATA] = s.AddressMax + nodeStacks
	case s.AddressMax > 0:
		limits[unix.RLIMIT_AS] = s.AddressMax
	}
	if s.CPUSeconds > 0 {
		limits[unix.RLIMIT_CPU] = s.CPUSeconds
	}
	for what, most := range limits {
		if err := syscall.Setrlimit(what, &syscall.Rlimit{Cur: uint64(most), Max: uint64(most)}); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	return nil
}

// dropCapabilities drops all capabilities, and keeps programs executed later from gaining any.
func dropCapabilities(*setup) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && err != unix.EINVAL { // unknown here
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}

// restrictFiles forbids writing outside the program's folders, TCP, and signals and abstract
// sockets to others.
func restrictFiles(*setup) error {
	version, err := landlock.ReadVersion()
	if err != nil {
		return err
	}
	const read = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR
	const device = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	all := landlock.HandledFiles(version)
	rules := []landlock.Rule{{Path: "/", Access: read}}
	for _, dir := range []string{"/workspace", "/skills", "/tmp", "/dev/shm"} {
		rules = append(rules, landlock.Rule{Path: dir, Access: all})
	}
	for _, dev := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		rules = append(rules, landlock.Rule{Path: dev, Access: device})
	}
	const scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	fd, err := landlock.MakeRules(version, scopes, rules...)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
		return errno
	}
	return unix.Close(fd)
}

// filterCalls applies the system call filter.
func filterCalls(*setup) error {
	return seccomp.InstallFilter(seccomp.AssembleFilter(callRules(), seccomp.Unknown))
}
