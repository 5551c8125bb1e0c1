//go:build unix && !linux

package child

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/child/launch"
)

// startWith starts a child in its own session, so that the terminal's signals reach only the
// parent.
func startWith(command []string, plan int, more []string) (peer, int, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, plan, err
	}
	p, err := spawn(program, slices.Concat(command, []string{"plain"}, more), &syscall.SysProcAttr{Setsid: true})
	return p, plan, err
}

func takeOver(*launch.EarlyProcess) (peer, bool, error) { return nil, false, nil }

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
		Path: program, Args: append([]string{launch.Called}, args...), Env: launch.Environment(), Dir: "/",
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
	said launch.Tail
}

func (p *unixPeer) kill() { _ = p.cmd.Process.Kill() } // it may have ended

func (p *unixPeer) memory() int64 { return 0 }

// wait waits for the child to end, and describes the end in words that follow "the engine's
// process".
func (p *unixPeer) wait() string {
	_ = p.cmd.Wait() // the state has more details
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok {
		return "ended"
	}
	return ending(status, p.said.Text())
}
