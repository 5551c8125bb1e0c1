package identity

import (
	"net"
	"strconv"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// checkListen returns an error if addr is not a valid address to listen on.
func checkListen(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return tool.Errorf(tool.Invalid, "invalid listen address %q: write one like 127.0.0.1:8420", addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return tool.Errorf(tool.Invalid,
			"invalid listen address %q: the port must be from 0 (any free port) to 65535", addr)
	}
	return nil
}

// CheckExposure returns an error if listening on addr would be unsafe. If others than this
// machine's users can reach it, sign-in is required, and traffic must be encrypted by TLS, here or
// in a proxy.
func CheckExposure(addr string, signIn, private bool) error {
	if err := checkListen(addr); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(addr)
	switch {
	case IsLoopback(host):
		return nil
	case !signIn:
		return tool.Errorf(tool.Invalid, "will not listen on %s without sign-in: anyone who reaches it could use all "+
			"tools; write auth: {keys: true} into the configuration, or listen on a loopback address like "+
			"127.0.0.1:8420", addr)
	case !private:
		return tool.Errorf(tool.Invalid, "will not listen on %s without TLS: keys and results would travel in the "+
			"clear; write tls: {cert: FILE, key: FILE}, or tls: terminated where a proxy in front does it", addr)
	}
	return nil
}

// IsLoopback reports whether host, without a port, is a name or an address that only users of this
// machine can reach.
func IsLoopback(host string) bool {
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
