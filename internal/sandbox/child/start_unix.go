//go:build unix

package child

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// socketFD is the child's end of the socket pair.
const socketFD = 3

// inherited gives the child's end of the socket.
func inherited() (io.ReadWriteCloser, error) {
	if _, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return nil, fmt.Errorf("this command is for Biplane itself, which gives it a socket: %w", err)
	}
	unix.CloseOnExec(socketFD)
	return newSocket(socketFD, "parent"), nil
}
