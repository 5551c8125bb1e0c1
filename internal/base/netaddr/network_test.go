package netaddr_test

import (
	"net/netip"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
)

func TestNetwork64(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:0:1:ffff::1": "2001:db8:0:1::/64",
		"2001:db8:0:1::2": "2001:db8:0:1::/64",
		"2001:db8:0:2::2": "2001:db8:0:2::/64", "fe80::1%eth0": "fe80::/64", "::1": "::/64",
	} {
		if got := netaddr.Network64(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s counts for %s, want %s", address, got, want)
		}
	}
	if got := netaddr.Network64(netip.Addr{}); got != "local" {
		t.Errorf("no address counts for %s", got)
	}
}
