package netns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnavailable is the error for a sandbox that could not open its listeners.
var ErrUnavailable = errors.New("the sandbox has no network")

// maxListeners is the number of descriptors that a message passes: the kernel allows 253.
const maxListeners = 64

// backlog is the number of connections of a listener that wait to be accepted.
const backlog = 128

// OpenListeners brings the loopback interface of the current network namespace up, and opens the
// listeners. The calling thread needs CAP_NET_ADMIN and CAP_NET_BIND_SERVICE.
func OpenListeners(ports []int) (fds []int, err error) {
	if len(ports)+FirstPort > maxListeners {
		return nil, fmt.Errorf("%d ports: at most %d are possible", len(ports), maxListeners-FirstPort)
	}
	if err := RaiseLoopback(); err != nil {
		return nil, fmt.Errorf("bring up the loopback interface: %w", err)
	}
	defer func() {
		if err != nil {
			closeAll(fds)
			fds = nil
		}
	}()
	own, all := [4]byte{127, 0, 0, 1}, [4]byte{}
	addresses := []unix.SockaddrInet4{{Port: 53, Addr: own}, {Port: 53, Addr: own}, {Port: ProxyPort, Addr: own}}
	for _, p := range ports {
		addresses = append(addresses, unix.SockaddrInet4{Port: p, Addr: all})
	}
	for i := range addresses {
		kind := unix.SOCK_STREAM
		if i == Names {
			kind = unix.SOCK_DGRAM
		}
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return fds, fmt.Errorf("open a socket: %w", err)
		}
		fds = append(fds, fd)
		if err = unix.Bind(fd, &addresses[i]); err == nil && kind == unix.SOCK_STREAM {
			err = unix.Listen(fd, backlog)
		}
		if err != nil {
			return fds, fmt.Errorf("listen on port %d: %w", addresses[i].Port, err)
		}
	}
	return fds, nil
}

// RaiseLoopback brings the loopback interface of the current network namespace up. The calling
// thread needs CAP_NET_ADMIN.
func RaiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS,
		uintptr(unsafe.Pointer(unsafe.SliceData(LoopbackRequest()))))
	if errno != 0 {
		return errno
	}
	return nil
}

// LoopbackRequest returns the request (struct ifreq) that brings the loopback interface up, for
// unix.SIOCSIFFLAGS.
func LoopbackRequest() []byte {
	request := make([]byte, 40)
	copy(request, "lo")
	binary.NativeEndian.PutUint16(request[unix.IFNAMSIZ:], unix.IFF_UP|unix.IFF_LOOPBACK|unix.IFF_RUNNING)
	return request
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd) // nothing was written
	}
}

// SendListeners passes the listeners that OpenListeners opened, or its error, over a connection,
// and closes them here.
func SendListeners(conn int, fds []int, failure error) error {
	defer closeAll(fds)
	if failure != nil {
		text := bytes.ReplaceAll([]byte(failure.Error()), []byte("\n"), []byte(" "))
		return unix.Sendmsg(conn, append(append([]byte{'X'}, text[:min(len(text), 400)]...), '\n'), nil, nil, 0)
	}
	return unix.Sendmsg(conn, []byte("F\n"), unix.UnixRights(fds...), nil, 0)
}

// ReceiveListeners receives what SendListeners sent over the other end of a connection. It reads no
// byte that follows. If the sandbox could not open its listeners, the error is ErrUnavailable.
func ReceiveListeners(conn *os.File) (files []*os.File, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var line []byte
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.Close() // nothing was written
			}
			files = nil
		}
	}()
	for !bytes.HasSuffix(line, []byte("\n")) {
		if len(line) > 1000 {
			return files, errors.New("the sandbox sent no listeners")
		}
		var b [1]byte
		rights := make([]byte, unix.CmsgSpace(4*maxListeners))
		var n, rn int
		var rerr error
		if err := raw.Read(func(fd uintptr) bool {
			n, rn, _, _, rerr = unix.Recvmsg(int(fd), b[:], rights, unix.MSG_CMSG_CLOEXEC)
			return rerr != unix.EAGAIN && rerr != unix.EINTR
		}); err != nil {
			return files, err
		}
		switch {
		case rerr != nil:
			return files, rerr
		case n == 0:
			return files, errors.New("the sandbox ended before it sent its listeners")
		}
		line = append(line, b[0])
		if files, err = appendRights(files, rights[:rn]); err != nil {
			return files, err
		}
	}
	if line[0] != 'F' {
		return files, fmt.Errorf("%w: %s", ErrUnavailable, bytes.TrimSpace(line[1:]))
	}
	return files, nil
}

// appendRights appends the files of a control message.
func appendRights(files []*os.File, control []byte) ([]*os.File, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return files, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "listener"))
		}
	}
	return files, nil
}
