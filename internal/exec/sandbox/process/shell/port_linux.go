package shell

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/biplane-dev/biplane/internal/exec/sandbox/service"
	"github.com/biplane-dev/biplane/internal/tool"
)

// listPorts lists the TCP ports that processes of the sandbox listen on.
func listPorts() (*service.Reply, error) {
	r := &service.Reply{Ports: []service.Port{}}
	for _, path := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		f, err := os.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // the system has no IPv6
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			p, ok := parseListener(lines.Text())
			if ok && len(r.Ports) < service.MaxEntries && !slices.Contains(r.Ports, p) {
				r.Ports = append(r.Ports, p)
			}
		}
		if err := errors.Join(lines.Err(), f.Close()); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// parseListener parses a line of /proc/net/tcp. It reports false if that isn't a listening socket.
func parseListener(line string) (service.Port, bool) {
	const listens = "0A"
	f := strings.Fields(line)
	if len(f) < 4 || f[3] != listens {
		return service.Port{}, false
	}
	address, port, _ := strings.Cut(f[1], ":")
	n, err := strconv.ParseUint(port, 16, 16)
	raw, herr := hex.DecodeString(address)
	if err != nil || herr != nil {
		return service.Port{}, false
	}
	for i := 0; i+4 <= len(raw); i += 4 { // words of the host's order: little endian on all systems here
		slices.Reverse(raw[i : i+4])
	}
	ip := formatAddress(raw)
	return service.Port{Port: int(n), Address: ip}, ip != ""
}

// formatAddress formats an IP address; "" if it isn't one. It does without package net/netip, which
// is initialized late.
func formatAddress(ip []byte) string {
	zero := make([]byte, 16)
	switch {
	case len(ip) == 4:
		return fmt.Sprintf("%d.%d.%d.%d", ip[0], ip[1], ip[2], ip[3])
	case len(ip) != 16:
		return ""
	case bytes.Equal(ip, zero):
		return "::"
	case bytes.Equal(ip[:15], zero[:15]) && ip[15] == 1:
		return "::1"
	case bytes.Equal(ip[:10], zero[:10]) && ip[10] == 0xff && ip[11] == 0xff:
		return "::ffff:" + formatAddress(ip[12:])
	}
	words := make([]string, 0, 8)
	for i := 0; i < 16; i += 2 {
		words = append(words, strconv.FormatUint(uint64(ip[i])<<8|uint64(ip[i+1]), 16))
	}
	return strings.Join(words, ":")
}

// dialPort connects a stream to a port of 127.0.0.1, or of ::1.
func (s *steward) dialPort(st *stream, q *service.Request) {
	conn, err := connectPort(q.Port)
	st.sendReply(&service.Reply{}, err)
	if err != nil {
		return
	}
	defer conn.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, st.in)
		shutWriting(conn)
	}()
	_, _ = io.Copy(st.conn, conn)
	shutWriting(st.conn)
	<-done
}

// shutWriting closes a socket for writing.
func shutWriting(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_WR) }) // it may be closed
	}
}

// connectPort connects to a port of this sandbox. The interface has no other addresses, so it
// succeeds or fails at once.
func connectPort(port int) (*os.File, error) {
	if port < 1 || port > 65535 {
		return nil, tool.Errorf(tool.Invalid, "port %d: ports are 1 to 65535", port)
	}
	var failed error // of the first address; the others fail for the same reason
	for _, to := range []struct {
		family  int
		address unix.Sockaddr
	}{
		{unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}},
		{unix.AF_INET6, &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}},
	} {
		fd, err := unix.Socket(to.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		if err := unix.Connect(fd, to.address); err != nil {
			_ = unix.Close(fd) // it is not connected
			failed = cmp.Or(failed, err)
			continue
		}
		if err := unix.SetNonblock(fd, true); err != nil {
			return nil, errors.Join(err, unix.Close(fd))
		}
		return os.NewFile(uintptr(fd), "port"), nil
	}
	return nil, tool.Errorf(tool.Unavailable, "no process of the sandbox answers on port %d: %w", port, failed)
}
