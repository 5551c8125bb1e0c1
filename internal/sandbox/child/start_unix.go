//go:build unix

package child

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketFD is the child's end of the socket pair.
const socketFD = 3

// spawn starts this binary as a child.
func spawn(program string, args []string, attr *syscall.SysProcAttr) (peer, error) {
	fds, err := socketpair()
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "child")
	defer theirs.Close()
	ours := newSocket(fds[0], "parent")
	p := &unixPeer{socket: ours}
	p.cmd = &exec.Cmd{
		Path: program, Args: append([]string{called}, args...), Env: environment(), Dir: "/",
		Stderr: &p.said, ExtraFiles: []*os.File{theirs}, SysProcAttr: attr, WaitDelay: time.Second,
	}
	if err := p.cmd.Start(); err != nil {
		_ = ours.Close()
		return nil, err
	}
	return p, nil
}

// socketpair makes a pair of connected sockets that no other process inherits.
func socketpair() ([2]int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return fds, err
	}
	unix.CloseOnExec(fds[0])
	unix.CloseOnExec(fds[1])
	return fds, nil
}

// A unixPeer is a child at the other end of a socket.
type unixPeer struct {
	socket
	cmd  *exec.Cmd
	said tail
}

func (p *unixPeer) kill() { _ = p.cmd.Process.Kill() } // it may have ended

func (p *unixPeer) memory() int64 { return residentMemory(p.cmd.Process.Pid) }

// wait waits for the end, and says how it came, in the words that follow "the engine's process".
func (p *unixPeer) wait() string {
	_ = p.cmd.Wait() // the state says more
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return "ended"
	case status.Signaled() && status.Signal() == syscall.SIGSYS:
		return "made a forbidden system call (SIGSYS)"
	case status.Signaled():
		return fmt.Sprintf("was ended by a signal (%s)%s", unix.SignalName(status.Signal()), p.said.after(": "))
	}
	return fmt.Sprintf("ended with code %d%s", status.ExitStatus(), p.said.after(": "))
}

// inherited gives the child's end of the socket.
func inherited() (io.ReadWriteCloser, error) {
	if _, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return nil, fmt.Errorf("this command is for Biplane itself, which gives it a socket: %w", err)
	}
	unix.CloseOnExec(socketFD)
	return newSocket(socketFD, "parent"), nil
}
