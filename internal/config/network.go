package config

import "net/netip"

// Network configures which addresses programs may reach besides public ones.
type Network struct {
	Private []netip.Prefix
}

func (r *reader) readNetwork(n *node, s *Network) {
	r.readObject(n, "network", key{
		"private": func(n *node) {
			for _, text := range r.readTexts(n, "network.private") {
				p, err := netip.ParsePrefix(text)
				if err != nil || p != p.Masked() {
					r.addProblem(n, "network.private: invalid address range %q: write one like 10.20.0.0/16, or "+
						"127.0.0.1/32 for one address", clipText(text))
					continue
				}
				s.Private = append(s.Private, p)
			}
		},
	})
}
