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

// socketFile is the name of the unix socket in the data folder.
const socketFile = "biplane.sock"

// socketPath is the longest path that a unix socket may have on the systems we know, less a little.
const socketPath = 100

// Listen makes the socket in the data folder, which this process owns: one that is there is a dead process's.
// Nobody but the user can open it: the folder is the user's.
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

// A socketListener takes the socket away when it closes.
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

// shortPath gives a path to the socket that is short enough for the system. Linux has one for every open folder.
func shortPath(folder string) (path string, done func(), err error) {
	path = filepath.Join(folder, socketFile)
	if len(path) <= socketPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, tool.Errorf(tool.Invalid, "the path of data folder %s is too long for a socket: give a shorter one with --data-dir", folder)
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
