package bench

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// errNoListener explains why the memory of a gateway behind an address is unknown.
var errNoListener = errors.New("the process that listens there is unknown: it isn't on this machine, or belongs to " +
	"another user")

// findListener returns the process on this machine that listens at the address of a URL. It works
// on Linux, for processes of the same user.
func findListener(address string) (pid int, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, fmt.Errorf("the address: %w", err)
	}
	ip, err := netip.ParseAddr(u.Hostname())
	if local := u.Hostname() == "localhost" || err == nil && ip.IsLoopback(); !local {
		return 0, errNoListener
	}
	port, err := net.LookupPort("tcp", u.Port())
	if err != nil {
		return 0, fmt.Errorf("the address: %w", err)
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		file, err := os.Open(table)
		if err != nil {
			continue
		}
		inode := findListening(file, uint16(port))
		_ = file.Close() // it was only read
		if inode != "" {
			return findHolder("socket:[" + inode + "]")
		}
	}
	return 0, errNoListener
}

// findListening returns the inode of the socket that listens on a port, or "". table is a table of
// sockets (proc_net(5), tcp).
func findListening(table io.Reader, port uint16) string {
	const listen = "0A"
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 10 || f[3] != listen {
			continue
		}
		_, number, _ := strings.Cut(f[1], ":")
		if b, err := hex.DecodeString(number); err == nil && len(b) == 2 && binary.BigEndian.Uint16(b) == port {
			return f[9]
		}
	}
	return ""
}

// findHolder returns the process that has a descriptor of a file. If there are several, it returns
// the one that started first, whose descendants the others usually are.
func findHolder(name string) (pid int, err error) {
	descriptors, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return 0, err
	}
	first := uint64(0)
	for _, d := range descriptors {
		if to, err := os.Readlink(d); err != nil || to != name {
			continue
		}
		parts := strings.Split(d, "/")
		holder, err := strconv.Atoi(parts[2])
		if err != nil {
			continue
		}
		if at := startTime(holder); at > 0 && (pid == 0 || at < first) {
			pid, first = holder, at
		}
	}
	if pid == 0 {
		return 0, errNoListener
	}
	return pid, nil
}

// startTime returns when a process started, in the system's ticks, or 0 if it is gone.
func startTime(pid int) uint64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name in parentheses may contain spaces; starttime is field 22 (proc_pid_stat(5)).
	f := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(f) < 20 {
		return 0
	}
	at, err := strconv.ParseUint(string(f[19]), 10, 64)
	if err != nil {
		return 0
	}
	return at
}
