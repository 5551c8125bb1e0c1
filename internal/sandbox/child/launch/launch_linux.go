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
	// Nobody is the user and group that a process is.
	Nobody = 65534
	// shared has the process borrow this one's memory until it executes the binary, and the thread that starts it wait. Otherwise all that is
	// written here meanwhile, by the other threads, is copied page by page: more than a millisecond's worth while a program starts.
	shared = syscall.CLONE_VM | syscall.CLONE_VFORK
	// namespaces are those that a process gets beside one of users.
	namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP

	// The capabilities of linux/capability.h that the first plan keeps: SETGID, SETUID, SYS_ADMIN.
	capSetgid, capSetuid, capSysAdmin = 6, 7, 21
	// linux/prctl.h: what is executed from now on gives no privileges.
	setNoNewPrivs = 38
	// linux/wait.h: one process by its number, and leave it to be waited for again.
	waitPID, waitNoWait = 1, 0x01000000
)

// program is this binary, also when it was replaced or removed.
const program = "/proc/self/exe"

// A plan is a way to start a process. What the system refuses is left out in the next one.
type plan struct {
	name  string
	flags uintptr
	caps  []uintptr // that the process needs to arm itself
}

// users reports whether the process gets a namespace of users. It waits for the users and groups that there are in it (mapUser).
func (p plan) users() bool { return p.flags&syscall.CLONE_NEWUSER != 0 }

// The plans, the best first. The process is told the name.
var plans = [...]plan{
	{"user", syscall.CLONE_NEWUSER | namespaces, []uintptr{capSysAdmin, capSetuid, capSetgid}},
	{"root", namespaces, nil},                         // for root where there can be no namespaces of users
	{"bare", syscall.CLONE_NEWUSER | namespaces, nil}, // where namespaces of users give no capabilities
	{"plain", 0, nil},
}

// attr is the plan for the system. The process is a process group, so that a terminal's signals aren't for it, and no session of its
// own: Linux may give each session the same share of the processors (sched_autogroup), and while programs hold them, what is to
// stop these can then wait for a hundred milliseconds and more.
func (p plan) attr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Cloneflags: p.flags | shared, AmbientCaps: p.caps, Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// mapUser gives the one user and the one group that there are in the namespace of users of a process: nobody's, which stand for
// nobody's of the host if this is root, who may take any user, and for our own otherwise. The user comes last: a process that has one
// has all.
func mapUser(pid int) error {
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = Nobody, Nobody
	} else if err := tellProc(pid, "setgroups", "deny"); err != nil { // the system wants it so
		return err
	}
	if err := tellProc(pid, "gid_map", decimal(Nobody)+" "+decimal(gid)+" 1\n"); err != nil {
		return err
	}
	return tellProc(pid, "uid_map", decimal(Nobody)+" "+decimal(uid)+" 1\n")
}

// tellProc writes a file of a process.
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

// A Process is one that was started. Whoever has it kills it, waits for it, and closes its Socket.
type Process struct {
	PID    int
	Socket int  // the descriptor of our end of a pair of connected sockets; the process has the other end as its descriptor 3
	Said   Tail // what it writes to standard error

	errors *os.File
	heard  sync.WaitGroup // until nothing more comes from errors

	mu     sync.Mutex
	reaped bool // the number may be another's by now
}

// Start starts this binary, by the plan of that number or one after it, with the arguments of command, the plan's name, and more.
// It says which plan it was. The system ends the process when the thread that called this ends, which is to be the caller's alone: what it
// executes gives no privileges from then on, and it has no groups beside its own, so that all threads of the process begin so.
func Start(command []string, number int, more []string) (*Process, int, error) {
	// What the process inherits of these two it need not see to with all its threads. Where one can't be, it does.
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
			break // a plan that needs less would leave out what the system gives at another time
		}
	}
	return nil, 0, errors.Join(refused...)
}

// lacking reports whether the system lacks something at the moment, and refuses nothing.
func lacking(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM}, func(e error) bool { return errors.Is(err, e) })
}

// spawn starts this binary. Package os/exec would start another process first, to find out what the system can do.
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
	if plan.users() { // first of all: the process waits for it
		if err = mapUser(pid); err != nil {
			syscall.Close(pipe[0])
			end(pid)
			return nil, err
		}
	}
	_ = syscall.SetNonblock(pipe[0], true) // where it fails, whoever waits for the process waits until all who have the pipe have closed it
	p := &Process{PID: pid, Socket: socket[0], errors: os.NewFile(uintptr(pipe[0]), "standard error")}
	p.heard.Go(func() { _, _ = io.Copy(&p.Said, p.errors) }) // what is missing is missing
	return p, nil
}

// end ends a process that was just started.
func end(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
			return
		}
	}
}

// at says where an error came from.
func at(what string, err error) error { return &os.SyscallError{Syscall: what, Err: err} }

// Kill ends the process, if it has not ended.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(p.PID, syscall.SIGKILL) // it may have ended
	}
}

// Wait waits for the end of the process, and a moment for the end of what it says. It may be called once.
func (p *Process) Wait() (status syscall.WaitStatus, err error) {
	var info [128]byte // a siginfo_t, which nobody reads
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, waitPID, uintptr(p.PID), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|waitNoWait, 0, 0)
		if errno != syscall.EINTR {
			break // it has ended, or the call below says what is wrong
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
	_ = p.errors.SetReadDeadline(time.Now().Add(time.Second)) // as above
	p.heard.Wait()
	_ = p.errors.Close() // it was read
	return status, err
}

// A Begun is a process that was begun before anybody needs it, while the rest of the program gets ready.
type Begun struct {
	started chan started
	over    chan struct{}
	thread  sync.WaitGroup
}

type started struct {
	process *Process
	err     error
}

// Begin begins a process by a command. It doesn't wait for it; what goes wrong hears who takes it.
func Begin(command []string) *Begun {
	b := &Begun{started: make(chan started, 1), over: make(chan struct{})}
	b.thread.Go(func() {
		runtime.LockOSThread() // and never unlock it: the process ends with the thread, and the thread with the goroutine
		p, _, err := Start(command, 0, nil)
		b.started <- started{p, err}
		close(b.started)
		<-b.over
	})
	return b
}

// Take gives the process to the first who asks; ok is false for others. Whoever has it closes b after the process has ended.
func (b *Begun) Take() (p *Process, ok bool, err error) {
	s, ok := <-b.started
	return s.process, ok, s.err
}

// Close ends the process, where nobody took it. It may be called on nil, and once.
func (b *Begun) Close() {
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
