package shell

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// children starts processes, and collects them when they end: also those whose parent has ended,
// because the first process of a sandbox becomes their parent.
type children struct {
	wake chan struct{} // has an element after a start

	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus // by system ID; buffered
}

// reapForever collects processes that have ended.
func (c *children) reapForever() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			<-c.wake // there are none
		default:
			c.mu.Lock() // a start that is under way registers first
			ended := c.waiting[pid]
			delete(c.waiting, pid)
			c.mu.Unlock()
			if ended != nil {
				ended <- status
			}
		}
	}
}

// startChild starts a process in a session of its own. The channel receives its status.
func (c *children) startChild(q *service.Request, in, out, errs *os.File) (int, <-chan syscall.WaitStatus, error) {
	dir := placeOf(q.Dir)
	env := JoinEnvironment(syscall.Environ(), q.Env) // the sandbox's, as it was entered
	path, err := findProgram(q.Command[0], dir, env)
	if err != nil {
		return 0, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	restore, err := reserveProcesses()
	if err != nil {
		return 0, nil, err
	}
	pid, err := syscall.ForkExec(path, q.Command, &syscall.ProcAttr{Dir: dir, Env: env,
		Files: []uintptr{in.Fd(), out.Fd(), errs.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true}})
	restore()
	if err != nil {
		return 0, nil, &os.PathError{Op: "start", Path: q.Command[0], Err: err}
	}
	ended := make(chan syscall.WaitStatus, 1)
	if c.waiting == nil {
		c.waiting = map[int]chan syscall.WaitStatus{}
	}
	c.waiting[pid] = ended
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return pid, ended, nil
}

// reserveProcesses lowers the limit of processes for the next start, so that programs leave some to
// the agent. The caller calls restore after it.
func reserveProcesses() (restore func(), err error) {
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &most); err != nil {
		return nil, err
	}
	less := most
	if less.Cur <= 2*reserved {
		return func() {}, nil
	}
	less.Cur -= reserved
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &less); err != nil {
		return nil, err
	}
	return func() { _ = unix.Setrlimit(unix.RLIMIT_NPROC, &most) }, nil // it was the limit before
}

// findProgram returns the path of a program, as a shell finds it.
func findProgram(name, dir string, env []string) (string, error) {
	if name == "" {
		return "", tool.Errorf(tool.Invalid, "the command is empty")
	}
	if strings.ContainsRune(name, '/') {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		return name, nil
	}
	for _, e := range slices.Backward(env) {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, d := range filepath.SplitList(list) {
			path := filepath.Join(d, name)
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
		break
	}
	return "", tool.Errorf(tool.NotFound, "the sandbox has no program %q", name)
}

// runCommand runs a command to its end. Its output is sent as frames.
func (s *steward) runCommand(st *stream, q *service.Request) (*service.Reply, error) {
	if len(q.Command) == 0 {
		return nil, tool.Errorf(tool.Invalid, "the command is empty")
	}
	pipes, err := openPipes(q.Input)
	if err != nil {
		return nil, err
	}
	defer pipes.closeAll()
	pid, ended, err := s.children.startChild(q, pipes.in, pipes.out, pipes.errs)
	if err != nil {
		return nil, err
	}
	pipes.closeCommandEnds()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		st.feedCommand(pid, pipes.toIn)
	}()
	var copied sync.WaitGroup
	copied.Go(func() { st.copyOutput(service.FrameOutput, pipes.fromOut) })
	copied.Go(func() { st.copyOutput(service.FrameError, pipes.fromErrs) })
	var late <-chan time.Time
	if q.Timeout > 0 {
		timer := time.NewTimer(q.Timeout)
		defer timer.Stop()
		late = timer.C
	}
	var status syscall.WaitStatus
	timedOut := false
	select {
	case status = <-ended:
	case <-late:
		timedOut = true
		killSession(pid, unix.SIGKILL)
		status = <-ended
	case <-gone:
		killSession(pid, unix.SIGKILL)
		status = <-ended
	}
	pipes.endReads()
	copied.Wait()
	st.sendRest(service.FrameOutput, pipes.fromOut)
	st.sendRest(service.FrameError, pipes.fromErrs)
	exit := exitOf(status)
	exit.TimedOut = timedOut
	return &service.Reply{Exit: exit}, nil
}

// exitOf describes how a process ended.
func exitOf(status syscall.WaitStatus) *service.Exit {
	if status.Signaled() {
		return &service.Exit{Status: -1, Signal: unix.SignalName(status.Signal())}
	}
	return &service.Exit{Status: status.ExitStatus()}
}

// killSession sends a signal to a process that startChild started, and to its descendants unless
// they have left its session.
func killSession(pid int, signal syscall.Signal) {
	for _, member := range listSession(pid) {
		_ = unix.Kill(member, signal) // it may have ended
	}
	_ = unix.Kill(-pid, signal) // its process group: what started since
}

// listSession returns the processes of a session.
func listSession(leader int) (out []int) {
	all, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 {
			continue
		}
		if sid, err := unix.Getsid(pid); err == nil && sid == leader {
			out = append(out, pid)
		}
	}
	return out
}

// feedCommand passes the host's frames to a command: its standard input, and signals. It returns
// when the host has left. While the command doesn't read its input, it waits: then only the
// command's time limit ends it.
func (s *stream) feedCommand(pid int, to *os.File) {
	for {
		kind, data, err := service.ReadFrame(s.in)
		switch {
		case err != nil:
			return
		case kind == service.FrameSignal && len(data) == 1:
			killSession(pid, syscall.Signal(data[0]))
		case kind == service.FrameInput && len(data) == 0 && to != nil:
			_ = to.Close() // the command sees the end
		case kind == service.FrameInput && to != nil:
			_, _ = to.Write(data) // the command may have closed it
		}
	}
}

// copyOutput sends what a command writes as frames, until the pipe ends or endReads is called.
func (s *stream) copyOutput(kind byte, from *os.File) {
	buf := make([]byte, readSize)
	for {
		n, err := from.Read(buf)
		if n > 0 && s.sendFrame(kind, buf[:n]) != nil {
			return // the host has left: feedCommand notices
		}
		if err != nil {
			return
		}
	}
}

// sendRest sends what is in a pipe. Processes that the command left behind may still write to it:
// what comes later is lost.
func (s *stream) sendRest(kind byte, from *os.File) {
	conn, err := from.SyscallConn()
	if err != nil {
		return
	}
	buf := make([]byte, readSize)
	for range maxWaiting {
		n := 0
		if conn.Control(func(fd uintptr) { n, err = unix.Read(int(fd), buf) }) != nil || err != nil || n <= 0 {
			return
		}
		if s.sendFrame(kind, buf[:n]) != nil {
			return
		}
	}
}

// pipes are the standard streams of a command.
type pipes struct {
	in, out, errs           *os.File // the command's ends
	toIn, fromOut, fromErrs *os.File // toIn is nil without input
}

// openPipes returns the pipes of a command. Without input, it reads the null device.
func openPipes(input bool) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.closeCommandEnds()
			p.closeAll()
		}
	}()
	if input {
		p.in, p.toIn, err = os.Pipe()
	} else {
		p.in, err = os.Open(os.DevNull)
	}
	if err != nil {
		return p, err
	}
	if p.fromOut, p.out, err = os.Pipe(); err != nil {
		return p, err
	}
	p.fromErrs, p.errs, err = os.Pipe()
	return p, err
}

// closeCommandEnds closes this process's copies of the command's ends.
func (p *pipes) closeCommandEnds() { closeFiles(p.in, p.out, p.errs) }

// closeAll closes the agent's ends, and those of a command that was not started.
func (p *pipes) closeAll() { closeFiles(p.in, p.out, p.errs, p.toIn, p.fromOut, p.fromErrs) }

// endReads makes copyOutput return.
func (p *pipes) endReads() {
	for _, f := range []*os.File{p.fromOut, p.fromErrs} {
		_ = f.SetReadDeadline(time.Unix(1, 0)) // a pipe has deadlines
	}
}

// closeFiles closes files, which may be nil or closed.
func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
