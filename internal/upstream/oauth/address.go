package oauth

import (
	"net"
	"net/url"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxAddress is the maximum length of an address from a server, in bytes.
const maxAddress = 2048

// parseAddress parses an address from a server. local reports whether it may be on this machine,
// without TLS.
func parseAddress(what, text string, local bool) (*url.URL, error) {
	if len(text) > maxAddress {
		return nil, tool.Errorf(tool.Unavailable, "the %s is longer than %d bytes", what, maxAddress)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return nil, tool.Errorf(tool.Unavailable, "the %s is not a valid address: %.100q", what, text)
	}
	if err := checkSecure(u, local); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "the %s (%s) %w", what, shortLine(u.Scheme+"://"+u.Host), err)
	}
	u.Fragment = ""
	return u, nil
}

type insecureError string

func (e insecureError) Error() string { return string(e) }

// checkSecure returns an error if nothing secret may be sent to u. Addresses on this machine are
// allowed only if local is set. Otherwise a remote server could make us query hosts that only we
// can reach.
func checkSecure(u *url.URL, local bool) error {
	switch {
	case isLoopback(u) && !local:
		return insecureError("is on this machine, which a remote server must not name")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u) && !isLocalName(u):
		return nil
	case u.Scheme == "http" && isLocalName(u):
		return insecureError("is not https, and its name may resolve to another machine: write localhost or 127.0.0.1")
	case u.Scheme == "http":
		return insecureError("is not https")
	}
	return insecureError("is neither https nor http")
}

// isLoopback reports whether u is on this machine.
func isLoopback(u *url.URL) bool {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || isLocalName(u) {
		return true
	}
	if i := strings.IndexByte(host, '%'); i >= 0 { // a zone
		host = host[:i]
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// isLocalName reports whether u names this machine by a name below localhost. A name server may be
// asked for such a name, and may return any address.
func isLocalName(u *url.URL) bool {
	return strings.HasSuffix(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), ".localhost")
}

// sameOrigin reports whether scheme, host and port are equal.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) &&
		portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}

// canonicalResource returns the address of a server as a resource identifier (RFC 8707 section 2):
// without query and fragment, scheme and host in lower case, no lone trailing slash.
func canonicalResource(u *url.URL) string {
	v := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	if v.Path == "/" {
		v.Path, v.RawPath = "", ""
	}
	return v.String()
}

// coversServer reports whether tokens for resource are also for the server at u: same origin, and a
// path equal to or above the server's. RFC 9728 section 3.3 requires equality, but many servers
// name their origin for everything below.
func coversServer(resource, u *url.URL) bool {
	if !sameOrigin(resource, u) || resource.RawQuery != "" {
		return false
	}
	above, path := strings.TrimSuffix(resource.EscapedPath(), "/"), strings.TrimSuffix(u.EscapedPath(), "/")
	return above == path || strings.HasPrefix(path, above+"/") && !strings.Contains(path, "/..") &&
		!strings.Contains(strings.ToLower(path), "%2e")
}

// wellKnown inserts suffix between the host and the path of u (RFC 8414 section 3.1, RFC 9728
// section 3.1).
func wellKnown(u *url.URL, suffix string) *url.URL {
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	v := &url.URL{Scheme: u.Scheme, Host: u.Host}
	return v.JoinPath("/.well-known/" + suffix + path)
}
