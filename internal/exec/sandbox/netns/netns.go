// Package netns opens the listeners through which programs in a network namespace reach the
// gateway, and passes them to the host. The namespace has the loopback interface and nothing else,
// so there is no other way out. This package imports almost nothing: it runs while a sandbox
// starts.
package netns

// Addresses inside the namespace, and paths in the sandbox's root.
const (
	NameServer = "127.0.0.1" // answers names, port 53
	ProxyPort  = 3128        // of 127.0.0.1: the HTTP proxy
	// AuthorityPath is the file with the certificates that the sandbox trusts besides the host's.
	AuthorityPath = "/etc/biplane-ca.pem"
	// BundlePath is the file with these and the host's.
	BundlePath = "/etc/biplane-ca-bundle.pem"
)

// The indexes of the fixed listeners. Those of the transparent ports follow.
const (
	Names    = iota // UDP 127.0.0.1:53
	LongName        // TCP 127.0.0.1:53
	Proxy           // TCP 127.0.0.1:ProxyPort
	FirstPort
)

// A Setup describes the network of a sandbox.
type Setup struct {
	Ports       []int    `json:"ports"`       // TCP ports of all addresses that lead out, besides the proxy's
	Authorities string   `json:"authorities"` // certificates in PEM, for AuthorityPath
	Environment []string `json:"environment"` // of programs: NAME=value
}
