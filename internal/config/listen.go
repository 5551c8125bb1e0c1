package config

import "net/netip"

// Listening configures where serve listens, and what is in front of it.
type Listening struct {
	Listen  string // host:port for serve
	TLS     TLS
	Proxies []netip.Prefix // addresses of the proxies whose X-Forwarded-For is believed
}

// maxProxies is the maximum number of address ranges of proxies.
const maxProxies = 64

// readProxies reads the addresses of the trusted proxies. A range of all addresses is an error:
// every client could then choose its own address.
func readProxies(r *reader, n *node) (out []netip.Prefix) {
	texts := r.readTexts(n, "trusted_proxies")
	if len(texts) > maxProxies {
		r.addProblem(n, "trusted_proxies has %d address ranges, at most %d: write larger ones", len(texts), maxProxies)
		return nil
	}
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, aerr := netip.ParseAddr(text); aerr == nil && a.Zone() == "" {
			p, err = a.Prefix(a.BitLen())
		}
		switch {
		case err != nil || p != p.Masked() || p.Addr().Is4In6():
			r.addProblem(n.list[i], "trusted_proxies: invalid address range %q: write one like 10.20.0.0/16, or an "+
				"address", clipText(text))
		case p.Bits() == 0:
			r.addProblem(n.list[i], "trusted_proxies: %s is every address, so each client could choose its own: "+
				"write the addresses of the proxies", text)
		default:
			out = append(out, p)
		}
	}
	return out
}

// showProxies returns the printable form of the trusted proxies.
func (l *Listening) showProxies() (out []string) {
	for _, p := range l.Proxies {
		out = append(out, p.String())
	}
	return out
}
