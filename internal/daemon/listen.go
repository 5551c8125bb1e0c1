package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/biplane-dev/biplane/internal/tool"
)

// socketFile is the name of the unix socket in the data folder.
const socketFile = "biplane.sock"

// socketPath is the longest path that a unix socket may have on the systems we know, less a little.
const socketPath = 100

// listenSocket makes the socket in the data folder, which this process owns: one that is there is a dead process's.
// Nobody but the user can open it: the folder is the user's.
func listenSocket(folder string) (net.Listener, error) {
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

// dialSocket connects to the process that owns the data folder.
func dialSocket(ctx context.Context, folder string) (net.Conn, error) {
	path, done, err := shortPath(folder)
	if err != nil {
		return nil, err
	}
	defer done()
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// A server serves one listener.
type server struct {
	http *http.Server
	done chan struct{} // closed when it serves no more
	err  error         // why, when it wasn't told to stop; set before done is closed
}

// serve begins to serve. failed is told when the server ends by itself; it must have room for that.
func serve(l net.Listener, h http.Handler, log *slog.Logger, failed chan<- error) *server {
	s := &server{
		http: &http.Server{
			Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
		done: make(chan struct{}),
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
			failed <- err
		}
	}()
	return s
}

// stop ends a server: it takes no more connections, and the requests under way may end until ctx is done.
func (s *server) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return errors.Join(err, s.err)
}
