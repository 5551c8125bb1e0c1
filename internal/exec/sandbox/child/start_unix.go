//go:build unix

package child

import (
	"fmt"
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// ending describes how a child ended, from its status and its last output.
func ending(status syscall.WaitStatus, said string) string {
	switch {
	case status.Signaled() && status.Signal() == syscall.SIGSYS:
		return "made a forbidden system call (SIGSYS)"
	case status.Signaled():
		return fmt.Sprintf("was ended by a signal (%s)%s", unix.SignalName(status.Signal()), after(": ", said))
	}
	return fmt.Sprintf("ended with code %d%s", status.ExitStatus(), after(": ", said))
}

// socketFD is the child's end of the socket pair.
const socketFD = 3

// openInherited returns the child's end of the socket.
func openInherited() (io.ReadWriteCloser, error) {
	if _, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return nil, fmt.Errorf("this command is for internal use: Biplane starts it with a socket: %w", err)
	}
	unix.CloseOnExec(socketFD)
	return newSocket(socketFD, "parent"), nil
}
