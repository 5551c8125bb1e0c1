package entry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/landlock"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/process/shell"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/seccomp"
)

const (
	SocketFD = 3    // the agent's end of the connection to the driver
	Insider  = 1000 // user and group in a sandbox

	maxSetup    = 64 << 10
	agentFolder = shell.Folder // the agent's code
)

// armProtections makes the private root, and arms the protections.
func armProtections(c *caller, s *Setup) error {
	for _, step := range []struct {
		name string
		do   func(*caller, *Setup) error
	}{
		{"become its user", becomeInsider},
		{"make the root", makeRoot},
		{"open the network", openNetwork},
		{"name the host", nameHost},
		{"raise the loopback interface", raiseLoopback},
		{"close inherited descriptors", closeDescriptors},
		{"end with the gateway", endWithParent},
		{"limit resources", limitResources},
		{"drop capabilities", dropCapabilities},
		{"restrict files", restrictFiles},
		{"filter system calls", filterCalls},
	} {
		if err := step.do(c, s); err != nil {
			return fmt.Errorf("enter a sandbox: %s: %w", step.name, err)
		}
	}
	return nil
}

// EnterSandbox turns this process into a sandbox. A Driver started it in new namespaces.
// EnterSandbox makes the private root, arms the protections, and executes the interpreter. It
// returns only if one of these fails: nothing runs with less.
func EnterSandbox() error {
	runtime.MemProfileRate = 0 // samples would need memory after executeAgent has limited it
	runtime.LockOSThread()     // the interpreter inherits this thread's protections
	s, err := readSetup(SocketFD)
	if err != nil {
		return err
	}
	if err := armProtections(&caller{}, s); err != nil {
		return err
	}
	path, args := agentCommand(s)
	if err := executeAgent(path, args, environmentOf(s), chooseMemoryLimit(s)); err != nil {
		return fmt.Errorf("enter a sandbox: %w", err)
	}
	return nil
}

// RecordStarter returns a program that does what EnterSandbox does with a setup, but starts in no
// time: a list of the system calls. The process must have the descriptors below first. The program
// waits for a line from the driver instead of the setup. RecordStarter returns nil if that setup
// needs more than a list.
func RecordStarter(s Setup, first int) ([]byte, error) {
	if !canRecord(&s) {
		return nil, nil
	}
	c := &caller{record: newRecorder(first)}
	c.record.addData(make([]byte, 1)) // the line
	if err := errors.Join(c.record.addCall(1, 0, unix.SYS_READ, []any{SocketFD, place(0), 1}),
		c.makeCall(unix.SYS_CLOSE_RANGE, first, 1<<31, 0)); err != nil { // what the gateway has inherited
		return nil, err
	}
	program := *s.Program // the steps change it
	s.Mounts, s.Program = slices.Clone(s.Mounts), &program
	if err := armProtections(c, &s); err != nil {
		return nil, err
	}
	if limit := chooseMemoryLimit(&s); limit.most > 0 {
		if err := c.limitResource(limit.what, limit.most); err != nil {
			return nil, err
		}
	}
	path, args := agentCommand(&s)
	if err := c.record.addExecution(path, args, environmentOf(&s)); err != nil {
		return nil, err
	}
	return c.record.makeStarter()
}

// HasStarters reports whether there are starters for this architecture.
func HasStarters() bool { return len(starterCode()) > 0 }

// canRecord reports whether a setup needs only calls that can be listed before the sandbox exists:
// its root has nothing of an image, it has no network and no packed files, and each folder of the
// host is mounted where the sandbox has an empty one, or nothing.
func canRecord(s *Setup) bool {
	for _, m := range s.Mounts {
		if m.Target != "/workspace" && m.Target != shell.LibraryFolder {
			return false
		}
	}
	return HasStarters() && s.Image == nil && s.Network == nil && s.AgentFD != 0 && s.Program != nil &&
		s.NodeModules == nil && len(s.FileFDs) == 0
}

// agentCommand returns the path of the agent's program, and its arguments.
func agentCommand(s *Setup) (path string, args []string) {
	path = shell.Executable
	if s.AgentFD != 0 { // the path is valid until it is executed
		path = "/proc/self/fd/" + strconv.Itoa(s.AgentFD)
	}
	switch s.Runtime {
	case "bash", "go", "rust", "java":
		return path, []string{shell.Executable, shell.AgentCommand, s.Runtime, s.Interpreter}
	case MachineRuntime:
		return path, []string{shell.Executable, shell.MachineCommand}
	case "js":
		heap := max(s.Memory>>20-nodeOverhead, minHeap)
		return s.Interpreter, []string{s.Interpreter, fmt.Sprintf("--max-old-space-size=%d", heap),
			agentFolder + "/agent.js"}
	}
	return s.Interpreter, []string{s.Interpreter, agentFolder + "/boot.py"}
}

// The memory of Node besides its heap, and the smallest heap, in MiB.
const (
	nodeOverhead = 48
	minHeap      = 16
)

// readSetup reads the driver's line, and nothing after it. The driver sends it when this process is
// in its control groups.
func readSetup(fd int) (*Setup, error) {
	var line []byte
	for b := make([]byte, maxSetup); ; {
		n, _, err := unix.Recvfrom(fd, b, unix.MSG_PEEK)
		end := bytes.IndexByte(b[:max(n, 0)], '\n')
		if end >= 0 {
			n = end + 1
		}
		if err == nil && n > 0 {
			n, err = unix.Read(fd, b[:n])
		}
		switch {
		case err == unix.EINTR:
			continue
		case err != nil || n <= 0 || len(line) > maxSetup:
			return nil, errors.New("this command is for internal use: it starts a sandbox")
		}
		line = append(line, b[:n]...)
		if end >= 0 {
			break
		}
	}
	s := &Setup{}
	if err := json.Unmarshal(line, s); err != nil {
		return nil, fmt.Errorf("enter a sandbox: read its setup: %w", err)
	}
	return s, nil
}

// becomeInsider makes this process's user and group those of the sandbox. The driver mapped them
// before it sent the setup. Outside they are an unprivileged user of the host if the gateway is
// root, and the gateway's own user otherwise.
//
// It changes only this thread: no other one does anything, and executing the agent ends them.
// Package syscall would interrupt each thread for each of these calls.
func becomeInsider(c *caller, s *Setup) error {
	if s.LeaveGroups {
		if err := c.makeCall(unix.SYS_SETGROUPS, 0, 0); err != nil {
			return fmt.Errorf("leave the groups: %w", err)
		}
	}
	if err := c.makeCall(unix.SYS_SETRESGID, Insider, Insider, Insider); err != nil {
		return fmt.Errorf("change the group: %w", err)
	}
	if err := c.makeCall(unix.SYS_SETRESUID, Insider, Insider, Insider); err != nil {
		return fmt.Errorf("change the user: %w", err)
	}
	return nil
}

func nameHost(c *caller, _ *Setup) error {
	const name = "sandbox"
	return c.makeCall(unix.SYS_SETHOSTNAME, name, len(name))
}

// closeDescriptors closes all descriptors except the first three and the socket, when the
// interpreter is executed.
func closeDescriptors(c *caller, _ *Setup) error {
	return c.makeCall(unix.SYS_CLOSE_RANGE, SocketFD+1, 1<<31, unix.CLOSE_RANGE_CLOEXEC)
}

// endWithParent makes the system kill the sandbox when the gateway ends. If the gateway has ended
// already, no program arrives: the agent reads the end of the connection.
func endWithParent(c *caller, _ *Setup) error {
	return c.makeCall(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, int(unix.SIGKILL), 0, 0, 0)
}

// nodeStacks is the size of the stacks of Node's own threads, in bytes. Little of it is used.
const nodeStacks = 128 << 20

// goMappings is the size of what Go's runtime maps at its start, in bytes. It uses little of it.
const goMappings = 64 << 20

// limitResources limits the resources of each process of the sandbox. executeAgent limits memory.
func limitResources(c *caller, s *Setup) error {
	limits := map[int]int64{unix.RLIMIT_CORE: 0, unix.RLIMIT_NOFILE: 1024, unix.RLIMIT_MEMLOCK: 64 << 10,
		unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_RTPRIO: 0, unix.RLIMIT_NICE: 0, unix.RLIMIT_FSIZE: s.Disk,
		unix.RLIMIT_NPROC: int64(s.Processes)}
	if s.CPUSeconds > 0 {
		limits[unix.RLIMIT_CPU] = s.CPUSeconds
	}
	for what, most := range limits {
		if err := c.limitResource(what, most); err != nil {
			return fmt.Errorf("limit resource %d: %w", what, err)
		}
	}
	return nil
}

// A processMemory limits the memory of each process.
type processMemory struct {
	what int   // RLIMIT_AS or RLIMIT_DATA
	most int64 // bytes; 0: not limited
}

// chooseMemoryLimit returns the limit of a sandbox without a control group that limits its memory.
func chooseMemoryLimit(s *Setup) processMemory {
	switch {
	case s.AddressMax == 0:
		return processMemory{}
	case s.Runtime == "python":
		return processMemory{unix.RLIMIT_AS, s.AddressMax}
	case s.Runtime == "js":
		return processMemory{unix.RLIMIT_DATA, s.AddressMax + nodeStacks}
	}
	// Like Node, programs in Go and Java reserve much more than they use. The agent is one of them.
	return processMemory{unix.RLIMIT_DATA, s.AddressMax + goMappings}
}

// executeAgent limits the memory of this process, and then executes the agent. It returns only an
// error.
//
// The limit comes last. Go's runtime has reserved more address space than RLIMIT_AS allows, and the
// kernel then refuses any mapping, also one within that space. So the runtime would end the process
// as soon as its heap has to grow, and even to execute a program needs some memory.
func executeAgent(path string, args, environment []string, limit processMemory) error {
	if limit.most > 0 {
		makeRoom(slices.Concat(args, environment))
		if err := (&caller{}).limitResource(limit.what, limit.most); err != nil {
			return fmt.Errorf("limit memory: %w", err)
		}
	}
	return fmt.Errorf("execute %s: %w", args[0], syscall.Exec(path, args, environment))
}

// makeRoom makes sure that the heap has room for two copies of texts, and for little else, without
// another mapping.
func makeRoom(texts []string) {
	size := 64 << 10
	for _, t := range texts {
		size += len(t) + 1 + int(unsafe.Sizeof(&t))
	}
	runtime.KeepAlive(make([]byte, 2*size))
	runtime.GC() // frees it, but keeps its pages
}

// dropCapabilities drops all capabilities, and keeps programs executed later from gaining any.
func dropCapabilities(c *caller, _ *Setup) error {
	if err := c.makeCall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := c.makeCall(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	for capability := 0; capability <= unix.CAP_LAST_CAP; capability++ {
		_, err := c.callUnless(unix.EINVAL, unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if err != nil { // EINVAL: the kernel does not know it
			return err
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return c.makeCall(unix.SYS_CAPSET, memoryOf(&header), memoryOf(&none))
}

// restrictFiles forbids writing outside the program's folders, and signals and abstract sockets to
// others. It forbids TCP if there is no network.
func restrictFiles(c *caller, s *Setup) error {
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
	for _, m := range s.Mounts {
		if m.Write {
			rules = append(rules, landlock.Rule{Path: m.Target, Access: all})
		}
	}
	for _, dev := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"} {
		rules = append(rules, landlock.Rule{Path: dev, Access: device})
	}
	const scopes = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	// With a network, and in a machine, TCP is possible on the loopback interface: there is no
	// other.
	tcp := s.Network == nil && s.Runtime != MachineRuntime
	attr, size := landlock.DescribeRules(version, landlock.Limit{Scopes: scopes, TCP: tcp})
	fd, err := c.openBy(unix.SYS_LANDLOCK_CREATE_RULESET, memoryOf(&attr), size, 0)
	if err != nil {
		return fmt.Errorf("make a rule set: %w", err)
	}
	for _, r := range rules {
		if err := allowPath(c, fd, r, attr.Handled_access_fs); err != nil {
			return fmt.Errorf("allow %s: %w", r.Path, err)
		}
	}
	if err := c.makeCall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0); err != nil {
		return err
	}
	return c.closeFile(fd)
}

// allowPath adds a rule to a Landlock rule set, which handles some accesses.
func allowPath(c *caller, set int, r landlock.Rule, handled uint64) error {
	fd, err := c.openBy(unix.SYS_OPENAT, unix.AT_FDCWD, r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: r.Access & handled, Parent_fd: int32(fd)}
	err = c.makeCall(unix.SYS_LANDLOCK_ADD_RULE, set, unix.LANDLOCK_RULE_PATH_BENEATH, memoryOf(&attr), 0)
	if err != nil {
		return err
	}
	return c.closeFile(fd)
}

// filterCalls applies the system call filter to all threads. Filters need no_new_privs, which
// dropCapabilities has set.
func filterCalls(c *caller, _ *Setup) error {
	const flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	filter := seccomp.AssembleFilter(callRules(), seccomp.Unknown)
	thread, err := c.callUnless(0, unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, filter)
	if err == nil && thread != 0 {
		err = fmt.Errorf("thread %d can't be filtered", thread)
	}
	return err
}
