package config

import (
	"crypto/x509"
	"io"
	"net/netip"
	"os"
	"slices"

	"github.com/biplane-dev/biplane/internal/base/text"
	"github.com/biplane-dev/biplane/internal/exec/egress"
)

// Network configures what programs may reach, besides policy.
type Network struct {
	Private []netip.Prefix // addresses besides public ones
	// Ports lead out of sandboxes with a network, besides the proxy; nil: the default.
	Ports []int
	// Authorities are certificates that are trusted besides the system's, in PEM.
	Authorities []byte
	Secrets     []egress.Secret // inserted into programs' requests
}

// Limits of the network's configuration.
const (
	maxPorts       = 32
	maxAuthorities = 16 << 10 // bytes
)

func (r *fileReader) readNetwork(n *node) {
	s := &r.c.Network
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
		"ports":       func(n *node) { s.Ports = readPorts(r.reader, n) },
		"secrets":     func(n *node) { s.Secrets = readNetworkSecrets(r.reader, n, "network.secrets") },
		"authorities": func(n *node) { s.Authorities = readAuthorities(r.reader, n) },
	})
}

// readPorts reads the ports that lead out of sandboxes.
func readPorts(r *reader, n *node) (ports []int) {
	if n.kind != listNode || len(n.list) == 0 || len(n.list) > maxPorts {
		r.addProblem(n, "network.ports must be a list of 1 to %d ports, such as [80, 443, 5432]", maxPorts)
		return nil
	}
	for _, e := range n.list {
		port := r.readCount(e, "network.ports", 1, 65535)
		if port == 53 || port == 3128 {
			r.addProblem(e, "network.ports: %d is for the sandbox's own name server or proxy", port)
		}
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// readAuthorities reads a file of certificates.
func readAuthorities(r *reader, n *node) []byte {
	path := r.resolvePath(r.readText(n, "network.authorities"))
	f, err := os.Open(path)
	if err != nil {
		r.addProblem(n, "network.authorities: %v", err)
		return nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAuthorities+1))
	switch {
	case err != nil:
		r.addProblem(n, "network.authorities: %v", err)
	case len(b) > maxAuthorities:
		r.addProblem(n, "network.authorities: %s has over %s: name the few authorities that the system doesn't trust",
			path, text.Size(maxAuthorities))
	case !x509.NewCertPool().AppendCertsFromPEM(b):
		r.addProblem(n, "network.authorities: %s has no certificate in PEM", path)
	default:
		return b
	}
	return nil
}
