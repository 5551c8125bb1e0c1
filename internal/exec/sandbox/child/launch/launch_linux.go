package launch

import (
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	// NobodyID is the user and group of a process.
	NobodyID = 65534
	// shared makes the process borrow this one's memory until it executes the binary, while the
	// thread that starts it waits. Otherwise every page that other threads write meanwhile is
	// copied: more than a millisecond's worth during program start.
	shared = syscall.CLONE_VM | syscall.CLONE_VFORK
	// namespaces is the namespaces of a process other than the user namespace.
	namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET |
		syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

	// The capabilities of linux/capability.h that the first plan keeps: SETGID, SETUID, SYS_ADMIN.
	capSetgid, capSetuid, capSysAdmin = 6, 7, 21
	// PR_SET_NO_NEW_PRIVS of linux/prctl.h: programs executed from now on gain no privileges.
	setNoNewPrivs = 38
	// P_PID and WNOWAIT of linux/wait.h: wait for one process by its ID, and leave it waitable.
	waitPID, waitNoWait = 1, 0x01000000
)

// program is this binary, even if it was replaced or removed.
const program = "/proc/self/exe"

// A plan is a way to start a process. Each plan omits something that the system may have refused to
// the one before.
type plan struct {
	name  string
	flags uintptr
	caps  []uintptr // capabilities that the process needs to arm its protections
}

// users reports whether the process gets a user namespace. The process then waits for its user and
// group mappings (MapUser).
func (p plan) users() bool { return p.flags&syscall.CLONE_NEWUSER != 0 }

// The plans, best first. The process receives the plan's name as an argument.
var plans = [...]plan{
	{"user", syscall.CLONE_NEWUSER | namespaces, []uintptr{capSysAdmin, capSetuid, capSetgid}},
	{"root", namespaces, nil},                         // for root, if user namespaces are not available
	{"bare", syscall.CLONE_NEWUSER | namespaces, nil}, // if user namespaces grant no capabilities
	{"plain", 0, nil},
}

// attr returns the plan as attributes for the system. The process gets its own process group, so
// that a terminal's signals don't reach it, but not its own session. Linux may assign each session
// the same share of the processors (sched_autogroup). While programs use all of them, the code that
// must stop these could then wait for 100 ms and more.
func (p plan) attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: p.flags | shared, AmbientCaps: p.caps, Setpgid: true,
		Pdeathsig: syscall.SIGKILL}
}

// MapUser maps the one user and the one group of a process's user namespace. Inside both have an ID
// that the caller chooses. Outside they have the NobodyID if this process is root, which may map
// any user. Otherwise they have this process's own IDs. The user is mapped last, so a process with
// a mapped user has both.
func MapUser(pid, inside int) error {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = NobodyID, NobodyID
	} else if err := tellProc(pid, "setgroups", "deny"); err != nil { // required by the system
		return err
	}
	if err := tellProc(pid, "gid_map", decimal(inside)+" "+decimal(gid)+" 1\n"); err != nil {
		return err
	}
	return tellProc(pid, "uid_map", decimal(inside)+" "+decimal(uid)+" 1\n")
}

// tellProc writes to a file in a process's /proc directory.
func tellProc(pid int, name, text string) error {
	path := "/proc/" + decimal(pid) + "/" + name
	fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return at("open "+path, err)
	}
	defer syscall.Close(fd)
	if _, err := syscall.Write(fd, []byte(text)); err != nil {
		return at("write "+path, err)
	}
	return nil
}

// A Process is a started process. Its owner kills it, waits for it, and closes its Socket.
type Process struct {
	PID    int
	Socket int  // descriptor of this end of a pair of connected sockets; the process has the other end as descriptor 3
	Said   Tail // standard error of the process

	stderr *os.File
	heard  sync.WaitGroup // until errors reaches EOF

	mu     sync.Mutex
	reaped bool // the PID may be reused by now
}

// Start starts this binary by the plan with the given number, or a later one, with the arguments of
// command, the plan's name, and more. It returns the number of the plan used. The system kills the
// process when the calling thread ends, so the caller must own that thread. From then on the
// thread's children gain no privileges, and the thread has no supplementary groups, so all threads
// of the process start without them.
func Start(command []string, number int, more []string) (*Process, int, error) {
	// The process inherits these two settings, and need not set them for all its threads. If one
	// fails here, the process sets it itself.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, setNoNewPrivs, 1, 0, 0, 0, 0)
	if os.Geteuid() == 0 {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETGROUPS, 0, 0, 0)
	}
	var refused []error
	for ; number < len(plans); number++ {
		plan := plans[number]
		if plan.name == "root" && os.Geteuid() != 0 {
			continue
		}
		p, err := spawn(slices.Concat([]string{Called}, command, []string{plan.name}, more), plan)
		if err == nil {
			return p, number, nil
		}
		refused = append(refused, at(plan.name, err))
		if lacking(err) {
			break // a lesser plan would leave out what the system can provide at another time
		}
	}
	return nil, 0, errors.Join(refused...)
}

// lacking reports whether err is a temporary lack of resources and not a refusal.
func lacking(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM},
		func(e error) bool { return errors.Is(err, e) })
}

// spawn starts this binary. Package os/exec would first start another process, to find out what the
// system supports.
func spawn(argv []string, plan plan) (_ *Process, err error) {
	socket, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, at("make a socket pair", err)
	}
	defer syscall.Close(socket[1])
	defer func() {
		if err != nil {
			syscall.Close(socket[0])
		}
	}()
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, at("open "+os.DevNull, err)
	}
	defer syscall.Close(null)
	var pipe [2]int
	if err := syscall.Pipe2(pipe[:], syscall.O_CLOEXEC); err != nil {
		return nil, at("make a pipe", err)
	}
	defer syscall.Close(pipe[1])
	pid, err := syscall.ForkExec(program, argv, &syscall.ProcAttr{
		Dir: "/", Env: Environment(), Sys: plan.attr(),
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(pipe[1]), uintptr(socket[1])},
	})
	if err != nil {
		syscall.Close(pipe[0])
		return nil, err
	}
	if plan.users() { // first, because the process waits for it
		if err = MapUser(pid, NobodyID); err != nil {
			syscall.Close(pipe[0])
			endProcess(pid)
			return nil, err
		}
	}
	_ = syscall.SetNonblock(pipe[0], true) // if this fails, Wait blocks until every holder of the pipe has closed it
	p := &Process{PID: pid, Socket: socket[0], stderr: os.NewFile(uintptr(pipe[0]), "standard error")}
	p.heard.Go(func() { _, _ = io.Copy(&p.Said, p.stderr) }) // partial output is acceptable
	return p, nil
}

// endProcess kills a process that was just started, and waits for it.
func endProcess(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// at adds the failed operation to an error.
func at(what string, err error) error { return &os.SyscallError{Syscall: what, Err: err} }

// Kill kills the process if it has not ended.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended
	}
}

// Wait waits for the process to end, and at most a second for the rest of its standard error. It
// may be called once.
func (p *Process) Wait() (status syscall.WaitStatus, err error) {
	var info [128]byte // a siginfo_t, which is not used
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitPID, uintptr(p.PID), uintptr(unsafe.Pointer(&info)),
			syscall.WEXITED|waitNoWait, 0, 0)
		if errno != syscall.EINTR {
			break // it has ended, or the call below returns the error
		}
	}
	p.mu.Lock()
	for {
		_, err = syscall.Wait4(p.PID, &status, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	p.reaped = true
	p.mu.Unlock()
	_ = p.stderr.SetReadDeadline(time.Now().Add(time.Second)) // if this fails, see spawn
	p.heard.Wait()
	_ = p.stderr.Close() // only read from
	return status, err
}

// An EarlyProcess is a process that is started while the rest of the program initializes.
type EarlyProcess struct {
	started chan started
	over    chan struct{}
	thread  sync.WaitGroup
}

type started struct {
	process *Process
	err     error
}

// Begin starts a process with the given command, and doesn't wait for it. An error is returned by
// Take.
func Begin(command []string) *EarlyProcess {
	b := &EarlyProcess{started: make(chan started, 1), over: make(chan struct{})}
	b.thread.Go(func() {
		runtime.LockOSThread() // never unlocked: the process ends with the thread, and the thread with the goroutine
		p, _, err := Start(command, 0, nil)
		b.started <- started{p, err}
		close(b.started)
		<-b.over
	})
	return b
}

// Take returns the process to the first caller; for others ok is false. The new owner closes b
// after the process has ended.
func (b *EarlyProcess) Take() (p *Process, ok bool, err error) {
	s, ok := <-b.started
	return s.process, ok, s.err
}

// Close kills the process if it was not taken. It may be called on nil, and at most once otherwise.
func (b *EarlyProcess) Close() {
	if b == nil {
		return
	}
	if p, ok, err := b.Take(); ok && err == nil {
		p.Kill()
		_, _ = p.Wait() // it was killed
		syscall.Close(p.Socket)
	}
	close(b.over)
	b.thread.Wait()
}
