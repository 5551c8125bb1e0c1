// Package netaddr classifies network addresses.
package netaddr

import (
	"net"
	"net/netip"
	"slices"
)

// IsPublic reports whether an address is public: IANA's special-purpose registries (RFC 6890 and
// later) leave it so, and clouds don't use it for their own machines. Addresses that embed another
// one (6to4, NAT64, Teredo) are not public.
func IsPublic(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	in := func(list ...string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return netip.MustParsePrefix(s).Contains(a) })
	}
	if a.Is4() {
		return !in("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
			"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
			"192.88.99.0/24", "192.168.0.0/16", "168.63.129.16/32", "198.18.0.0/15", "198.51.100.0/24",
			"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4")
	}
	return in("2000::/3") && !in("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
}

// IsOneOf reports whether an address belongs to one of the interfaces, as net.InterfaceAddrs
// returns them. Zones don't count.
func IsOneOf(all []net.Addr, a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(all, func(one net.Addr) bool {
		p, err := netip.ParsePrefix(one.String())
		return err == nil && p.Addr().Unmap().WithZone("") == a
	})
}

// Network64 returns the network that an address counts for. It is the address itself for IPv4, and
// the /64 of one subscriber for IPv6. It is "local" for an invalid address.
func Network64(a netip.Addr) string {
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	if !a.IsValid() {
		return "local"
	}
	return netip.PrefixFrom(a, 64).Masked().String()
}
