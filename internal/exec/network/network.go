// Package network is the host's end of the networks of sandboxes. A sandbox has no route to
// anything. Its only connections are listeners inside it, which it handed to the host when it
// started (package netns). They are served here: a name server, an HTTP proxy, and listeners that
// accept connections to any address.
//
// The name server answers only names that policy could permit, each with an address of 127.0.0.0/8
// of its own. So a connection's address says which name the program meant. What a client says about
// its server must agree with that: the name in TLS (SNI), the Host of HTTP, the target of CONNECT.
// Then policy decides, as on a program's fetch (sandbox.Traffic), and package egress connects to a
// checked address.
//
// TLS passes through encrypted if policy permits the connection whatever its requests are.
// Otherwise it is decrypted with a certificate from an authority that only this sandbox trusts, and
// each request is decided on.
package network

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/biplane-dev/biplane/internal/exec/sandbox"
	"github.com/biplane-dev/biplane/internal/exec/sandbox/netns"
)

// Limits of a sandbox's network.
const (
	maxNames       = 4096 // that are answered
	maxConnections = 256  // at a time
	maxRecorded    = 1000 // refusals within countWindow; further ones are dropped unrecorded
	maxVerdicts    = 5000 // names within countWindow that policy is asked about
	countWindow    = time.Hour
	verdictLife    = time.Second
	maxHeaders     = 64 << 10
	sniffTime      = 10 * time.Second       // for the first bytes of a client
	silentTime     = 500 * time.Millisecond // for a client whose protocol may let the server speak first
	headerTime     = 30 * time.Second
	idleTime       = 2 * time.Minute
	requestTime    = 15 * time.Minute
)

// Config configures a Network. The zero value is valid.
type Config struct {
	Ports       []int  // that connections can be made to without the proxy; default 80 and 443
	Authorities string // further certificates that sandboxes trust, in PEM
	// Variables are further environment variables of programs: NAME=value.
	Variables []string
	// Opened are the hosts, in lower case, whose TLS is always decrypted.
	Opened []string
	Log    *slog.Logger
}

// A Network creates the host's ends of sandboxes' networks. It is a sandbox.Network.
type Network struct{ cfg Config }

// NewNetwork returns a Network.
func NewNetwork(cfg Config) *Network {
	if len(cfg.Ports) == 0 {
		cfg.Ports = []int{80, 443}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Network{cfg: cfg}
}

// NewGate returns the host's end for a new sandbox, with an authority of its own.
func (n *Network) NewGate() (sandbox.Gate, error) {
	a, err := newAuthority()
	if err != nil {
		return nil, err
	}
	return &gate{cfg: n.cfg, authority: a, pins: newPins()}, nil
}

// listVariables returns the variables by which common programs find the proxy and the certificates.
func listVariables() []string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(netns.ProxyPort)
	var out []string
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		out = append(out, name+"="+proxy)
	}
	for _, name := range []string{"NO_PROXY", "no_proxy"} {
		out = append(out, name+"=localhost,127.0.0.1,::1")
	}
	for _, name := range []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO",
		"PIP_CERT", "npm_config_cafile"} {
		out = append(out, name+"="+netns.BundlePath)
	}
	return append(out, "NODE_EXTRA_CA_CERTS="+netns.AuthorityPath)
}
