package config

import "net/netip"

// Network configures which addresses programs may reach besides public ones.
type Network struct {
	Private []netip.Prefix
}

func (r *reader) network(n *node, s *Network) {
	r.object(n, "network", key{
		"private": func(n *node) {
			for _, text := range r.texts(n, "network.private") {
				p, err := netip.ParsePrefix(text)
				if err != nil || p != p.Masked() {
					r.wrong(n, "network.private: %q is no range of addresses: write one like 10.20.0.0/16, or 127.0.0.1/32 for one address", clip(text))
					continue
				}
				s.Private = append(s.Private, p)
			}
		},
	})
}
