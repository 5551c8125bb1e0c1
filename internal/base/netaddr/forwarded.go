package netaddr

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientOf returns the address of the client of a request. peer is the other end of the connection.
// If it is a trusted proxy, the client is the last address in X-Forwarded-For that is not of a
// trusted proxy. Each proxy appends the address that it sees, so what precedes that one is only
// what the client claims. If all are of trusted proxies, the client is the first one.
func ClientOf(peer netip.Addr, header http.Header, trusted []netip.Prefix) netip.Addr {
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	client := peer.Unmap().WithZone("")
	values := header.Values("X-Forwarded-For")
	rest := strings.Join(values, ",") // as RFC 9110, section 5.2, combines the lines of a field
	for more := len(values) > 0; more && isTrusted(client); {
		cut := strings.LastIndexByte(rest, ',')
		a, ok := parseElement(rest[cut+1:])
		if !ok {
			break // the element is malformed, so its sender is unknown
		}
		client, rest, more = a, rest[:max(cut, 0)], cut >= 0
	}
	return client
}

// parseElement parses an element of X-Forwarded-For: an address, which some proxies write with
// its port.
func parseElement(s string) (a netip.Addr, ok bool) {
	s = strings.Trim(s, " \t")
	a, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		var with netip.AddrPort
		with, err = netip.ParseAddrPort(s)
		a = with.Addr()
	}
	return a.Unmap().WithZone(""), err == nil
}
