package netaddr

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// ErrPrivate means that a host has no public address.
var ErrPrivate = errors.New("the host has no public address")

// DialPublic resolves a host once, and connects to one of its public addresses that don't belong to
// this machine. It returns ErrPrivate if there is none.
func DialPublic(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{a}
	} else if addrs, err = net.DefaultResolver.LookupNetIP(ctx, "ip", host); err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 10 * time.Second}
	last := ErrPrivate
	for _, a := range addrs {
		if !IsPublic(a) || isOwn(a) {
			continue
		}
		var conn net.Conn
		if conn, last = d.DialContext(ctx, network, net.JoinHostPort(a.Unmap().String(), port)); last == nil {
			return conn, nil
		}
	}
	return nil, last
}

// isOwn reports whether an address belongs to this machine, where servers may trust local clients.
// It returns true if that can't be determined.
func isOwn(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	return err != nil || IsOneOf(all, a)
}
