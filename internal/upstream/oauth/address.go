package oauth

import (
	"net"
	"net/url"
	"strings"

	"github.com/biplane-dev/biplane/internal/tool"
)

// maxAddress bounds the addresses that servers name, bytes.
const maxAddress = 2048

// address reads an address that a server named. local says whether it may be on this machine, without TLS.
func address(what, text string, local bool) (*url.URL, error) {
	if len(text) > maxAddress {
		return nil, tool.Errorf(tool.Unavailable, "the %s is longer than %d bytes", what, maxAddress)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Opaque != "" {
		return nil, tool.Errorf(tool.Unavailable, "the %s is no address: %.100q", what, text)
	}
	if err := checkSecure(u, local); err != nil {
		return nil, tool.Errorf(tool.Unavailable, "the %s (%s) %w", what, line(u.Scheme+"://"+u.Host), err)
	}
	u.Fragment = ""
	return u, nil
}

type insecure string

func (e insecure) Error() string { return string(e) }

// checkSecure says why nothing secret may go to u. What is on this machine may be asked only where local says so: else a
// server far away could have us ask what only we can reach.
func checkSecure(u *url.URL, local bool) error {
	switch {
	case loopback(u) && !local:
		return insecure("is on this machine, which a server elsewhere must not name")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u) && !named(u):
		return nil
	case u.Scheme == "http" && named(u):
		return insecure("is not https, and its name may lead elsewhere: write localhost or 127.0.0.1")
	case u.Scheme == "http":
		return insecure("is not https")
	}
	return insecure("is neither https nor http")
}

// loopback says whether u names this machine.
func loopback(u *url.URL) bool {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	if host == "localhost" || named(u) {
		return true
	}
	if i := strings.IndexByte(host, '%'); i >= 0 { // a zone
		host = host[:i]
	}
	ip := net.ParseIP(host)
	return ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// named says whether u names this machine by a name below localhost, for which a name server may be asked, and may say
// anything.
func named(u *url.URL) bool {
	return strings.HasSuffix(strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), ".localhost")
}

// sameOrigin compares scheme, host and port.
func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
}

// canonical is the address of a server as a resource identifier (RFC 8707 section 2): without query and fragment, scheme
// and host in lower case, no lone slash at the end.
func canonical(u *url.URL) string {
	v := url.URL{Scheme: strings.ToLower(u.Scheme), Host: strings.ToLower(u.Host), Path: u.Path, RawPath: u.RawPath}
	if v.Path == "/" {
		v.Path, v.RawPath = "", ""
	}
	return v.String()
}

// covers says whether tokens for resource are for the server at u, too: the same origin, and a path that is the server's or
// above it. RFC 9728 section 3.3 wants them the same; servers that name their origin for all that is below are many.
func covers(resource, u *url.URL) bool {
	if !sameOrigin(resource, u) || resource.RawQuery != "" {
		return false
	}
	above, path := strings.TrimSuffix(resource.EscapedPath(), "/"), strings.TrimSuffix(u.EscapedPath(), "/")
	return above == path || strings.HasPrefix(path, above+"/") && !strings.Contains(path, "/..") && !strings.Contains(strings.ToLower(path), "%2e")
}

// wellKnown puts suffix between the host and the path of u (RFC 8414 section 3.1, RFC 9728 section 3.1).
func wellKnown(u *url.URL, suffix string) *url.URL {
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	v := &url.URL{Scheme: u.Scheme, Host: u.Host}
	return v.JoinPath("/.well-known/" + suffix + path)
}
