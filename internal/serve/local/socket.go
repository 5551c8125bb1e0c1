package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"github.com/biplane-dev/biplane/internal/tool"
)

// socketFile is the name of the Unix socket in the data folder.
const socketFile = "biplane.sock"

// socketPath is the maximum length of a Unix socket's path on the known systems, minus a margin.
const socketPath = 100

// Listen creates the socket in the data folder, which this process owns. An existing socket was
// left by a dead process and is replaced. Only the user can open it, since the folder belongs to
// the user.
func Listen(folder string) (net.Listener, error) {
	real := filepath.Join(folder, socketFile)
	if err := os.Remove(real); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, tool.Errorf(tool.Unavailable, "socket: %w", err)
	}
	path, done, err := shortPath(folder)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, tool.Errorf(tool.Unavailable, "socket %s: %w", real, err)
	}
	l.SetUnlinkOnClose(false)
	if err := os.Chmod(real, 0o600); err != nil {
		l.Close()
		return nil, tool.Errorf(tool.Unavailable, "socket: %w", err)
	}
	return &socketListener{l, real}, nil
}

// A socketListener removes the socket when it is closed.
type socketListener struct {
	net.Listener
	path string
}

// Close closes the socket.
func (l *socketListener) Close() error {
	err := l.Listener.Close()
	if err == nil {
		os.Remove(l.path)
	}
	return err
}

// shortPath returns a path to the socket that is short enough for the system. On Linux, every open
// folder has one.
func shortPath(folder string) (path string, done func(), err error) {
	path = filepath.Join(folder, socketFile)
	if len(path) <= socketPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, tool.Errorf(tool.Invalid,
			"the path of data folder %s is too long for a socket: give a shorter one with --data-dir", folder)
	}
	f, err := os.Open(folder)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", f.Fd(), socketFile), func() { f.Close() }, nil
}

// Dial connects to the process that owns the data folder.
func Dial(ctx context.Context, folder string) (net.Conn, error) {
	path, done, err := shortPath(folder)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}
