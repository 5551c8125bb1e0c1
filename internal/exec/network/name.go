package network

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"

	"github.com/biplane-dev/biplane/internal/tool"
)

// canonicalHost returns the one spelling of a host: a name in lower case without a dot at its end,
// or an address. It fails for everything that isn't a plain ASCII host name, and for the notations
// of addresses that only some programs know.
func canonicalHost(s string) (string, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return a.Unmap().String(), nil
	}
	s = strings.ToLower(strings.TrimSuffix(s, "."))
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, func(c rune) bool {
				return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_')
			}) {
			return "", errHost(s)
		}
	}
	last := labels[len(labels)-1]
	if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.Trim(last, "0123456789") == "" || len(s) > 253 {
		return "", errHost(s)
	}
	return s, nil
}

func errHost(s string) error {
	if len(s) > 80 {
		s = s[:80]
	}
	return tool.Errorf(tool.Invalid, "invalid host name %q: write a name in ASCII (xn--...), or an address as four "+
		"numbers", s)
}

// A target is the destination of a connection.
type target struct {
	host string // canonical
	port int
}

// parseTarget parses HOST:PORT. Without a port, it uses the default.
func parseTarget(s string, port int) (t target, err error) {
	host, text, err := net.SplitHostPort(s)
	switch {
	case err == nil:
		if t.port, err = strconv.Atoi(text); err != nil || t.port < 1 || t.port > 65535 ||
			text != strconv.Itoa(t.port) {
			return t, tool.Errorf(tool.Invalid, "invalid port in %q: write a number from 1 to 65535", clipText(s))
		}
	case port != 0 && (!strings.Contains(s, ":") || strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]")):
		host, t.port = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"), port
	default:
		return t, tool.Errorf(tool.Invalid, "invalid target %q: write a host and a port, such as api.example.com:443",
			clipText(s))
	}
	t.host, err = canonicalHost(host)
	return t, err
}

func clipText(s string) string { return s[:min(len(s), 100)] }

// makeURL returns the URL of a path at the target. A path begins with a slash.
func (t target) makeURL(scheme, path string) string {
	return scheme + "://" + net.JoinHostPort(t.host, strconv.Itoa(t.port)) + path
}

// Pins assigns an address of 127.0.0.0/8 to each name, for the life of a sandbox.
type pins struct {
	mu     sync.Mutex
	byName map[string]netip.Addr
	byAddr map[netip.Addr]string
	next   netip.Addr
}

func newPins() *pins {
	return &pins{byName: map[string]netip.Addr{}, byAddr: map[netip.Addr]string{},
		next: netip.AddrFrom4([4]byte{127, 64, 0, 1})}
}

// pinName returns the address of a name. It reports false if there are too many names.
func (p *pins) pinName(name string) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.byName[name]; ok {
		return a, true
	}
	if len(p.byName) >= maxNames {
		return netip.Addr{}, false
	}
	a := p.next
	p.next = a.Next()
	p.byName[name], p.byAddr[a] = a, name
	return a, true
}

// findName returns the name that has an address, or the address itself.
func (p *pins) findName(a netip.Addr) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, ok := p.byAddr[a]; ok {
		return name
	}
	return a.String()
}
