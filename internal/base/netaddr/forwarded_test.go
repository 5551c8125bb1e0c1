package netaddr_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/biplane-dev/biplane/internal/base/netaddr"
)

var proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}

func TestClientOf(t *testing.T) {
	for _, c := range []struct {
		peer   string
		values []string
		want   string
	}{
		{"10.0.0.1", nil, "10.0.0.1"},
		{"10.0.0.1", []string{"203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1", []string{"203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		{"10.0.0.1", []string{"203.0.113.9", "10.0.0.2,\t10.0.0.3"}, "203.0.113.9"},
		{"::ffff:10.0.0.1", []string{"::ffff:203.0.113.9"}, "203.0.113.9"},
		{"2001:db8:1::7", []string{"2001:db8:2::9"}, "2001:db8:2::9"},
		{"10.0.0.1", []string{"203.0.113.9:4711"}, "203.0.113.9"},
		{"10.0.0.1", []string{"[2001:db8:2::9]:4711"}, "2001:db8:2::9"},
		{"10.0.0.1", []string{"[2001:db8:2::9]"}, "2001:db8:2::9"},
		{"10.0.0.1", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"}, // a client inside

		// A client that isn't a proxy claims another address.
		{"203.0.113.9", []string{"192.0.2.1"}, "203.0.113.9"},
		// A client behind the proxy does, also in a header of its own.
		{"10.0.0.1", []string{"192.0.2.1, 203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1", []string{"192.0.2.1", "203.0.113.9"}, "203.0.113.9"},
		{"10.0.0.1", []string{"10.9.9.9, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"},
		// What isn't an address ends the search.
		{"10.0.0.1", []string{"192.0.2.1, unknown"}, "10.0.0.1"},
		{"10.0.0.1", []string{"192.0.2.1, , 10.0.0.2"}, "10.0.0.2"},
		{"10.0.0.1", []string{"192.0.2.1,"}, "10.0.0.1"},
		{"10.0.0.1", []string{""}, "10.0.0.1"},
	} {
		got := netaddr.ClientOf(netip.MustParseAddr(c.peer), http.Header{"X-Forwarded-For": c.values}, proxies)
		if got.String() != c.want {
			t.Errorf("from %s with %q: %s, want %s", c.peer, c.values, got, c.want)
		}
	}
	peer := netip.MustParseAddr("10.0.0.1")
	if got := netaddr.ClientOf(peer, http.Header{"X-Forwarded-For": {"192.0.2.1"}}, nil); got != peer {
		t.Errorf("without trusted proxies: %s, want %s", got, peer)
	}
}

// FuzzClientOf checks that what a client sends can't change the address that the proxy appends.
func FuzzClientOf(f *testing.F) {
	f.Add("192.0.2.1, 10.0.0.2")
	f.Add("[::1]:80,,\x00,10.0.0.1")
	f.Add(strings.Repeat("10.0.0.2,", 1000))
	f.Fuzz(func(t *testing.T, sent string) {
		for _, values := range [][]string{{sent + ", 203.0.113.9"}, {sent, "203.0.113.9"},
			{sent, "203.0.113.9, 10.0.0.2"}} {
			got := netaddr.ClientOf(netip.MustParseAddr("10.0.0.1"), http.Header{"X-Forwarded-For": values}, proxies)
			if got.String() != "203.0.113.9" {
				t.Errorf("after %q: %s, want the address that the proxy saw", sent, got)
			}
		}
	})
}
